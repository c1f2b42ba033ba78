cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, Plan, saved_at
from lucid.core.primitive cimport Primitive, Rule, apply, bare
from lucid.core.tensor cimport wrapped


cdef class Way:
    cdef public int kind
    cdef public object back, fn, push_fn
    cdef public set refused
    cdef public tuple parameters
    cdef public Primitive chain
    cdef public Rule rule
    cpdef object pull(self, Node node, object ct)
    cpdef object passed(self, object ct, object read)
    cpdef object _pull_array(self, Node node, object ct)
    cpdef object push(self, object t, object values, dict params)


cdef class Elementwise(Primitive):
    cdef public tuple ways
    cdef public bint has_condition


cpdef object pass_back(Way way, Node node, object ct, object shape)
