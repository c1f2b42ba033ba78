# The C layout of storages and views.

from lucid.core.fields cimport TensorFields


cdef class Storage:
    cdef public long long version
    cdef public object writer, views, print, followers
    cdef public bint exposed, severed


cdef class View:
    cdef public object base, params, primitive, others
    cdef public int status
    cdef public Storage storage
    cdef public long long version


cpdef Storage storage_of(TensorFields tensor)
