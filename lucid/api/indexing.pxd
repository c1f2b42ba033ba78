cimport cython
from lucid.core.fields cimport TensorFields
from lucid.arguments.out cimport memory_of, note_write, put
from lucid.tape.inplace cimport write, write_part
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport apply, constant, element_type, lift, synced
from lucid.core.tensor cimport is_plain, shape_of, wrapped
from lucid.arguments.dims cimport one_dim
from lucid.ops.indexing cimport along, counting, in_range


cdef class Put:
    cdef public str name
    cdef public list positions
    cdef public object source
    cdef public str combine
    cdef public bint fits


@cython.locals(fields=TensorFields)
cdef tuple _arrays(list tensors)
cdef bint _is_basic(tuple key)
cpdef bint is_common(object value, object kind) except -1
cdef object _source(object input, object value)
cpdef object _basic(object x, tuple key)
