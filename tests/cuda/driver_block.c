/* tests/cuda/driver_block.c: a grid, block after block; the threads of a block as fibers. A thread runs until it
 * waits: at a barrier of the block for all threads that have not ended, at an operation of the warp for those of its
 * mask. Shared memory is rubbish when a block begins, and threads go from the first to the last or the other way
 * round, by the seed: a missing barrier shows. */
#include "tests/cuda/driver.h"

#include <string.h>

/* Operations of a warp; the numbers are those of device.cuh. */
enum {
    WARP_SYNC,
    WARP_SHUFFLE,
    WARP_BALLOT,
    WARP_ADD,
    WARP_MIN,
    WARP_MAX,
    WARP_UMIN,
    WARP_UMAX,
    WARP_AND,
    WARP_OR,
    WARP_XOR
};

typedef enum state { NEW, READY, AT_BARRIER, IN_WARP, ENDED } state;

typedef struct thread {
    fiber *fiber;
    state state;
    int what, lane; /* of a warp operation: which, and from which lane; of a barrier: how values are joined */
    unsigned mask, at[3];
    unsigned long long value, result;
} thread;

now the_now;
static thread threads[MAX_THREADS];
static fiber *fibers[MAX_THREADS], *idle[MAX_THREADS]; /* a thread that has ended leaves its stack to the next */
static int n_fibers, n_idle, n_threads, running;
static const launch *the_launch;

static void number_threads(const unsigned *dim) {
    n_threads = (int)(dim[0] * dim[1] * dim[2]);
    for (unsigned t = 0; t < (unsigned)n_threads; t++) {
        unsigned *at = threads[t].at;
        at[0] = t % dim[0], at[1] = t / dim[0] % dim[1], at[2] = t / dim[0] / dim[1];
    }
}

static void thread_main(void *arg) {
    (void)arg;
    the_launch->call(the_launch->args);
}

static void wait_as(state s) {
    threads[running].state = s;
    fiber_yield();
}

static void sync(void) {
    threads[running].what = 0;
    threads[running].value = 0;
    wait_as(AT_BARRIER);
}

/* what: 0 none, 1 count, 2 and, 3 or. */
static int sync_join(int what, int value) {
    threads[running].what = what;
    threads[running].value = value != 0;
    wait_as(AT_BARRIER);
    return (int)threads[running].result;
}

static unsigned long long warp(int what, unsigned mask, unsigned long long value, int lane) {
    thread *t = &threads[running];
    t->what = what, t->mask = mask, t->value = value, t->lane = lane;
    wait_as(IN_WARP);
    return threads[running].result;
}

static int warp_start(int t) { return t / WARP * WARP; }
static int warp_end(int t) { return warp_start(t) + WARP < n_threads ? warp_start(t) + WARP : n_threads; }

static unsigned lane_mask(void) {
    unsigned mask = 0;
    for (int t = warp_start(running); t < warp_end(running); t++)
        if (threads[t].state != ENDED) mask |= 1u << t % WARP;
    return mask;
}

static unsigned long long joined(int what, unsigned long long a, unsigned long long b) {
    unsigned x = (unsigned)a, y = (unsigned)b;
    switch (what) {
    case WARP_ADD: return x + y;
    case WARP_MIN: return (unsigned)((int)x < (int)y ? x : y);
    case WARP_MAX: return (unsigned)((int)x > (int)y ? x : y);
    case WARP_UMIN: return x < y ? x : y;
    case WARP_UMAX: return x > y ? x : y;
    case WARP_AND: return x & y;
    case WARP_OR: return x | y;
    default: return x ^ y;
    }
}

static bool takes_part(const thread *t, unsigned mask, int lane) { return t->state == IN_WARP && mask >> lane & 1; }

static unsigned long long result_of(const thread *first, int n, const thread *t) {
    unsigned long long y = 0;
    bool any = false;
    if (t->what == WARP_SHUFFLE)
        return t->lane < n && takes_part(&first[t->lane], t->mask, t->lane) ? first[t->lane].value
                                                                            : 0xA5A5A5A5A5A5A5A5ull;
    for (int i = 0; i < n; i++) {
        if (!takes_part(&first[i], t->mask, i)) continue;
        if (t->what == WARP_BALLOT)
            y |= (unsigned long long)(first[i].value != 0) << i;
        else
            y = any ? joined(t->what, y, first[i].value) : first[i].value;
        any = true;
    }
    return y;
}

/* Lets the threads of one mask go on when all of them that have not ended have come. */
static bool finish_warp(int t) {
    int from = warp_start(t), n = warp_end(t) - from;
    unsigned mask = threads[t].mask;
    for (int i = 0; i < n; i++) {
        const thread *o = &threads[from + i];
        if (!(mask >> i & 1) || o->state == ENDED) continue;
        if (o->state != IN_WARP || o->mask != mask || o->what != threads[t].what) return false;
    }
    for (int i = 0; i < n; i++)
        if (takes_part(&threads[from + i], mask, i))
            threads[from + i].result = result_of(&threads[from], n, &threads[from + i]);
    for (int i = 0; i < n; i++)
        if (takes_part(&threads[from + i], mask, i)) threads[from + i].state = READY;
    return true;
}

static void resume(int t) {
    thread *x = &threads[t];
    if (x->state == NEW) {
        if (n_idle == 0) idle[n_idle++] = fibers[n_fibers++] = fiber_create(thread_main, NULL);
        x->fiber = idle[--n_idle];
        fiber_start(x->fiber, thread_main, NULL);
    }
    running = t;
    memcpy(the_now.thread, x->at, sizeof x->at);
    x->state = READY;
    fiber_resume(x->fiber);
    if (!fiber_ended(x->fiber)) return;
    x->state = ENDED;
    idle[n_idle++] = x->fiber;
}

/* Runs a warp as far as it comes. False: a thread died. */
static bool run_warp(int from, bool backwards, int *code, bool *moved) {
    int n = warp_end(from) - from;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < n; i++) {
            int t = from + (backwards ? n - 1 - i : i);
            if (threads[t].state == IN_WARP && finish_warp(t)) again = true;
            if (threads[t].state != NEW && threads[t].state != READY) continue;
            resume(t);
            again = *moved = true;
            if ((*code = device_fault()) != OK) return false;
        }
    }
    return true;
}

static int count(state s) {
    int n = 0;
    for (int t = 0; t < n_threads; t++) n += threads[t].state == s;
    return n;
}

static void finish_barrier(void) {
    unsigned long long ones = 0, n = 0;
    for (int t = 0; t < n_threads; t++)
        if (threads[t].state == AT_BARRIER) ones += threads[t].value, n++;
    for (int t = 0; t < n_threads; t++) {
        thread *x = &threads[t];
        if (x->state != AT_BARRIER) continue;
        x->result = x->what == 1 ? ones : x->what == 2 ? ones == n : ones > 0;
        x->state = READY;
    }
}

static int run_block(bool backwards) {
    int code = OK, warps = (n_threads + WARP - 1) / WARP;
    for (int t = 0; t < n_threads; t++) threads[t].state = NEW;
    memcpy(idle, fibers, sizeof fibers);
    n_idle = n_fibers;
    if (the_launch->shared) memset(the_launch->shared, 0xA5, the_launch->bytes_shared);
    if (the_launch->dynamic) memset(the_launch->dynamic, 0xA5, the_launch->bytes_dynamic);
    while (count(ENDED) < n_threads) {
        bool moved = false;
        for (int w = 0; w < warps; w++)
            if (!run_warp((backwards ? warps - 1 - w : w) * WARP, backwards, &code, &moved)) return code;
        int waiting = count(AT_BARRIER);
        if (waiting > 0 && waiting + count(ENDED) == n_threads) {
            finish_barrier();
        } else if (!moved) {
            complain("%d threads of a block wait for each other: a barrier or a warp's operation is not reached by all",
                     n_threads - count(ENDED));
            return E_LAUNCH_FAILED;
        }
    }
    return OK;
}

int run_grid(const launch *l) {
    uint64_t draws = l->seed;
    the_launch = l;
    the_now =
        (now){.dynamic_shared = l->dynamic, .sync = sync, .warp = warp, .sync_join = sync_join, .lane_mask = lane_mask};
    memcpy(the_now.grid_dim, l->grid, sizeof l->grid);
    memcpy(the_now.block_dim, l->block, sizeof l->block);
    number_threads(l->block);
    for (unsigned z = 0; z < l->grid[2]; z++)
        for (unsigned y = 0; y < l->grid[1]; y++)
            for (unsigned x = 0; x < l->grid[0]; x++) {
                the_now.block[0] = x, the_now.block[1] = y, the_now.block[2] = z;
                the_now.waited = 0;
                int code = run_block(l->seed != 0 && next_random(&draws) % 2);
                if (code != OK) return code;
                if (!l->early || the_now.waited) continue;
                complain("a block of a kernel launched early ended without a wait for those before it");
                return E_LAUNCH_FAILED;
            }
    return OK;
}
