cimport cython
from lucid.core.fields cimport Edge
from lucid.core.node cimport Node
from lucid.core.storage cimport Saved

cdef extern from "Python.h":
    cpdef void PyObject_GC_Track(object o)
    cpdef void PyObject_GC_UnTrack(object o)
    cpdef bint PyObject_GC_IsTracked(object o)


@cython.locals(left=Edge)
cpdef object settle(Node node)
cdef bint _descends_from_open(Node node)
