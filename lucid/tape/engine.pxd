# The C types of the backward pass.

cimport cython
from lucid.core.fields cimport Edge, TensorFields
from lucid.core.node cimport Node
from lucid.core.primitive cimport Primitive, edge_of, element_type, pulled_by_tensors, synced
from lucid.core.storage cimport storage_of
from lucid.core.tensor cimport class_of, of_class, wrapped, wrapped_as


cdef class Targets:
    cdef public set nodes, leaves, needed
    cpdef bint wants(self, Edge edge)
    @cython.locals(edge=Edge)
    cpdef Node pruned(self, Node node)
    @cython.locals(edge=Edge, node=Node, seq=cython.longlong, oldest=cython.longlong, own=cython.longlong)
    cpdef object _find_the_way(self, list roots)


@cython.locals(
    node=Node, acting=Node, ahead=Node, edge=Edge, prim=Primitive, seq=cython.longlong, everything=cython.bint,
    own=cython.bint, ahead_own=cython.bint, is_new=cython.bint, splits=cython.bint, goes_on=cython.bint,
    due=cython.longlong, i=cython.Py_ssize_t,
)
cdef _sweep(object roots, object seeds, Targets targets, bint retain_graph, bint accumulate, object arrivals)
@cython.locals(prim=Primitive)
cpdef object pull_back(Node node, object ct)
@cython.locals(seq=cython.longlong)
cdef _hand_on(Edge edge, object ct, bint own, dict pending, list heap, dict leaves)
cdef _add(list held, object new, bint own)
@cython.locals(edge=Edge, held=list)
cdef bint _add_to_operand(Node node, object ct, dict pending, dict leaves)
cdef _sum(object a, object b)
@cython.locals(edge=Edge, held=list)
cdef object _result(TensorFields tensor, dict captured, dict leaves, object lent)
cdef object _shown_at_no_cost(list held, object tensor, object lent)
cpdef object _take(list held, object tensor)
@cython.locals(leaf=TensorFields)
cdef bint _into_plain_leaf(list held, bint create_graph) except -1
