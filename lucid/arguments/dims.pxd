cpdef object one_dim(object dim, Py_ssize_t ndim, object name)
cpdef tuple many_dims(object dim, Py_ssize_t ndim, object name)
cpdef tuple shape_from(tuple args, object name)
cpdef tuple sizes_from(tuple args, object name)
