cimport cython
from lucid.core.levels cimport newest
from lucid.core.fields cimport TensorFields


@cython.locals(fields=TensorFields)
cpdef object shape_of(object value)
cpdef TensorFields wrapped(object array)
@cython.locals(made=TensorFields)
cpdef TensorFields wrapped_as(object kind, object array)
cpdef bint is_plain(object value)
cpdef object class_of(tuple operands)
cpdef object of_class(object operands, object tensor)
