# What `native.py` has of Python's own machinery as compiled code finds it: functions of C.

cdef extern from *:
    """
    static inline PyObject *new_instance(PyObject *kind) {
        static PyObject *nothing = NULL;
        if (nothing == NULL && (nothing = PyTuple_New(0)) == NULL) return NULL;
        return ((PyTypeObject *)kind)->tp_new((PyTypeObject *)kind, nothing, NULL);
    }

    static inline PyObject *current_frame(void) {
        PyObject *frame = (PyObject *)PyEval_GetFrame();
        if (frame == NULL) PyErr_SetString(PyExc_RuntimeError, "no Python code is running");
        Py_XINCREF(frame);
        return frame;
    }
    """
    cpdef object new_instance(object kind)
    cpdef object current_frame()

cdef extern from "Python.h":
    cpdef void PyObject_GC_Track(object o)
    cpdef void PyObject_GC_UnTrack(object o)
    cpdef bint PyObject_GC_IsTracked(object o)
    cpdef object PyFrame_GetCode(object frame)
    cpdef int PyFrame_GetLasti(object frame)
