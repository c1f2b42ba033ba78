cimport cython
from lucid.core.levels cimport newest
from lucid.core.fields cimport TensorFields


@cython.locals(fields=TensorFields)
cpdef object shape_of(object value)
@cython.locals(made=TensorFields)
cpdef TensorFields wrapped(object array)
