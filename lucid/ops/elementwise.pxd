from lucid.core.collector cimport hide
from lucid.core.fields cimport TensorFields
from lucid.core.node cimport Node, save_input, save_output
from lucid.core.primitive cimport attach, look_at, synced
from lucid.core.storage cimport View


cdef object constant(object value, object kind)
