cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport Primitive, apply, element_type, lift
from lucid.core.tensor cimport is_plain, of_class, shape_of, wrapped
from lucid.arguments.dims cimport many_dims, one_dim
from lucid.ops.elementwise cimport called
from lucid.native cimport PyObject_Call
from lucid.ops.rules cimport is_array


cdef object _floats(object input, object name, object dtype=*)
cdef object _ordered(object input, object name)
cdef object _widened(object input, object dtype)
cdef object _as_asked(object out, object dtype)
cdef object _nonempty(object x, tuple dims, object name)
cpdef object pair(object kind, object first, object second)
cpdef object unseen(object x, object shape)
@cython.locals(prim=Primitive, params=dict)
cpdef object in_steps(TensorFields x, tuple steps)
cpdef object shown(Primitive prim, TensorFields x, dict params)
cpdef object _extreme(object input, object dim, bint keepdim, Primitive prim)
cpdef object chosen(object x, object positions, Py_ssize_t dim, bint keepdim, object kind)
cpdef object _max_or_min(object input, object dim, bint keepdim, object which)
cdef object _positions(object x, Py_ssize_t dim, Primitive prim)
cpdef object _argument(object input, object dim, bint keepdim, Primitive prim)
cpdef tuple spread(object input, object dim, object unbiased, object correction, object name)
cpdef object var_over(object x, tuple dims, object count, object divisor, bint keepdim)
cpdef object std_over(TensorFields x, tuple dims, object count, object divisor, bint keepdim)
cpdef object mean_over(TensorFields x, tuple dims, bint keepdim)
cdef object _centred(object x, tuple dims, object count)
cdef object _scan(Primitive prim, object input, object dim, object dtype, dict params)
cpdef object sum_over(object x, tuple dims, bint keepdim, object dtype=*)
cpdef object norm_over(object x, object p, tuple dims, bint keepdim)
