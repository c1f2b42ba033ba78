cimport cython
from lucid.core.fields cimport newest
from lucid.core.levels cimport tracing


cdef class Generator:
    cdef object __weakref__
    cdef public object device, _seed, _offset, _bits, _lock, _born
    cpdef object at_once(self, object recipe, object shape, object into=*)
    cdef object _from_block(self, object recipe, object first, object shape, object into=*)
    cdef object _note(self)
    cdef object _chosen_seed(self)
    cdef object _move(self, object seed, object offset)


cpdef object default_generator()
cpdef object numbers_from(object source, Generator generator, object shape, object dtype)
cpdef bint fill(object source, Generator generator, object array) except -1
