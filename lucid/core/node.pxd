# The C layout of a node and of what it saves.

cimport cython
from lucid.core.collector cimport descends_from_open
from lucid.core.fields cimport Edge, TensorFields, next_seq
from lucid.core.storage cimport Saved, Storage, saved_of, storage_of
from lucid.core.source_lines cimport climb
from lucid.native cimport PyFrame_GetCode, PyFrame_GetLasti, PyObject_GC_UnTrack, current_frame, filename_of


cdef class Node(Edge):
    cdef object __weakref__
    cdef public object code, hooks, left, others, params, prim, right, saved, shape, shapes
    cdef public long offset
    cdef public int place_of_saved
    cdef public bint _shown


cdef class OutputNode(Node):
    cdef public object index


cdef class Pruned(Node):
    cdef public Node whole


cdef class AccumulateGrad(Node):
    cdef public object leaf


cpdef tuple split_edges(tuple edges)
@cython.locals(node=Node)
cpdef Node _bare(object kind, object prim, tuple edges, object shape)
@cython.locals(out=OutputNode)
cpdef Node output_edge(Node node, object index)
cpdef object save_input(TensorFields tensor)
cpdef Saved save_output(TensorFields out)
cpdef object tensor_of(Node node, object saved)
cpdef object unrecorded(Node node, object saved)
@cython.locals(held=Saved, inside=TensorFields)
cpdef object array_of(Node node, object saved)
cpdef object _check_bare(Node node, object meta, object array)
cpdef object _check(Node node, Saved saved)


cdef class Plan:
    cdef public tuple keeps
    cdef public int alone, rest, size, source
    cdef public bint pair


@cython.locals(beside=TensorFields)
cpdef object saved_at(Node node, int place, object ct)
@cython.locals(node=Node, before=Node)
cpdef Node attach(
    TensorFields out, object prim, Edge left, object right, tuple others, object saved, int place_of_saved,
    object shapes, dict params, object shape, object mode=*
)
@cython.locals(left=Edge)
cpdef object settle(Node node)
cdef dict _known_files
cpdef object pack_saved(Node node)
cpdef object note_if_not_finite(Node node, object out)
