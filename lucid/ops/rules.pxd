cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node
from lucid.core.primitive cimport Primitive, Rule, apply, bare, element_type, saved_at, wrapped


cdef class Way:
    cdef public int kind
    cdef public object fn, push_fn
    cdef public Primitive chain
    cdef public Rule rule
    cpdef object pull(self, Node node, object ct)
    cpdef object _pull_array(self, Node node, object ct)
    cpdef object push(self, object t, object values, dict params)


cdef class Elementwise(Primitive):
    cdef public tuple ways


cpdef object pass_back(Way way, Node node, object ct, object shape)
@cython.locals(rank=cython.Py_ssize_t, i=cython.Py_ssize_t)
cpdef object align(object values, object batched, object size)
cdef Py_ssize_t _rank(object value)
