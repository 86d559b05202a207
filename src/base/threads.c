/* base/threads.c: the pool behind nc_parallel. Knows nothing of tensors; how many threads a machine gives is machine.c.
 *
 * A call claims one of a few slots, publishes its job there, works on it, closes it to newcomers and waits until the
 * helpers inside have left. A helper says in a word of its own which slot it is inside of, then looks again whether the
 * slot is open; the caller closes the slot, then reads those words (all sequentially consistent): either the helper
 * sees that it came too late or the caller sees the helper. So joining and leaving write no line that others write (but
 * for tickets, where not all threads may take part), which with many would cost more than a small job. Lock and
 * conditions are only for going to sleep and waking. Slots belong to the pool, so a late helper never touches a
 * caller's stack.
 *
 * Items are dealt from ranges, as many as there are threads: every thread begins with the range that was its own in the
 * calls before, so that what an item reads and what items of the next call find at the same place (weights of some
 * columns, rows of an image) is still in that core's cache; then it takes what is left of the others'.
 *
 * No wake-up is lost: a poster publishes, advances `epoch`, then reads `n_asleep`; a worker raises `n_asleep`, then
 * reads `epoch` again before it sleeps (both sequentially consistent). */
#include "base/threads.h"

#include "base/fpmode.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define N_SLOTS 16
#define MAX_RANGES 32
#define MAX_THREADS 1024
#define NO_LIMIT MAX_THREADS
#define SPIN_NS 50000
#define CACHE_LINE 64

/* Slot state: */
#define CLAIMED 1u /* a caller owns the slot */
#define OPEN 2u    /* helpers may join */
#define WAITING 4u /* the caller sleeps until a helper leaves */

/* Items [next, end); atomic, since workers also peek before they join. */
typedef struct range {
    _Alignas(CACHE_LINE) atomic_int_least64_t next;
    atomic_int_least64_t end;
} range;

typedef struct slot {
    _Alignas(CACHE_LINE) atomic_uint state;
    atomic_int n_ranges;
    void (*fn)(void *ctx, int64_t i);
    void *ctx;
    uint64_t fpmode; /* of the caller, for its helpers: what an item gives may not depend on who runs it */
    nc_log_scope log;
    atomic_int most; /* threads that may take part; NO_LIMIT: all, each in the lane of its number */
    _Alignas(CACHE_LINE) atomic_int tickets; /* where there is a limit: lanes taken so far, by the caller and helpers */
    range ranges[MAX_RANGES];
} slot;

typedef struct worker {
    _Alignas(CACHE_LINE) atomic_uint inside; /* 1 + index of the slot whose job it helps with; 0: of none */
    pthread_t thread;
} worker;

struct nc_pool {
    slot slots[N_SLOTS];
    _Alignas(CACHE_LINE) atomic_uint epoch; /* advances with every job and when the pool stops */
    _Alignas(CACHE_LINE) atomic_uint_least64_t n_posts;
    _Alignas(CACHE_LINE) atomic_int n_asleep;
    atomic_bool started, stop;
    bool spins; /* only when every thread can have a processor */
    nc_lock lock;
    pthread_cond_t wake, left;
    int n_threads;
    atomic_int n_workers, n_begun; /* begun: by themselves, each takes its number */
    worker workers[];
};

static _Thread_local bool in_item;
static _Thread_local int lane;       /* in the call that this thread runs an item of */
static _Thread_local int number;     /* of a worker in its pool, from 1 on; callers have 0 */
static _Thread_local slot *own_slot; /* of the nc_parallel call this thread is in */

/* Fork. A child has one thread and a copy of every pool, perhaps in the middle of a step: each is put back to "not
 * started". A child forked inside an item may finish its own call (own_slot stays claimed); items that helpers had
 * taken at that moment are lost to it. */
static void set_not_started(void *pool) {
    nc_pool *p = pool;
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->left, NULL);
    atomic_store(&p->n_asleep, 0);
    atomic_store(&p->n_workers, 0);
    atomic_store(&p->n_begun, 0);
    atomic_store(&p->started, false);
    for (int i = 0; i < N_SLOTS; i++) atomic_store(&p->slots[i].state, &p->slots[i] == own_slot ? CLAIMED : 0);
    for (int i = 0; i < p->n_threads; i++) atomic_store(&p->workers[i].inside, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins while *word == value, for a bounded time. True when it changed. */
static bool spin_while(const nc_pool *p, atomic_uint *word, unsigned value) {
    int64_t end = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
        if (!p->spins) return false;
        if (i % 32 == 0) {
            int64_t now = now_ns();
            if (end == 0) end = now + SPIN_NS;
            if (now > end) return false;
        }
        relax();
    }
}

static bool has_items(range *r) {
    return atomic_load_explicit(&r->next, memory_order_relaxed) < atomic_load_explicit(&r->end, memory_order_relaxed);
}

static void run_items(slot *s, int own_lane) {
    int n = atomic_load_explicit(&s->n_ranges, memory_order_relaxed);
    void (*fn)(void *, int64_t) = s->fn;
    void *ctx = s->ctx;
    in_item = true;
    lane = own_lane;
    for (int k = 0; k < n; k++) {
        range *r = &s->ranges[(number + k) % n];
        int64_t end = atomic_load_explicit(&r->end, memory_order_relaxed), i;
        while (has_items(r) && (i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < end) fn(ctx, i);
    }
    in_item = false;
}

/* A helper works as the caller would: its rounding, its treatment of denormals, its log. */
static void help(slot *s) {
    int most = atomic_load_explicit(&s->most, memory_order_relaxed), own_lane = number;
    if (most != NO_LIMIT) own_lane = atomic_fetch_add_explicit(&s->tickets, 1, memory_order_relaxed);
    if (own_lane >= most) return; /* all lanes are taken */
    uint64_t own = nc_fpmode_get(), wanted = s->fpmode;
    if (wanted != own) nc_fpmode_set(wanted);
    nc_log_scope before = nc_log_enter(s->log);
    run_items(s, own_lane);
    nc_log_enter(before);
    if (wanted != own) nc_fpmode_set(own);
}

static bool any_left(slot *s) {
    int n = atomic_load_explicit(&s->n_ranges, memory_order_relaxed);
    for (int k = 0; k < n; k++)
        if (has_items(&s->ranges[(number + k) % n])) return true;
    return false;
}

static bool may_join(slot *s) {
    if (!(atomic_load_explicit(&s->state, memory_order_acquire) & OPEN) || !any_left(s)) return false;
    int most = atomic_load_explicit(&s->most, memory_order_relaxed);
    return most == NO_LIMIT || atomic_load_explicit(&s->tickets, memory_order_relaxed) < most;
}

static void leave(nc_pool *p, slot *s) {
    atomic_store(&p->workers[number - 1].inside, 0);
    if (!(atomic_load(&s->state) & WAITING)) return;
    nc_lock_take(&p->lock);
    pthread_cond_broadcast(&p->left);
    nc_lock_give(&p->lock);
}

/* The slot may change hands between the peek and the second look: then the helper joins the newer job, which is as
 * good. */
static bool try_join(nc_pool *p, unsigned i) {
    slot *s = &p->slots[i];
    if (!may_join(s)) return false;
    atomic_store(&p->workers[number - 1].inside, i + 1);
    if (atomic_load(&s->state) & OPEN) return true;
    leave(p, s);
    return false;
}

static void sleep_until_posted(nc_pool *p, unsigned seen) {
    nc_lock_take(&p->lock);
    atomic_fetch_add(&p->n_asleep, 1);
    while (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) nc_lock_wait(&p->lock, &p->wake);
    atomic_fetch_sub(&p->n_asleep, 1);
    nc_lock_give(&p->lock);
}

static void *work(void *arg) {
    nc_pool *p = arg;
    unsigned generation = nc_lock_forks();
    number = atomic_fetch_add(&p->n_begun, 1) + 1;
    while (!atomic_load(&p->stop)) {
        unsigned seen = atomic_load(&p->epoch);
        bool worked = false;
        for (unsigned i = 0; i < N_SLOTS; i++) { /* the start moves on, so that no caller is always served first */
            unsigned at = (seen + i) % N_SLOTS;
            if (!try_join(p, at)) continue;
            help(&p->slots[at]);
            if (nc_lock_forks() != generation) return NULL; /* an item forked here: the child's pool is new */
            leave(p, &p->slots[at]);
            worked = true;
        }
        if (!worked && !spin_while(p, &p->epoch, seen)) sleep_until_posted(p, seen);
    }
    return NULL;
}

/* Signals that others send to the host program are not for the workers. Those that the thread itself raises (a fault
 * must reach the program's handler, and end the process where it has none) and those of profilers stay open. */
static void signals_of_host(sigset_t *out) {
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF, SIGVTALRM};
    sigfillset(out);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) sigdelset(out, open[i]);
}

static void start_workers(nc_pool *p) {
    nc_lock_take(&p->lock);
    if (!atomic_load(&p->started)) {
        sigset_t host, old;
        signals_of_host(&host);
        pthread_sigmask(SIG_SETMASK, &host, &old);
        int n = 0;
        while (n < p->n_threads - 1 && pthread_create(&p->workers[n].thread, NULL, work, p) == 0) n++;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        atomic_store(&p->n_workers, n);
        atomic_store(&p->started, true);
    }
    nc_lock_give(&p->lock);
}

nc_pool *nc_pool_create(int threads) {
    int machine = nc_machine_threads();
    if (threads <= 0) threads = machine;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    size_t bytes = sizeof(nc_pool) + (size_t)threads * sizeof(worker);
    nc_pool *p = nc_alloc_aligned(bytes, CACHE_LINE);
    if (p == NULL) return NULL;
    memset(p, 0, bytes);
    set_not_started(p);
    nc_lock_init(&p->lock, NC_LOCK_LEAF, set_not_started, p);
    p->n_threads = nc_lock_survives_fork() ? threads : 1;
    p->spins = threads <= machine;
    return p;
}

void nc_pool_destroy(nc_pool *p) {
    if (p == NULL) return;
    nc_lock_take(&p->lock);
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->epoch, 1);
    pthread_cond_broadcast(&p->wake);
    nc_lock_give(&p->lock);
    for (int i = 0, n = atomic_load(&p->n_workers); i < n; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->left);
    nc_lock_release(&p->lock);
    nc_free(p);
}

int nc_pool_threads(const nc_pool *p) { return p ? p->n_threads : 1; }

uint64_t nc_pool_posts(const nc_pool *p) { return p ? atomic_load_explicit(&p->n_posts, memory_order_relaxed) : 0; }

/* NULL when more calls than slots are under way: then there is no idle worker to be had anyway. */
static slot *claim_slot(nc_pool *p) {
    for (int i = 0; i < N_SLOTS; i++) {
        unsigned unclaimed = 0;
        if (atomic_compare_exchange_strong(&p->slots[i].state, &unclaimed, CLAIMED)) return &p->slots[i];
    }
    return NULL;
}

/* most: threads that may take part, at least 1 and at most n. */
static void deal(slot *s, int threads, int most, int64_t n) {
    int n_ranges = most < threads ? most : threads;
    if (n_ranges > MAX_RANGES) n_ranges = MAX_RANGES;
    int64_t each = n / n_ranges, more = n % n_ranges;
    for (int64_t k = 0, at = 0; k < n_ranges; k++) {
        int64_t end = at + each + (k < more);
        atomic_store_explicit(&s->ranges[k].next, at, memory_order_relaxed);
        atomic_store_explicit(&s->ranges[k].end, end, memory_order_relaxed);
        at = end;
    }
    atomic_store_explicit(&s->n_ranges, n_ranges, memory_order_relaxed);
}

static void post(nc_pool *p, slot *s, int most, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx) {
    s->fn = fn;
    s->ctx = ctx;
    s->fpmode = nc_fpmode_get();
    s->log = nc_log_current();
    deal(s, p->n_threads, most, n);
    atomic_store_explicit(&s->most, most < p->n_threads ? most : NO_LIMIT, memory_order_relaxed);
    atomic_store_explicit(&s->tickets, 1, memory_order_relaxed); /* lane 0 is the caller's */
    atomic_store_explicit(&s->state, CLAIMED | OPEN, memory_order_release);
    atomic_fetch_add_explicit(&p->n_posts, 1, memory_order_relaxed);
    atomic_fetch_add(&p->epoch, 1);
    int asleep = atomic_load(&p->n_asleep);
    if (asleep == 0) return;
    nc_lock_take(&p->lock);
    int64_t wanted = n < most ? n : most;
    if (wanted > asleep) {
        pthread_cond_broadcast(&p->wake);
    } else {
        for (int64_t i = 1; i < wanted; i++) pthread_cond_signal(&p->wake);
    }
    nc_lock_give(&p->lock);
}

/* Sleeps while that worker is inside. */
static void wait_for(nc_pool *p, slot *s, atomic_uint *inside, unsigned here) {
    nc_lock_take(&p->lock);
    atomic_fetch_or(&s->state, WAITING);
    while (atomic_load(inside) == here) nc_lock_wait(&p->lock, &p->left);
    nc_lock_give(&p->lock);
}

static void close_and_wait(nc_pool *p, slot *s) {
    unsigned here = (unsigned)(s - p->slots) + 1;
    atomic_fetch_and(&s->state, ~OPEN);
    for (int i = 0, n = atomic_load_explicit(&p->n_workers, memory_order_relaxed); i < n; i++) {
        atomic_uint *inside = &p->workers[i].inside;
        if (atomic_load(inside) == here && !spin_while(p, inside, here)) wait_for(p, s, inside, here);
    }
    atomic_store_explicit(&s->state, 0, memory_order_release);
}

static void run_serial(int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx) {
    int outer = lane;
    lane = 0;
    for (int64_t i = 0; i < n; i++) fn(ctx, i);
    lane = outer;
}

void nc_parallel_upto(nc_pool *p, int most, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx) {
    slot *s = NULL;
    if (n > 1 && most > 1 && p && p->n_threads > 1 && !in_item) {
        if (!atomic_load_explicit(&p->started, memory_order_acquire)) start_workers(p);
        if (atomic_load(&p->n_workers) > 0) s = claim_slot(p);
    }
    if (s == NULL) {
        run_serial(n, fn, ctx);
        return;
    }
    own_slot = s;
    post(p, s, n < most ? (int)n : most, n, fn, ctx); /* a late thread may get the last item: no lane past n */
    run_items(s, 0);
    close_and_wait(p, s);
    own_slot = NULL;
}

void nc_parallel(nc_pool *p, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx) {
    nc_parallel_upto(p, MAX_THREADS, n, fn, ctx);
}

int nc_parallel_lane(void) { return lane; }
