# Functions of CBLAS that count in 64 bits.
ctypedef void (*Gemm)(
    int order, int flip_x, int flip_y, long long rows, long long columns, long long depth, float alpha, const void* x,
    long long x_step, const void* y, long long y_step, float beta, void* out, long long out_step,
) noexcept nogil
ctypedef void (*DoubleGemm)(
    int order, int flip_x, int flip_y, long long rows, long long columns, long long depth, double alpha, const void* x,
    long long x_step, const void* y, long long y_step, double beta, void* out, long long out_step,
) noexcept nogil
ctypedef void (*Gemv)(
    int order, int flip, long long rows, long long columns, float alpha, const void* x, long long x_step, const void* y,
    long long y_step, float beta, void* out, long long out_step,
) noexcept nogil
ctypedef void (*DoubleGemv)(
    int order, int flip, long long rows, long long columns, double alpha, const void* x, long long x_step, const void* y,
    long long y_step, double beta, void* out, long long out_step,
) noexcept nogil
ctypedef float (*Dot)(long long count, const void* x, long long x_step, const void* y, long long y_step) noexcept nogil
ctypedef double (*DoubleDot)(long long count, const void* x, long long x_step, const void* y, long long y_step) noexcept nogil
