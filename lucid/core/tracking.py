"""Python's own functions that put an object on the garbage collector's lists and take it off."""

import ctypes

PyObject_GC_Track = ctypes.pythonapi.PyObject_GC_Track
PyObject_GC_UnTrack = ctypes.pythonapi.PyObject_GC_UnTrack
PyObject_GC_IsTracked = ctypes.pythonapi.PyObject_GC_IsTracked
PyObject_GC_IsTracked.argtypes = [ctypes.py_object]
for _function in (PyObject_GC_Track, PyObject_GC_UnTrack):
    _function.argtypes, _function.restype = [ctypes.py_object], None
