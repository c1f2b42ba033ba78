cimport cython
from lucid.core.fields cimport TensorFields
from lucid.core.tensor cimport is_plain, wrapped


@cython.locals(fields=TensorFields)
cpdef object in_range(object positions, object size, object name=*, bint negative=*)
