# Bytes that lie side by side, copied to where nothing of them lies.
#
# Lines of the target are asked for in advance, since processors foresee no writes, and for long runs also those of the
# source, of which they foresee one page: behind a short run, other bytes may be wanted than those that follow it. On x86-64
# that takes less time than what the C library does, where the memory is in no cache: in one thread, a tenth to a third less
# for 5 to 80 MB; `copies.pyx` says where the library does it. On ARM it does for a few thousand bytes, up to a fifth; with
# more of them it would take a tenth to a half longer.

cdef extern from *:
    """
    #ifndef LUCID_RUNS
    #define LUCID_RUNS
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__)
    typedef uint8_t lucid_line __attribute__((vector_size(64), aligned(1), may_alias));
    #define LUCID_SHORT 8192
    #if defined(__x86_64__)
    #define LUCID_LONGEST PTRDIFF_MAX
    #else
    #define LUCID_LONGEST LUCID_SHORT
    #endif

    #define LUCID_ENDS(N) memcpy(to, from, N), memcpy(to + size - N, from + size - N, N)

    static inline void lucid_run(char *restrict to, const char *restrict from, ptrdiff_t size) {
        ptrdiff_t k = 0;
        if (size <= 128) { /* calling the library would take longer; the two ends overlap */
            if (size > 64) LUCID_ENDS(64);
            else if (size >= 32) LUCID_ENDS(32);
            else if (size >= 16) LUCID_ENDS(16);
            else if (size >= 8) LUCID_ENDS(8);
            else if (size >= 4) LUCID_ENDS(4);
            else for (; k < size; k++) to[k] = from[k];
            return;
        }
        if (size < 512) {
            for (; k + 64 <= size; k += 64) *(lucid_line *)(to + k) = *(const lucid_line *)(from + k);
            *(lucid_line *)(to + size - 64) = *(const lucid_line *)(from + size - 64);
            return;
        }
        if (size <= LUCID_LONGEST) {
            memcpy(to, from, 64);
            for (k = 64 - (ptrdiff_t)((uintptr_t)to % 64); k + 256 <= size; k += 256) {
                for (int line = 0; line < 4; line++) {
                    __builtin_prefetch(to + k + 1024 + 64 * line, 1);
                    if (size > LUCID_SHORT) __builtin_prefetch(from + k + 2048 + 64 * line, 0);
                }
                lucid_line a = *(const lucid_line *)(from + k), b = *(const lucid_line *)(from + k + 64);
                lucid_line c = *(const lucid_line *)(from + k + 128), d = *(const lucid_line *)(from + k + 192);
                *(lucid_line *)(to + k) = a;
                *(lucid_line *)(to + k + 64) = b;
                *(lucid_line *)(to + k + 128) = c;
                *(lucid_line *)(to + k + 192) = d;
            }
        }
        memcpy(to + k, from + k, (size_t)(size - k));
    }
    #else
    #define lucid_run(to, from, size) memcpy(to, from, (size_t)(size))
    #endif
    #endif
    """
    void run "lucid_run"(char*, const char*, Py_ssize_t) noexcept nogil
