from lucid.core.fields cimport Edge

cdef extern from "Python.h":
    cpdef void PyObject_GC_Track(object o)
    cpdef void PyObject_GC_UnTrack(object o)


cpdef object hide(Edge node)
