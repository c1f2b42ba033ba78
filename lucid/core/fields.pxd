# The C layout of the classes in fields.py.

cimport cython
from lucid.native cimport PyObject_GenericSetAttr, PyObject_IS_GC, attributes_of, new_instance

cdef long long _newest, _marking

cpdef long long next_seq()
cpdef long long newest()
cpdef object begin(long long level)
cpdef object count_marking(long long by)


cdef class Edge:
    cdef public long long _seq
    cdef public bint _open


cdef class TensorFields(Edge):
    cdef object __weakref__
    cdef public object _array, _aux, _grad, _meta, _node
    cdef public long long _born, _level
    cdef public bint _held, _marked, _requires_grad
    cdef void* _attributes  # the last field, see `native.give_attributes`


cpdef open_tensor(TensorFields tensor)
cpdef users_attributes(TensorFields tensor)
@cython.locals(made=TensorFields)
cpdef TensorFields new_tensor(object kind, object array, object aux=*, long long level=*)
