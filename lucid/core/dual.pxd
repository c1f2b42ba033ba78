from lucid.core.levels cimport newest
from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport synced
