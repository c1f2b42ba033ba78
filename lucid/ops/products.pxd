cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, array_of, save_input, tensor_of
from lucid.core.primitive cimport attach, edge_of, synced
from lucid.ops.bare cimport bare_pair, example_shape, in_batch, of_two


@cython.locals(part=TensorFields)
cdef object _dual_by_plain(TensorFields input, TensorFields other)
cpdef object dot(object x, object y)
cpdef object _product_array(object x, object y, bint flip_x, bint flip_y)
