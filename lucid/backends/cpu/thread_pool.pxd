ctypedef void (*Work)(void* task, Py_ssize_t part, int who) noexcept nogil

# How many threads would work together, counting this one.
cdef int pool_size() noexcept nogil

# Calls work(task, part, who) for each part, in any order and several at a time, and returns when all are done. At most
# so many threads take part, this one among them, fewer if there are few parts; `who` is below that number, and each
# thread has its own.
cdef void share(Work work, void* task, Py_ssize_t parts, int most) noexcept nogil
