cimport cython
from lucid.core.fields cimport Edge, TensorFields
from lucid.core.node cimport Node
from lucid.core.primitive cimport edge_of


@cython.locals(fields=TensorFields)
cpdef bint carries_grad(object tensor)
@cython.locals(edge=Edge, node=Node)
cpdef bint leads_outside(object outputs, object variables, object inside=*)
@cython.locals(edge=Edge, node=Edge, seq=cython.longlong, before=cython.longlong)
cpdef dict first_uses(object roots, dict leaves)
cdef bint _carried(object saved)
