from lucid.core.node cimport Node
from lucid.core.primitive cimport Primitive, apply, bare, saved_at, wrapped
