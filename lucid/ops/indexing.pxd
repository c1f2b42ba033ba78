cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.tensor cimport is_plain, wrapped


cpdef list along(object positions, object sizes, Py_ssize_t dim)
cpdef object counting(Py_ssize_t n, Py_ssize_t dim, Py_ssize_t ndim)
@cython.locals(fields=TensorFields)
cpdef object in_range(object positions, object size, object name=*, bint negative=*)
