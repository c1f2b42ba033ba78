# Functions that compiled code calls without Python's calling convention, with the C types of their variables.

cimport cython
from lucid.core.fields cimport Edge, TensorFields
from lucid.core.node cimport Node, array_of, save_input, save_output, split_edges, tensor_of
from lucid.core.storage cimport Saved, Storage, View, storage_of


cpdef object unpack(Node node, object ct)
@cython.locals(view=View, below=TensorFields)
cpdef object synced(TensorFields tensor)
@cython.locals(tensor=TensorFields)
cpdef object apply(object prim, object args, dict params)
@cython.locals(made=TensorFields, view=View)
cpdef object apply_to_one(object prim, TensorFields x, dict params)
@cython.locals(storage=Storage)
cpdef object note_view(object prim, TensorFields base, dict params, TensorFields out)
cpdef bint shares_memory(TensorFields base, TensorFields out)
@cython.locals(fields=TensorFields)
cpdef object element_type(object tensor)
cpdef object edge_of(TensorFields tensor)
@cython.locals(node=Node, before=Node)
cpdef Node attach(
    TensorFields out, object prim, Edge left, object right, tuple others, object saved, int place_of_saved,
    object shapes, dict params, object shape,
)
cpdef object look_at(Node node, TensorFields out)
