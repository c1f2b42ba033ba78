cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.node cimport Node, attach
from lucid.core.primitive cimport Primitive, apply, edge_of, synced
from lucid.core.storage cimport Storage, View, storage_of


@cython.locals(recorded=cython.bint)
cpdef bint write_part(TensorFields base, Primitive primitive, dict params, TensorFields source, str name)
cpdef object rebase(TensorFields target, object node, object path=*)
