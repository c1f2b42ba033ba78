from lucid.core.primitive cimport Primitive, apply
