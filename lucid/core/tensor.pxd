cimport cython
from lucid.core.fields cimport TensorFields, new_tensor, newest, open_tensor, users_attributes
from lucid.core.levels cimport tracing
from lucid.native cimport all_attributes_of, give_attributes, set_all_attributes


@cython.locals(fields=TensorFields)
cpdef object shape_of(object value)
cpdef TensorFields wrapped(object array)
cpdef TensorFields wrapped_as(object kind, object array)
@cython.locals(fields=TensorFields)
cpdef bint is_plain(object value)
cpdef object class_of(tuple operands)
cpdef object of_class(object operands, object tensor)
