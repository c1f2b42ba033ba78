from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport Primitive, apply
from lucid.ops.contraction cimport Labels, pulled_left, pulled_right
