from lucid.core.fields cimport TensorFields, users_attributes
