cdef long long _newest, _traces

cpdef long long newest()
cpdef long long tracing() noexcept
