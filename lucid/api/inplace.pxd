from lucid.core.fields cimport TensorFields
from lucid.core.primitive cimport constant, element_type, lift
from lucid.core.tensor cimport is_plain, shape_of, wrapped
from lucid.arguments.out cimport One, computed_apart, computed_into, memory_for_numbers, note_write, put
from lucid.tape.inplace cimport write
