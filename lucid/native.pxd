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

    static inline PyObject *filename_of(PyObject *code) {
        PyObject *name = ((PyCodeObject *)code)->co_filename;
        Py_INCREF(name);
        return name;
    }

    static inline PyObject *caller_of(PyObject *frame) {
        PyObject *caller = (PyObject *)PyFrame_GetBack((PyFrameObject *)frame);
        return caller == NULL ? Py_NewRef(Py_None) : caller;
    }

    /* The last field of the objects is room for a dictionary, which the interpreter makes, visits and frees. */
    static inline PyObject *give_attributes(PyObject *kind) {
        PyTypeObject *type = (PyTypeObject *)kind;
        type->tp_dictoffset = type->tp_basicsize - (Py_ssize_t)sizeof(PyObject *);
        PyType_Modified(type);
        Py_RETURN_NONE;
    }

    static inline PyObject *attributes_of(PyObject *o) {
        PyObject **place = _PyObject_GetDictPtr(o);
        PyObject *found = place == NULL || *place == NULL ? Py_None : *place;
        Py_INCREF(found);
        return found;
    }

    static inline PyObject *all_attributes_of(PyObject *o) { return PyObject_GenericGetDict(o, NULL); }
    static inline int set_all_attributes(PyObject *o, PyObject *to) { return PyObject_GenericSetDict(o, to, NULL); }
    """
    cpdef object new_instance(object kind)
    cpdef object current_frame()
    cpdef object filename_of(object code)
    cpdef object caller_of(object frame)
    cpdef object give_attributes(object kind)
    cpdef object attributes_of(object o)
    cpdef object all_attributes_of(object o)
    cpdef int set_all_attributes(object o, object to) except -1

cdef extern from "Python.h":
    cpdef void PyObject_GC_Track(object o)
    cpdef void PyObject_GC_UnTrack(object o)
    cpdef bint PyObject_GC_IsTracked(object o)
    cpdef bint PyObject_IS_GC(object o)
    cpdef object PyObject_Call(object function, tuple args, dict params)
    cpdef int PyObject_GenericSetAttr(object o, object name, object value) except -1
    cpdef object PyFrame_GetCode(object frame)
    cpdef int PyFrame_GetLasti(object frame)
