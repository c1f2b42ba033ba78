cpdef object one_dim(object dim, Py_ssize_t ndim, object name)
cpdef tuple many_dims(object dim, Py_ssize_t ndim, object name)
