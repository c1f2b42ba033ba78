cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.node cimport Node, attach
from lucid.core.primitive cimport Primitive, apply, edge_of, synced
from lucid.core.storage cimport Storage, View, storage_of


@cython.locals(recorded=cython.bint, storage=Storage)
cpdef bint write_part(TensorFields base, Primitive primitive, dict params, TensorFields source, str name)
@cython.locals(storage=Storage)
cpdef Storage _tied_again(TensorFields target)
@cython.locals(view=View)
cpdef bint _unrecorded_view(TensorFields target)
cpdef object raise_if_not_writable(TensorFields target, str name, bint recorded, str of=*)
cpdef object raise_if_leaf(TensorFields tensor, str name, str of=*)
cpdef object rebase(TensorFields target, object node, object path=*)
