# cython: boundscheck=False, wraparound=False, cdivision=True
"""See sorting.py.

Numbers become keys: unsigned ones in the same order. Keys are sorted by their bytes, the lowest first, which leaves equal
ones as they stand; bytes that all keys share are passed over. Short rows are sorted by insertion. For one rank, keys
are counted by their upper bits, and those are sorted that have the bits of the element that is looked for.
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

    /* No branches: signs are in no order. */
    static inline uint64_t lucid_key_of_bits(uint64_t bits, uint64_t sign, uint64_t infinity) {
        uint64_t size = bits & (sign - 1), key = bits & sign ? (sign - 1) - size : sign | size;
        key = size ? key : sign;  /* zeros of both signs are equal */
        return size > infinity ? sign | (sign - 1) : key;  /* nan */
    }

    static inline uint64_t lucid_key(const char *x, int kind) {
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

    enum { LUCID_KTH, LUCID_MEDIAN, LUCID_NANMEDIAN, LUCID_MODE };
    enum { LUCID_UPPER = 11 };  /* bits by which keys are counted */

    static ptrdiff_t lucid_nans(const char *x, ptrdiff_t n, ptrdiff_t stride, int kind) {
        ptrdiff_t found = 0;
        float half;
        double whole;
        if (kind == LUCID_FLOAT)
            for (ptrdiff_t i = 0; i < n; i++) {
                memcpy(&half, x + i * stride * 4, 4);
                found += half != half;
            }
        if (kind == LUCID_DOUBLE)
            for (ptrdiff_t i = 0; i < n; i++) {
                memcpy(&whole, x + i * stride * 8, 8);
                found += whole != whole;
            }
        return found;
    }

    static void lucid_pairs(const char *x, ptrdiff_t n, ptrdiff_t stride, int kind, int bytes, lucid_pair *room) {
        for (ptrdiff_t i = 0; i < n; i++) {
            room[i].key = lucid_key(x + i * stride * bytes, kind);
            room[i].place = i;
        }
    }

    /* The place of the element of a rank among sorted ones, where equal ones stand as they stood. */
    static inline int64_t lucid_ranked(const char *x, ptrdiff_t n, ptrdiff_t stride, int kind, ptrdiff_t rank, lucid_pair *room) {
        int bytes = kind == LUCID_FLOAT || kind == LUCID_INT32 ? 4 : 8, shift = 0;
        ptrdiff_t counts[1 << LUCID_UPPER], found = 0;
        uint64_t *keys = (uint64_t *)(room + n);
        uint64_t upper = 0, least = UINT64_MAX, most = 0;
        if (n <= LUCID_INSERTED) {
            lucid_pairs(x, n, stride, kind, bytes, room);
            lucid_insert(room, n);
            return room[rank].place;
        }
        for (ptrdiff_t i = 0; i < n; i++) {
            keys[i] = lucid_key(x + i * stride * bytes, kind);
            least = keys[i] < least ? keys[i] : least;
            most = keys[i] > most ? keys[i] : most;
        }
        while ((most - least) >> shift >> LUCID_UPPER) shift++;
        memset(counts, 0, sizeof counts);
        for (ptrdiff_t i = 0; i < n; i++) counts[(keys[i] - least) >> shift]++;
        while (rank >= counts[upper]) rank -= counts[upper++];
        for (ptrdiff_t i = 0; i < n; i++) {  /* what is written and not counted is written over */
            room[found].key = keys[i];
            room[found].place = i;
            found += (keys[i] - least) >> shift == upper;
        }
        if (!shift) return room[rank].place;  /* all are equal */
        return lucid_sort(room, room + n, found, bytes)[rank].place;
    }

    /* The last place of the commonest element, of several the smallest; every nan is another one. */
    static int64_t lucid_commonest(const char *x, ptrdiff_t n, ptrdiff_t stride, int kind, lucid_pair *room) {
        int bytes = kind == LUCID_FLOAT || kind == LUCID_INT32 ? 4 : 8;
        ptrdiff_t numbers = n - lucid_nans(x, n, stride, kind), start = 0, most = 0, found = 0;
        lucid_pairs(x, n, stride, kind, bytes, room);
        room = lucid_sort(room, room + n, n, bytes);
        for (ptrdiff_t i = 1; i < numbers; i++) {
            if (room[i].key != room[i - 1].key) start = i;
            if (i - start > most) {
                most = i - start;
                found = i;
            }
        }
        return room[found].place;
    }

    static int64_t lucid_chosen(const char *x, ptrdiff_t n, ptrdiff_t stride, int kind, int which, ptrdiff_t rank,
                                lucid_pair *room) {
        ptrdiff_t nans;
        if (which == LUCID_MODE) return lucid_commonest(x, n, stride, kind, room);
        if (which != LUCID_KTH) {
            nans = lucid_nans(x, n, stride, kind);
            if (which == LUCID_MEDIAN) rank = nans ? n - nans : (n - 1) / 2;
            else rank = nans == n ? 0 : (n - nans - 1) / 2;
        }
        switch (kind) {  /* which the loops then need not ask for each element */
            case LUCID_FLOAT: return lucid_ranked(x, n, stride, LUCID_FLOAT, rank, room);
            case LUCID_DOUBLE: return lucid_ranked(x, n, stride, LUCID_DOUBLE, rank, room);
            case LUCID_INT32: return lucid_ranked(x, n, stride, LUCID_INT32, rank, room);
            default: return lucid_ranked(x, n, stride, LUCID_INT64, rank, room);
        }
    }
    """
    ctypedef struct lucid_pair:
        pass
    int LUCID_FLOAT, LUCID_DOUBLE, LUCID_INT32, LUCID_INT64
    void lucid_order(
        const char*, np.int64_t*, Py_ssize_t, Py_ssize_t, int, int, lucid_pair*
    ) noexcept nogil
    np.int64_t lucid_chosen(
        const char*, Py_ssize_t, Py_ssize_t, int, int, Py_ssize_t, lucid_pair*
    ) noexcept nogil


cdef struct Order:
    char* x
    np.int64_t* out
    char* room
    Py_ssize_t rows, length, inner, size, own, parts
    int kind, most, which
    Py_ssize_t rank
    bint is_descending, is_one  # whether one place of each row is looked for
    double work  # nanoseconds


cdef void _order_some(void* given, Py_ssize_t part, int who) noexcept nogil:
    cdef Order* task = <Order*>given
    cdef Py_ssize_t row, first
    cdef lucid_pair* room = <lucid_pair*>(task.room + who * task.own)
    for row in range(task.rows * part // task.parts, task.rows * (part + 1) // task.parts):
        first = row // task.inner * task.length * task.inner + row % task.inner
        if task.is_one:
            task.out[row] = lucid_chosen(
                task.x + first * task.size, task.length, task.inner, task.kind, task.which, task.rank, room
            )
        else:
            lucid_order(
                task.x + first * task.size, task.out + first, task.length, task.inner, task.kind, task.is_descending, room
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


cdef np.dtype _INT64 = np.dtype("int64")


cdef object _places(Order* task, np.ndarray x, int dims, np.npy_intp* shape):
    """Run the loops on an array in row-major order."""
    cdef int threads = <int>min(<Py_ssize_t>threads_for(task.work), task.rows)
    cdef np.ndarray out = new_array(_INT64, dims, shape, NULL)
    task.x, task.out = <char*>np.PyArray_DATA(x), <np.int64_t*>np.PyArray_DATA(out)
    task.room = <char*>malloc(threads * task.own)
    if task.room == NULL:
        raise MemoryError
    with nogil:
        _order(task, threads)
    free(task.room)
    return out


def argsort(x, int dim, bint descending):
    cdef Order task
    if not is_plain(x):
        return None
    cdef np.ndarray given = <np.ndarray>contiguous(x)
    if not _plan(&task, given, dim, descending):
        return None
    return _places(&task, given, np.PyArray_NDIM(given), np.PyArray_DIMS(given))


def chosen(x, int dim, str which, Py_ssize_t rank=0):
    cdef Order task
    cdef np.npy_intp shape[64]
    cdef int d, last = x.ndim - 1
    cdef np.ndarray given
    if not is_plain(x):
        return None
    for d in range(last + 1):
        shape[d] = 1 if d == dim else np.PyArray_DIM(<np.ndarray>x, d)
    if dim != last:  # rows side by side: loops look at all of one several times
        x = x.transpose([d for d in range(last + 1) if d != dim] + [dim])
    given = <np.ndarray>contiguous(x)
    if not _plan(&task, given, last, False):
        return None
    task.is_one, task.which, task.rank = True, ("kth", "median", "nanmedian", "mode").index(which), rank
    task.work = (15.0 if which == "mode" else 4.0) * np.PyArray_SIZE(given)
    return _places(&task, given, np.PyArray_NDIM(given), shape)


def entry(np.ndarray x, int dim, bint descending, int threads):
    cdef Order task
    if not _plan(&task, x, dim, descending):
        return None
    task.most = <int>min(<Py_ssize_t>threads, task.rows)
    return <size_t><void*>_enter, (<char*>&task)[: sizeof(Order)], task.most * task.own
