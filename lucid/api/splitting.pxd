cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport apply, lift, status_of_view, synced
from lucid.core.storage cimport Storage, View, new_view, storage_of
from lucid.core.tensor cimport class_of, is_plain, shape_of, wrapped_as
from lucid.arguments.dims cimport one_dim


cdef tuple _at(Py_ssize_t d, object item)
@cython.locals(base=TensorFields, part=TensorFields, storage=Storage, status=cython.int)
cdef tuple _parts(object x, list places)
cdef tuple _pieces(object x, Py_ssize_t d, list bounds)
