from lucid.api.rng cimport default_generator, numbers_from
from lucid.arguments.dims cimport sizes_from
from lucid.core.levels cimport tracing
from lucid.core.primitive cimport lift
from lucid.core.tensor cimport is_plain, of_class, shape_of, wrapped


cpdef object draw(
    object source, object shape, object kind, object generator, str caller, object finish=*, object dtype=*, object device=*
)
cpdef object stream_of(object generator)
cpdef object _floating(object dtype, str name)
cpdef object _finished(object out, object device, bint requires_grad)
cpdef object _whole(object value, str name)
cpdef object whole_numbers(object shape, object low, object high, object dtype, object generator, str name)
