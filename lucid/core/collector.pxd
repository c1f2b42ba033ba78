cimport cython
from lucid.core.fields cimport Edge
from lucid.native cimport PyObject_GC_IsTracked, PyObject_GC_Track

@cython.locals(met=Edge)
cpdef bint descends_from_open(tuple edges)
