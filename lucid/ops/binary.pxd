from lucid.core.levels cimport tracing
from lucid.core.primitive cimport constant, element_type, lift
from lucid.core.tensor cimport is_plain, shape_of, wrapped
from lucid.ops.elementwise cimport called
