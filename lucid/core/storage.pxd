# The C layout of storages and views.

from lucid.core.fields cimport TensorFields


cdef class Storage:
    cdef public long long version
    cdef public object writer, views, print
    cdef public bint exposed
    cdef public Py_ssize_t room


cdef class View:
    cdef public object base, params, primitive
    cdef public int status
    cdef public Storage storage
    cdef public long long version


cpdef Storage storage_of(TensorFields tensor)
