"""The thread pool of thread_pool.py; see there what it is for.

The parts of a task are dealt out in order, as many to each thread, so that one thread finds in its cache what it wrote
before. Who is done takes parts from the others: nobody waits for a thread that sleeps, was interrupted or is slow.
Helpers go on looking for work for a moment after a task, since the next one follows soon, then sleep.

The threads of BLAS wait for more work on all cores for a tenth of a second, and would be in the way. So products of
matrices are made by the pool too (gemm.pyx). Without threads of POSIX or a compiler like GCC, one thread does all.
"""

from lucid.backends.cpu.blas import cores, threads

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    typedef void (*lucid_work)(void *, ptrdiff_t, int);

    #if defined(__GNUC__) && !defined(_WIN32)
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <time.h>
    #ifdef __linux__
    #include <sys/syscall.h>
    #include <unistd.h>
    #endif

    #if defined(__x86_64__) || defined(__i386__)
    #define LUCID_PAUSE __builtin_ia32_pause()
    #elif defined(__aarch64__)
    #define LUCID_PAUSE __asm__ volatile("isb" ::: "memory")  /* "yield" takes no time on most of these processors */
    #else
    #define LUCID_PAUSE __asm__ volatile("" ::: "memory")
    #endif
    #define LUCID_LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
    #define LUCID_STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)

    enum { LUCID_LINE = 128, LUCID_PATIENCE = 1000000 /* nanoseconds */, LUCID_LARGEST = 64 };

    /* What is left of the parts of one thread, in one word: the number of the task, the next part and the end. */
    typedef struct {
        uint64_t left __attribute__((aligned(LUCID_LINE)));
    } lucid_range;
    #define LUCID_RANGE(number, next, end) ((uint64_t)(number) << 32 | (uint64_t)(next) << 16 | (uint64_t)(end))

    /* Where a helper waits for the next task. */
    typedef struct {
        pthread_mutex_t mutex;
        pthread_cond_t wakes;
        int is_used;
    #ifdef __linux__
        pid_t thread;
        cpu_set_t cores; /* of the caller that woke it last */
        int is_kept_apart;
    #endif
    } lucid_sleeper;

    static struct {
        uint32_t number __attribute__((aligned(LUCID_LINE)));
        ptrdiff_t done __attribute__((aligned(LUCID_LINE)));
        lucid_work work __attribute__((aligned(LUCID_LINE)));
        void *task;
        int most, size, helpers;
        pthread_mutex_t turn;
        lucid_sleeper sleepers[LUCID_LARGEST];
        lucid_range ranges[LUCID_LARGEST];
    } lucid_pool = {.turn = PTHREAD_MUTEX_INITIALIZER};

    /* Do one part of a range, the first or the last one, if any is left. */
    static int lucid_do_part(uint32_t number, int whose, int who) {
        for (;;) {
            uint64_t left = LUCID_LOAD(lucid_pool.ranges[whose].left), rest;
            uint32_t next = left >> 16 & 0xffff, end = left & 0xffff, part;
            /* These belong to the task if the range is still the same when the part is taken. */
            lucid_work work = LUCID_LOAD(lucid_pool.work);
            void *task = LUCID_LOAD(lucid_pool.task);
            if ((uint32_t)(left >> 32) != number || next >= end) return 0;
            part = whose == who ? next++ : --end;
            rest = LUCID_RANGE(number, next, end);
            if (!__atomic_compare_exchange_n(
                    &lucid_pool.ranges[whose].left, &left, rest, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
            work(task, part, who);
            __atomic_add_fetch(&lucid_pool.done, 1, __ATOMIC_SEQ_CST);
            return 1;
        }
    }

    /* Do parts until none is left: one's own from the front, then those of others from the end. */
    static void lucid_do_parts(uint32_t number, int who) {
        int i, most = LUCID_LOAD(lucid_pool.most);
        if (who >= most) return;
        for (i = 0; i < most; i++)
            while (lucid_do_part(number, (who + i) % most, who)) {}
    }

    static int64_t lucid_now(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    }

    /* Linux may wake a thread on the core of the one that wakes it although others are idle (on virtual machines, where
       an idle core counts as taken away), and leave it there, waiting, for many milliseconds. So a helper is woken on any
       core but its caller's; then it may run wherever its caller may. */
    #ifdef __linux__
    static void lucid_keep_apart(lucid_sleeper *sleeper) {
        cpu_set_t others;
        int here = sched_getcpu();
        if (here < 0 || sched_getaffinity(0, sizeof others, &others)) return;
        sleeper->cores = others;
        CPU_CLR(here, &others);
        sleeper->is_kept_apart = CPU_COUNT(&others) && !sched_setaffinity(sleeper->thread, sizeof others, &others);
    }
    static void lucid_let_run(lucid_sleeper *sleeper) {
        if (sleeper->is_kept_apart) sched_setaffinity(0, sizeof sleeper->cores, &sleeper->cores);
        sleeper->is_kept_apart = 0;
    }
    #else
    static void lucid_keep_apart(lucid_sleeper *sleeper) {}
    static void lucid_let_run(lucid_sleeper *sleeper) {}
    #endif

    /* The number of the task after the one last seen: waits for it, awake at first. */
    static uint32_t lucid_next_task(uint32_t seen, lucid_sleeper *sleeper) {
        int64_t start = lucid_now();
        do {
            for (int i = 0; i < 64; i++) {
                uint32_t number = LUCID_LOAD(lucid_pool.number);
                if (number != seen) return number;
                LUCID_PAUSE;
            }
            sched_yield();
        } while (lucid_now() - start < LUCID_PATIENCE);
        pthread_mutex_lock(&sleeper->mutex);
        LUCID_STORE(sleeper->is_used, 1);
        uint32_t number;
        while ((number = LUCID_LOAD(lucid_pool.number)) == seen) pthread_cond_wait(&sleeper->wakes, &sleeper->mutex);
        LUCID_STORE(sleeper->is_used, 0); /* who saw the task in time was not woken */
        lucid_let_run(sleeper);
        pthread_mutex_unlock(&sleeper->mutex);
        return number;
    }

    static void lucid_wake(lucid_sleeper *sleeper) {
        if (!LUCID_LOAD(sleeper->is_used)) return;
        pthread_mutex_lock(&sleeper->mutex);
        if (sleeper->is_used) {
            lucid_keep_apart(sleeper);
            LUCID_STORE(sleeper->is_used, 0);
            pthread_cond_signal(&sleeper->wakes);
        }
        pthread_mutex_unlock(&sleeper->mutex);
    }

    static void *lucid_help(void *place) {
        int who = (int)(intptr_t)place;
        uint32_t seen = 0;
    #ifdef __linux__
        lucid_pool.sleepers[who].thread = (pid_t)syscall(SYS_gettid);
    #endif
        for (;;) {
            seen = lucid_next_task(seen, &lucid_pool.sleepers[who]);
            lucid_do_parts(seen, who);
        }
        return NULL;
    }

    /* Start helpers that are missing. Signals are for the threads that Python knows. */
    static void lucid_start_helpers(int most) {
        sigset_t all, before;
        pthread_t thread;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        while (lucid_pool.helpers + 1 < most) {
            int who = lucid_pool.helpers + 1;
            pthread_mutex_init(&lucid_pool.sleepers[who].mutex, NULL);
            pthread_cond_init(&lucid_pool.sleepers[who].wakes, NULL);
            lucid_pool.sleepers[who].is_used = 0;
    #ifdef __linux__
            lucid_pool.sleepers[who].is_kept_apart = 0;
    #endif
            if (pthread_create(&thread, NULL, lucid_help, (void *)(intptr_t)who)) break;
            pthread_detach(thread);
            lucid_pool.helpers = who;
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }

    static void lucid_share(lucid_work work, void *task, ptrdiff_t parts, int most) {
        if (most > parts) most = (int)parts;
        if (most > LUCID_LARGEST) most = LUCID_LARGEST;
        if (parts > 0xffff || most < 2 || pthread_mutex_trylock(&lucid_pool.turn)) {
            for (ptrdiff_t part = 0; part < parts; part++) work(task, part, 0);
            return;
        }
        if (lucid_pool.helpers + 1 < most) lucid_start_helpers(most);
        LUCID_STORE(lucid_pool.work, work);
        LUCID_STORE(lucid_pool.task, task);
        LUCID_STORE(lucid_pool.most, most);
        LUCID_STORE(lucid_pool.done, 0);
        uint32_t number = lucid_pool.number + 1;
        for (int i = 0; i < most; i++)
            LUCID_STORE(lucid_pool.ranges[i].left, LUCID_RANGE(number, parts * i / most, parts * (i + 1) / most));
        LUCID_STORE(lucid_pool.number, number);
        for (int who = 1; who < most && who <= lucid_pool.helpers; who++) lucid_wake(&lucid_pool.sleepers[who]);
        lucid_do_parts(number, 0);
        for (int i = 0; LUCID_LOAD(lucid_pool.done) < parts; i++) {
            if (i < 1000) LUCID_PAUSE; else sched_yield();
        }
        pthread_mutex_unlock(&lucid_pool.turn);
    }

    /* Threads do not survive a fork. */
    static void lucid_after_fork(void) {
        pthread_mutex_init(&lucid_pool.turn, NULL);
        lucid_pool.helpers = 0;
        for (int i = 0; i < LUCID_LARGEST; i++) lucid_pool.ranges[i].left = 0;
    }

    static void lucid_set_up(void) { pthread_atfork(NULL, NULL, lucid_after_fork); }
    static int lucid_size(void) { return LUCID_LOAD(lucid_pool.size); }
    static void lucid_set_size(int size) {
        LUCID_STORE(lucid_pool.size, size < LUCID_LARGEST ? size : LUCID_LARGEST);
    }

    #else
    static int lucid_only_size;
    static void lucid_share(lucid_work work, void *task, ptrdiff_t parts, int most) {
        for (ptrdiff_t part = 0; part < parts; part++) work(task, part, 0);
    }
    static void lucid_set_up(void) {}
    static int lucid_size(void) { return lucid_only_size; }
    static void lucid_set_size(int size) { lucid_only_size = 1; }
    #endif
    """
    void lucid_share(Work, void*, Py_ssize_t, int) noexcept nogil
    void lucid_set_up()
    int lucid_size() noexcept nogil
    void lucid_set_size(int)


lucid_set_up()


cdef void _settle() noexcept with gil:
    lucid_set_size(min(threads(), cores()))


cdef int pool_size() noexcept nogil:
    if lucid_size() == 0:
        _settle()
    return max(lucid_size(), 1)


cdef void share(Work work, void* task, Py_ssize_t parts, int most) noexcept nogil:
    lucid_share(work, task, parts, most)


cdef void _call(void* task, Py_ssize_t part, int who) noexcept with gil:
    (<object> task)(part)


def call_parts(task, Py_ssize_t parts, int most):
    with nogil:
        lucid_share(_call, <void*> task, parts, most)


def size():
    return pool_size()


def set_size(int count):
    lucid_set_size(count)
