cdef long long _traces

cpdef long long tracing() noexcept
