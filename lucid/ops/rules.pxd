cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport apply, element_type, synced
from lucid.core.tensor cimport is_plain


@cython.locals(rank=cython.Py_ssize_t, lowest=cython.Py_ssize_t, own=cython.Py_ssize_t)
cpdef object align(object values, object batched, object size)
cdef Py_ssize_t _rank(object value)
cpdef bint is_array(TensorFields x) except -1
