from lucid.core.primitive cimport element_type, lift
from lucid.core.tensor cimport is_plain, shape_of, wrapped
from lucid.ops.elementwise cimport called
