# Functions that compiled code calls without Python's calling convention, with the C types of their variables.

cimport cython
from lucid.arguments.out cimport memory_for_numbers, note_write
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport constant, element_type
from lucid.core.tensor cimport is_plain, of_class, wrapped
from lucid.ops.rules cimport is_array


@cython.locals(fields=TensorFields, found=list)
cdef object _arrays_of(tuple operands)
cdef bint _is_alone(TensorFields x) except -1
