from lucid.core.primitive cimport apply, element_type, lift
from lucid.core.tensor cimport shape_of
from lucid.ops.dims cimport all_dims, many_dims
