cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.node cimport Node, attach
from lucid.core.primitive cimport Primitive, apply, edge_of, synced
from lucid.core.storage cimport Storage, storage_of


@cython.locals(recorded=cython.bint, storage=Storage, tensors=list)
cpdef object write(
    TensorFields target, str name, object compute, object others=*, object direct=*, bint reads_old=*
)
@cython.locals(recorded=cython.bint, storage=Storage)
cpdef bint write_part(TensorFields base, Primitive primitive, dict params, TensorFields source, str name)
@cython.locals(storage=Storage)
cpdef Storage tied_again(TensorFields target)
cpdef bint is_unrecorded_view(TensorFields target) except -1
cpdef object raise_if_not_writable(TensorFields target, str name, bint recorded, str of=*)
cpdef object raise_if_leaf(TensorFields tensor, str name, str of=*)
cpdef object rebase(TensorFields target, object node, object path=*)
