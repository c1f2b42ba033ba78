cdef long long _newest

cpdef long long newest()
