from lucid.core.collector cimport settle
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, save_input, save_output
from lucid.core.primitive cimport attach, edge_of, look_at, synced
from lucid.core.storage cimport View

from lucid.ops.bare cimport constant, example_shape, of_one, of_two


cdef Node _attach_one(object prim, object plan, TensorFields a, TensorFields made, object shape)
cdef object _recorded_one(object prim, object plan, TensorFields input, TensorFields made)
cdef object _recorded_two(object prim, object plans, object input, object other, TensorFields made)
cdef object _kept(object operand, TensorFields made)
