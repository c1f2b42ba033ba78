cpdef tuple many_dims(object dim, Py_ssize_t ndim, str name)
cpdef tuple all_dims(Py_ssize_t ndim)
