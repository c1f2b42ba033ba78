cimport cython
from lucid.core.fields cimport Edge, TensorFields
from lucid.core.node cimport Node
from lucid.core.primitive cimport edge_of


@cython.locals(fields=TensorFields)
cpdef bint carries_grad(object tensor)
@cython.locals(edge=Edge, node=Node)
cpdef bint leads_outside(object outputs, object variables, object inside=*)
cdef bint _carried(object saved)
