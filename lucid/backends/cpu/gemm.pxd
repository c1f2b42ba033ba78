# Writes a stack of products of matrices. Steps of the stack are in bytes, those of the matrices in elements; `bias` has
# room for whole panels, or is NULL. Gives whether it did: it does not where that would take too much memory.
cdef bint multiply_into(
    char* x, char* y, char* out, int stacked, Py_ssize_t* stack, Py_ssize_t* x_steps, Py_ssize_t* y_steps,
    Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns, Py_ssize_t x_down, Py_ssize_t x_right, Py_ssize_t y_down,
    Py_ssize_t y_right, bint is_single, char* bias, int most,
) noexcept nogil

# How many threads should make a product; 0 if BLAS is to make it.
cdef int product_threads(Py_ssize_t stack, Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns) noexcept nogil
