from lucid.core.levels cimport tracing
from lucid.core.primitive cimport lift
from lucid.core.tensor cimport is_plain, shape_of, wrapped


cpdef object draw(
    object source, object shape, object kind, object generator, object caller, object finish=*, object dtype=*, object device=*
)
cpdef object _floating(object dtype, object name)
