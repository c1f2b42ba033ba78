# cython: boundscheck=False, wraparound=False, cdivision=True
"""See sorting.py.

Numbers become keys: unsigned ones in the same order. Keys are sorted by their bytes, the lowest first, which leaves equal
ones as they stand; bytes that all keys share are passed over. Short rows are sorted by insertion.
"""

cimport numpy as np
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from lucid.backends.cpu.launch.elementwise cimport is_enabled, is_plain, new_array, threads_for
from lucid.backends.cpu.thread_pool cimport share

from lucid.backends.cpu.launch.copies import contiguous

np.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    typedef struct { uint64_t key; int64_t place; } lucid_pair;
    enum { LUCID_FLOAT, LUCID_DOUBLE, LUCID_INT32, LUCID_INT64, LUCID_INSERTED = 32 };

    static uint64_t lucid_key_of_bits(uint64_t bits, uint64_t sign, uint64_t infinity) {
        uint64_t size = bits & (sign - 1);
        if (size > infinity) return sign | (sign - 1);  /* nan */
        if (!size) return sign;  /* zeros of both signs are equal */
        return bits & sign ? (sign - 1) - size : sign | size;
    }

    static uint64_t lucid_key(const char *x, int kind) {
        uint32_t half;
        uint64_t whole;
        if (kind == LUCID_FLOAT || kind == LUCID_INT32) {
            memcpy(&half, x, 4);
            return kind == LUCID_INT32 ? half ^ UINT32_C(0x80000000)
                                       : lucid_key_of_bits(half, UINT32_C(0x80000000), UINT32_C(0x7f800000));
        }
        memcpy(&whole, x, 8);
        return kind == LUCID_INT64 ? whole ^ UINT64_C(0x8000000000000000)
                                   : lucid_key_of_bits(whole, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000000));
    }

    static void lucid_insert(lucid_pair *a, ptrdiff_t n) {
        for (ptrdiff_t i = 1; i < n; i++) {
            lucid_pair one = a[i];
            ptrdiff_t k = i;
            for (; k > 0 && a[k - 1].key > one.key; k--) a[k] = a[k - 1];
            a[k] = one;
        }
    }

    /* Sorted pairs, in the one or the other memory. */
    static lucid_pair *lucid_sort(lucid_pair *a, lucid_pair *b, ptrdiff_t n, int bytes) {
        ptrdiff_t counts[8][256];
        if (n <= LUCID_INSERTED) {
            lucid_insert(a, n);
            return a;
        }
        memset(counts, 0, bytes * sizeof counts[0]);
        for (ptrdiff_t i = 0; i < n; i++)
            for (int k = 0; k < bytes; k++) counts[k][a[i].key >> 8 * k & 255]++;
        for (int k = 0; k < bytes; k++) {
            ptrdiff_t before = 0;
            if (counts[k][a[0].key >> 8 * k & 255] == n) continue;
            for (int d = 0; d < 256; d++) {
                ptrdiff_t here = counts[k][d];
                counts[k][d] = before;
                before += here;
            }
            for (ptrdiff_t i = 0; i < n; i++) b[counts[k][a[i].key >> 8 * k & 255]++] = a[i];
            lucid_pair *other = a;
            a = b;
            b = other;
        }
        return a;
    }

    /* A row whose elements are `stride` elements apart, and where its places go, as far apart. */
    static void lucid_order(const char *x, int64_t *out, ptrdiff_t n, ptrdiff_t stride, int kind, int is_descending,
                            lucid_pair *room) {
        int bytes = kind == LUCID_FLOAT || kind == LUCID_INT32 ? 4 : 8;
        uint64_t turned = !is_descending ? 0 : bytes == 4 ? UINT32_MAX : UINT64_MAX;
        int is_sorted = 1;
        for (ptrdiff_t i = 0; i < n; i++) {
            room[i].key = lucid_key(x + i * stride * bytes, kind) ^ turned;
            room[i].place = i;
            is_sorted &= !i || room[i - 1].key <= room[i].key;
        }
        if (!is_sorted) room = lucid_sort(room, room + n, n, bytes);
        for (ptrdiff_t i = 0; i < n; i++) out[i * stride] = room[i].place;
    }
    """
    ctypedef struct lucid_pair:
        pass
    int LUCID_FLOAT, LUCID_DOUBLE, LUCID_INT32, LUCID_INT64
    void lucid_order(
        const char*, np.int64_t*, Py_ssize_t, Py_ssize_t, int, int, lucid_pair*
    ) noexcept nogil


cdef struct Order:
    char* x
    np.int64_t* out
    char* room
    Py_ssize_t rows, length, inner, size, own, parts
    int kind, most
    bint is_descending
    double work  # nanoseconds


cdef void _order_some(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Order* task = <Order*>given
    cdef Py_ssize_t row, first
    for row in range(task.rows * part // task.parts, task.rows * (part + 1) // task.parts):
        first = row // task.inner * task.length * task.inner + row % task.inner
        lucid_order(
            task.x + first * task.size, task.out + first, task.length, task.inner, task.kind, task.is_descending,
            <lucid_pair*>(task.room + who * task.own),
        )


cdef void _order(Order* task, int threads) noexcept nogil:
    task.parts = min(task.rows, <Py_ssize_t>8 * threads) if threads > 1 else 1
    share(_order_some, task, task.parts, threads)


cdef void _enter(const void* given, char** data) noexcept nogil:
    """The entry point: elements, their places in order, and workspace."""
    cdef Order task = (<const Order*>given)[0]
    task.x, task.out, task.room = data[0], <np.int64_t*>data[1], data[2]
    _order(&task, min(threads_for(task.work), task.most))


cdef bint _plan(Order* task, np.ndarray x, int dim, bint descending) noexcept:
    """Read an array in row-major order; whether there is code for it."""
    cdef int d, kind = np.PyArray_TYPE(x), size = np.PyArray_ITEMSIZE(x)
    memset(task, 0, sizeof(Order))
    if kind == np.NPY_FLOAT32:
        task.kind = LUCID_FLOAT
    elif kind == np.NPY_FLOAT64:
        task.kind = LUCID_DOUBLE
    elif kind == np.NPY_INT32:
        task.kind = LUCID_INT32
    elif kind == np.NPY_INT64:
        task.kind = LUCID_INT64
    else:
        return False
    if not is_enabled() or not 0 <= dim < np.PyArray_NDIM(x) or np.PyArray_SIZE(x) == 0:
        return False
    task.length, task.inner, task.size, task.is_descending = np.PyArray_DIM(x, dim), 1, size, descending
    for d in range(dim + 1, np.PyArray_NDIM(x)):
        task.inner *= np.PyArray_DIM(x, d)
    task.rows = np.PyArray_SIZE(x) // task.length
    task.own = (2 * task.length * sizeof(lucid_pair) + 127) & ~<Py_ssize_t>63
    task.work = 15.0 * np.PyArray_SIZE(x)
    return True


def argsort(x, int dim, bint descending):
    cdef Order task
    if not is_plain(x):
        return None
    cdef np.ndarray given = <np.ndarray>contiguous(x), out
    if not _plan(&task, given, dim, descending):
        return None
    cdef int threads = <int>min(<Py_ssize_t>threads_for(task.work), task.rows)
    out = new_array(np.dtype("int64"), np.PyArray_NDIM(given), np.PyArray_DIMS(given), NULL)
    task.x, task.out = <char*>np.PyArray_DATA(given), <np.int64_t*>np.PyArray_DATA(out)
    task.room = <char*>malloc(threads * task.own)
    if task.room == NULL:
        raise MemoryError
    with nogil:
        _order(&task, threads)
    free(task.room)
    return out


def entry(np.ndarray x, int dim, bint descending, int threads):
    cdef Order task
    if not _plan(&task, x, dim, descending):
        return None
    task.most = <int>min(<Py_ssize_t>threads, task.rows)
    return <size_t><void*>_enter, (<char*>&task)[: sizeof(Order)], task.most * task.own
