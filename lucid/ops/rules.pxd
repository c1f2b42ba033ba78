cimport cython
from lucid.core.arithmetic cimport chain, chain_both, negative, sum_of_rows
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, array_of, tensor_of
from lucid.core.primitive cimport element_type, unpack
from lucid.ops.bare cimport of_plain, of_two


cdef bint _is_real(object ct)
@cython.locals(fields=TensorFields)
cpdef bint of_one_type(object args)
