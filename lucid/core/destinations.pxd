cimport cython
from lucid.native cimport PyObject_Call


cpdef object compute_into(object target, list tensors, object function, tuple args, dict params)
@cython.locals(count=cython.Py_ssize_t, tensors=list)
cpdef object filled_by(object prim, tuple args, tuple arrays, dict params)
