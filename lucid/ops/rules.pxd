cimport cython
from lucid.core.arithmetic cimport multiply, negative
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, array_of, tensor_of
from lucid.core.primitive cimport unpack


@cython.locals(fields=TensorFields)
cpdef bint of_one_type(object args)
