cdef dict _known_steps
