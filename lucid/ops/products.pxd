from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, array_of, save_input
from lucid.core.primitive cimport attach, edge_of, synced


cpdef object dot(object x, object y)
cpdef object _product_array(object x, object y, bint flip_x, bint flip_y)
