from lucid.core.levels cimport newest
from lucid.core.fields cimport TensorFields
