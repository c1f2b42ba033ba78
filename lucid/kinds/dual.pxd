from lucid.core.fields cimport TensorFields, new_tensor
from lucid.core.primitive cimport synced
