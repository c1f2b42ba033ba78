from lucid.api.random cimport _floating, _whole, draw, stream_of, whole_numbers
from lucid.api.rng cimport fill
from lucid.arguments.out cimport memory_for_numbers, note_write
from lucid.core.primitive cimport constant, element_type


cdef object _fill_by_operations(object self, object source, object kind, tuple steps, object generator, str name)
cdef bint _filled_in_place(object self, object source, tuple steps, object generator) except -1
cdef object _number(object value)
