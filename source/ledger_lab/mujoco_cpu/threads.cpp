// Threads that work on one task after the other. This is the body of a function: Warp's compiler puts it into a kernel
// (see threads.py), so it names no header, and its types are local. `pool` is the address of a Pool, whose members
// threads.py reads from this file. The function starts nothing; it writes the addresses of the functions that do.

typedef long long i64;
typedef signed i32;  // Warp makes a macro of the usual name

struct Launch {            // a kernel of Warp, of which each thread runs some items
    void (*whole)(void*, void*);
    void (*item)();        // for one item: of Warp's function for kernels of 1 or 2, or of 3 or 4 dimensions
    i64 wide;
    void* bounds;
    void* arguments;
    i64 size, block, next;
};

struct Kernel {
    void (*whole)(void*, void*);  // Warp's own function, which runs all items
    void (*item)();
    i64 wide;
};

struct Pool {
    i32 (*create)(unsigned long long*, const void*, void* (*)(void*), void*);
    i32 (*block_signals)(i32, const void*, void*);
    long (*system_call)(long, ...);
    i32 (*clock)(i32, void*);  // clock_gettime
    i64 futex;           // number of this system call
    i64 threads;         // that work, with the one that hands out the task; may grow during a task
    i64 started;         // beside that one
    void (*task)(void*, i64);
    void* of;
    i64 turn;            // how many tasks have been handed out; the lower half is what the threads wait for
    i64 working;         // threads that have not finished the task
    i64 asleep;          // threads that wait in the kernel of the operating system
    i64 taken;           // whether a task is being worked on
    i64 timed;           // whether to measure
    i64 tasks, busy_ns;  // measured: tasks, and processor time that the calling thread spent in them
    void (*run)(Pool*, void (*)(void*, i64), void*);
    Kernel* kernels;
    void** entries;      // functions that take the place of Warp's, one for each of Pool::kernels
    i64 n_entries;
};

struct Threads {
    enum { SPINS = 400, WAIT = 128, WAKE = 129, SMALLEST = 128 };  // futex(2): private to the process
    struct Narrow { i32 shape[2]; unsigned long size, mult; };      // Warp's launch_bounds_t
    struct Wide { i32 shape[4]; unsigned long size, mult; };
    struct Worker { Pool* pool; i64 number, seen; };  // seen: tasks that had been handed out when it was started

    static Pool*& pool() { static Pool* p = 0; return p; }

    // Wait until a number is no longer `seen`; first awake, then asleep.
    static void wait(Pool& p, i64* number, i64 seen) {
        for (i32 spin = 0; spin < SPINS; ++spin) {
            if (__atomic_load_n(number, __ATOMIC_ACQUIRE) != seen) return;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        __atomic_fetch_add(&p.asleep, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(number, __ATOMIC_SEQ_CST) == seen)
            p.system_call(p.futex, number, (long)WAIT, (long)(i32)seen, 0L, 0L, 0L);
        __atomic_fetch_sub(&p.asleep, 1, __ATOMIC_SEQ_CST);
    }

    static void wake(Pool& p, i64* number) {
        if (__atomic_load_n(&p.asleep, __ATOMIC_SEQ_CST) > 0) p.system_call(p.futex, number, (long)WAKE, 1L << 30, 0L, 0L, 0L);
    }

    static void* work(void* of) {
        Worker* worker = (Worker*)of;
        Pool& p = *worker->pool;
        for (i64 seen = worker->seen;;) {
            wait(p, &p.turn, seen);
            seen = __atomic_load_n(&p.turn, __ATOMIC_ACQUIRE);
            if (worker->number < p.threads) p.task(p.of, worker->number);
            if (__atomic_sub_fetch(&p.working, 1, __ATOMIC_SEQ_CST) == 0) wake(p, &p.working);
        }
    }

    // Processor time of the calling thread.
    static i64 now_ns(Pool& p) {
        i64 time[2];
        p.clock(3, time);  // CLOCK_THREAD_CPUTIME_ID
        return 1000000000 * time[0] + time[1];
    }

    // Let all threads work on a task; return when it is done. The task of thread 0 runs on the calling thread.
    static void run(Pool* pool, void (*task)(void*, i64), void* of) {
        Pool& p = *pool;
        if (!p.timed) { hand_out(p, task, of); return; }
        const i64 began_ns = now_ns(p);
        hand_out(p, task, of);
        p.busy_ns += now_ns(p) - began_ns;
        ++p.tasks;
    }

    static void hand_out(Pool& p, void (*task)(void*, i64), void* of) {
        if (p.threads < 2 || __atomic_exchange_n(&p.taken, 1, __ATOMIC_ACQUIRE)) { task(of, 0); return; }
        static Worker workers[1024];
        if (p.threads > 1024) p.threads = 1024;
        while (p.started + 1 < p.threads) {
            unsigned long long thread;
            Worker& worker = workers[p.started];
            worker.pool = &p;
            worker.number = p.started + 1;
            worker.seen = p.turn;  // its first task is the next one
            unsigned long long all[16], before[16];
            for (i32 i = 0; i < 16; ++i) all[i] = ~0ull;
            p.block_signals(0, all, before);  // signals are for the threads of Python
            const i32 error = p.create(&thread, 0, &work, &worker);
            p.block_signals(2, before, 0);
            if (error) { p.threads = p.started + 1; break; }
            ++p.started;
        }
        p.task = task;
        p.of = of;
        __atomic_store_n(&p.working, p.started, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&p.turn, 1, __ATOMIC_SEQ_CST);
        wake(p, &p.turn);
        task(of, 0);
        for (i64 left; (left = __atomic_load_n(&p.working, __ATOMIC_ACQUIRE)) != 0;) wait(p, &p.working, left);
        __atomic_store_n(&p.taken, 0, __ATOMIC_RELEASE);
    }

    // The number of threads may have grown since this task was chosen for one of them.
    static void launch_all(void* of, i64 thread) {
        if (thread) return;
        Launch& l = *(Launch*)of;
        l.whole(l.bounds, l.arguments);
    }

    static void launch_some(void* of, i64) {
        Launch& l = *(Launch*)of;
        for (;;) {
            const i64 first = __atomic_fetch_add(&l.next, l.block, __ATOMIC_RELAXED);
            if (first >= l.size) return;
            const i64 end = first + l.block < l.size ? first + l.block : l.size;
            if (l.wide) {
                const auto item = (void (*)(Wide, unsigned long, void*))l.item;
                for (i64 i = first; i < end; ++i) item(*(Wide*)l.bounds, i, l.arguments);
            } else {
                const auto item = (void (*)(Narrow, unsigned long, void*))l.item;
                for (i64 i = first; i < end; ++i) item(*(Narrow*)l.bounds, i, l.arguments);
            }
        }
    }

    static void launch(i64 number, void* bounds, void* arguments) {
        Pool& p = *pool();
        const Kernel& k = p.kernels[number];
        const i64 size = k.wide ? ((Wide*)bounds)->size : ((Narrow*)bounds)->size;
        if (size < SMALLEST) { k.whole(bounds, arguments); return; }
        Launch l = {k.whole, k.item, k.wide, bounds, arguments, size, size / (4 * p.threads) + 1, 0};
        run(&p, p.threads < 2 ? &launch_all : &launch_some, &l);
    }

#define LEDGER_LAB_ENTRY(n) \
    static void entry_##n##0(void* b, void* a) { launch(10 * n + 0, b, a); } \
    static void entry_##n##1(void* b, void* a) { launch(10 * n + 1, b, a); } \
    static void entry_##n##2(void* b, void* a) { launch(10 * n + 2, b, a); } \
    static void entry_##n##3(void* b, void* a) { launch(10 * n + 3, b, a); } \
    static void entry_##n##4(void* b, void* a) { launch(10 * n + 4, b, a); } \
    static void entry_##n##5(void* b, void* a) { launch(10 * n + 5, b, a); } \
    static void entry_##n##6(void* b, void* a) { launch(10 * n + 6, b, a); } \
    static void entry_##n##7(void* b, void* a) { launch(10 * n + 7, b, a); } \
    static void entry_##n##8(void* b, void* a) { launch(10 * n + 8, b, a); } \
    static void entry_##n##9(void* b, void* a) { launch(10 * n + 9, b, a); }
    LEDGER_LAB_ENTRY(0) LEDGER_LAB_ENTRY(1) LEDGER_LAB_ENTRY(2) LEDGER_LAB_ENTRY(3)
    LEDGER_LAB_ENTRY(4) LEDGER_LAB_ENTRY(5) LEDGER_LAB_ENTRY(6) LEDGER_LAB_ENTRY(7)
#undef LEDGER_LAB_ENTRY
};

#define LEDGER_LAB_ENTRY(n) \
    (void*)&Threads::entry_##n##0, (void*)&Threads::entry_##n##1, (void*)&Threads::entry_##n##2, \
    (void*)&Threads::entry_##n##3, (void*)&Threads::entry_##n##4, (void*)&Threads::entry_##n##5, \
    (void*)&Threads::entry_##n##6, (void*)&Threads::entry_##n##7, (void*)&Threads::entry_##n##8, \
    (void*)&Threads::entry_##n##9,
static void* entries[] = {
    LEDGER_LAB_ENTRY(0) LEDGER_LAB_ENTRY(1) LEDGER_LAB_ENTRY(2) LEDGER_LAB_ENTRY(3)
    LEDGER_LAB_ENTRY(4) LEDGER_LAB_ENTRY(5) LEDGER_LAB_ENTRY(6) LEDGER_LAB_ENTRY(7)
};
#undef LEDGER_LAB_ENTRY
Pool& p = *(Pool*)pool;
Threads::pool() = &p;
p.run = &Threads::run;
p.entries = entries;
p.n_entries = 80;
