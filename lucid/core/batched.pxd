from lucid.core.fields cimport TensorFields
