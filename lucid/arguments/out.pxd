cimport cython
from lucid.core.destinations cimport compute_into
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport constant, element_type, synced
from lucid.core.storage cimport Storage
from lucid.core.tensor cimport is_plain, shape_of
from lucid.native cimport PyObject_Call
from lucid.tape.inplace cimport is_unrecorded_view, tied_again


cdef class One:
    cdef public object policy, primitive, settings, with_keyword
    cdef public dict defaults
    cdef public str keyword
    cdef public bint has_parameters
    cpdef bint takes(self, object primitive, object kind) except -1


@cython.locals(storage=Storage)
cdef bint _is_free(TensorFields target) except -1
cpdef object memory_of(TensorFields target, TensorFields source)
cpdef object memory_for_numbers(TensorFields target)
@cython.locals(storage=Storage)
cpdef object note_write(TensorFields target, str name)
cpdef bint put(TensorFields target, TensorFields source, str name) except -1
@cython.locals(fields=TensorFields, storage=Storage, requires_grad=cython.bint, common=cython.bint, direct=cython.bint, tensors=list, arrays=list, given=tuple, settings=dict)
cpdef bint computed_into(TensorFields target, str name, One one, object function, tuple args, dict params) except -1
@cython.locals(fields=TensorFields)
cdef bint _one_requires_grad(object values) except -1
@cython.locals(fields=TensorFields, requires_grad=cython.bint)
cpdef bint computed_apart(TensorFields target, str name, object function, tuple args, dict params) except -1
cdef bint _put_converted(TensorFields target, object found, str name) except -1
