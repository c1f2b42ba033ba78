# The C layout of the classes in fields.py.

cpdef long long next_seq()


cdef class Edge:
    cdef public long long _seq
    cdef public bint _open


cdef class TensorFields(Edge):
    cdef object __weakref__
    cdef public object _array, _aux, _grad, _meta, _node
    cdef public long long _born, _level
    cdef public bint _held, _requires_grad
