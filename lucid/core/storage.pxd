# The C layout of storages and views.

cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.source_lines cimport here
from lucid.native cimport PyObject_GC_UnTrack


cdef class Storage:
    cdef public long long version
    cdef public object followers, print, severed, views, writer
    cdef public bint exposed
    cdef public Py_ssize_t room
    cpdef object bump(self, str operation)


cdef class View:
    cdef public object base, params, primitive, others
    cdef public int status
    cdef public Storage storage
    cdef public long long version


cdef class Saved:
    cdef public object edge, index, print, value
    cdef public Storage storage
    cdef public long long born, version
    cdef public bint is_output


@cython.locals(out=Storage)
cpdef Storage new_storage()
@cython.locals(out=View)
cpdef View new_view(object base, object primitive, dict params, Storage storage, int status)
@cython.locals(out=Saved, storage=Storage)
cpdef Saved saved_of(object value, TensorFields tensor, object edge, bint is_output)
cpdef Storage storage_of(TensorFields tensor)
