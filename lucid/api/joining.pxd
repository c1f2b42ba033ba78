from lucid.core.primitive cimport apply
from lucid.core.tensor cimport shape_of
