from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, array_of, save_input
from lucid.core.primitive cimport attach, edge_of, synced
from lucid.ops.products cimport dot
