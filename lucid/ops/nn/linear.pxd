from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node
from lucid.core.primitive cimport Primitive, apply, saved_at
from lucid.ops.contraction cimport Labels
