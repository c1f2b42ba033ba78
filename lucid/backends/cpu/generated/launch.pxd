# Whether generated loops are used.
cdef bint is_enabled() noexcept
