cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport Primitive, apply, element_type, run_plain, synced
from lucid.core.storage cimport View
from lucid.ops.categories cimport Elementwise


@cython.locals(needs=cython.longlong, bit=cython.longlong, inside=cython.bint, numbers=cython.bint, need=cython.bint,
               unlike=cython.bint,
               large=cython.bint, floats=cython.bint, common=cython.bint)
cpdef object called(Elementwise prim, tuple args, str policy, dict params)
