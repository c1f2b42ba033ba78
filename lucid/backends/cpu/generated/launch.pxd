# Whether generated loops are used.
cdef bint is_enabled() noexcept

# Say that a generated function runs: every launcher does, and `lucid.kernels` listens.
cdef void ran(void* function) noexcept
