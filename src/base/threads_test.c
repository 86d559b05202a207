/* base/threads_test.c: every item exactly once, from many callers, nested, after fork, and when no thread can start.
 * Children are killed by an alarm, so a deadlock is a failure and not a hang. */
#include "base/threads.h"

#include "base/fpmode.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

#define MOST 3001

/* Plain ints: an item run twice or not waited for is a data race as well as a wrong count. */
typedef struct tally {
    int counts[MOST];
} tally;

static void count_item(void *ctx, int64_t i) { ((tally *)ctx)->counts[i]++; }

static bool runs_each_once(nc_pool *p, int64_t n) {
    tally t = {0};
    nc_parallel(p, n, count_item, &t);
    for (int64_t i = 0; i < MOST; i++) {
        if (t.counts[i] != (i < n)) return false;
    }
    return true;
}

/* No two threads of a call have one lane at a time, and no lane reaches `most` or the number of items. */
typedef struct lanes {
    int most;
    atomic_int busy[64], wrong, seen;
} lanes;

static void lane_item(void *ctx, int64_t i) {
    lanes *l = ctx;
    int lane = nc_parallel_lane();
    if (lane < 0 || lane >= l->most || atomic_fetch_add(&l->busy[lane], 1) != 0) atomic_fetch_add(&l->wrong, 1);
    for (volatile int64_t spin = 0; spin < 50 + i % 7 * 40; spin++) (void)spin;
    atomic_fetch_sub(&l->busy[lane], 1);
    atomic_fetch_or(&l->seen, 1 << lane);
}

TEST(threads_have_lanes_of_their_own) {
    nc_pool *p = nc_pool_create(6);
    REQUIRE(p);
    for (int round = 0; round < 300; round++) {
        lanes l = {.most = 1 + round % 6};
        nc_parallel_upto(p, l.most, 64, lane_item, &l);
        CHECK_INT(l.wrong, 0);
        CHECK(l.seen != 0);
    }
    for (int round = 0; round < 2000; round++) {
        lanes few = {.most = 2};
        nc_parallel_upto(p, 6, few.most, lane_item, &few); /* scratch for as many as there are items is enough */
        CHECK_INT(few.wrong, 0);
    }
    lanes serial = {.most = 1};
    nc_parallel(NULL, 5, lane_item, &serial);
    CHECK(serial.wrong == 0 && serial.seen == 1);
    nc_pool_destroy(p);
}

typedef struct owners {
    atomic_int arrived;
    pthread_t of[6];
} owners;

static void own_item(void *ctx, int64_t i) {
    owners *o = ctx;
    o->of[i] = pthread_self();
    atomic_fetch_add(&o->arrived, 1);
    for (int turn = 0; turn < 20000 && atomic_load(&o->arrived) < 6; turn++) usleep(100);
}

/* Items that wait for each other leave every thread the first one of its own range, in call after call. */
TEST(threads_begin_with_what_was_theirs) {
    nc_pool *p = nc_pool_create(6);
    REQUIRE(p);
    owners first = {0};
    nc_parallel(p, 6, own_item, &first);
    CHECK_INT(first.arrived, 6);
    for (int round = 0; round < 20; round++) {
        owners o = {0};
        nc_parallel(p, 6, own_item, &o);
        for (int i = 0; i < 6; i++) CHECK(pthread_equal(o.of[i], first.of[i]));
    }
    nc_pool_destroy(p);
}

static void nested_lane_item(void *ctx, int64_t i) {
    lanes *inner = ctx;
    int before = nc_parallel_lane();
    lanes l = {.most = 1};
    nc_parallel(NULL, 3 + i % 2, lane_item, &l); /* serial inside of an item: lane 0 */
    if (l.wrong != 0 || nc_parallel_lane() != before) atomic_fetch_add(&inner->wrong, 1);
}

TEST(threads_inner_loops_have_lane_0) {
    nc_pool *p = nc_pool_create(4);
    REQUIRE(p);
    lanes outer = {.most = 4};
    nc_parallel(p, 200, nested_lane_item, &outer);
    CHECK_INT(outer.wrong, 0);
    nc_pool_destroy(p);
}

/* Four items for each thread, within bounds; one thread needs no small ones. */
TEST(threads_share_work_in_items_of_their_number) {
    nc_pool *p = nc_pool_create(8);
    REQUIRE(p);
    CHECK_INT(nc_pool_item(p, 1 << 20, 2048, 16384), 16384);
    CHECK_INT(nc_pool_item(p, 1 << 17, 2048, 16384), 4096);
    CHECK_INT(nc_pool_item(p, 1 << 12, 2048, 16384), 2048);
    CHECK_INT(nc_pool_item(NULL, 1 << 12, 2048, 16384), 16384);
    nc_pool_destroy(p);
}

TEST(threads_run_every_item_once) {
    uint64_t live = nc_mem_live();
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, MOST};
    for (int threads = 1; threads <= 9; threads += 2) {
        nc_pool *p = nc_pool_create(threads);
        REQUIRE(p);
        CHECK_INT(nc_pool_threads(p), threads);
        for (int round = 0; round < 20; round++) {
            for (int s = 0; s < 7; s++) CHECK(runs_each_once(p, sizes[s]));
        }
        nc_pool_destroy(p);
    }
    CHECK(runs_each_once(NULL, 100));
    CHECK_INT(nc_pool_threads(NULL), 1);
    nc_pool_destroy(NULL);
    CHECK_INT(nc_mem_live(), live);
}

/* Sleeping between calls makes the workers pass through spinning into sleep and back. */
TEST(threads_wake_from_sleep) {
    nc_pool *p = nc_pool_create(4);
    REQUIRE(p);
    for (int round = 0; round < 30; round++) {
        CHECK(runs_each_once(p, 2 + round));
        usleep(round % 3 * 300u);
    }
    nc_pool_destroy(p);
}

typedef struct meeting {
    atomic_int arrived;
    int wanted;
} meeting;

static void meet(void *ctx, int64_t i) {
    (void)i;
    meeting *m = ctx;
    atomic_fetch_add(&m->arrived, 1);
    for (int turn = 0; turn < 20000 && atomic_load(&m->arrived) < m->wanted; turn++) usleep(100);
}

/* The items wait for each other: they can only all arrive if as many threads as promised are at work. */
TEST(threads_work_at_the_same_time) {
    nc_pool *p = nc_pool_create(4);
    REQUIRE(p);
    for (int round = 0; round < 5; round++) {
        meeting m = {.wanted = 4};
        nc_parallel(p, 4, meet, &m);
        CHECK_INT(m.arrived, 4);
    }
    nc_pool_destroy(p);
}

typedef struct nesting {
    nc_pool *p;
    atomic_int strangers, inner_items;
} nesting;

typedef struct inner_call {
    nesting *all;
    pthread_t outer;
} inner_call;

static void inner_item(void *ctx, int64_t i) {
    (void)i;
    const inner_call *call = ctx;
    atomic_fetch_add(&call->all->inner_items, 1);
    if (!pthread_equal(call->outer, pthread_self())) atomic_fetch_add(&call->all->strangers, 1);
}

static void outer_item(void *ctx, int64_t i) {
    (void)i;
    nesting *all = ctx;
    inner_call call = {all, pthread_self()};
    nc_parallel(all->p, 50, inner_item, &call);
}

TEST(threads_nested_calls_stay_on_their_thread) {
    nesting n = {.p = nc_pool_create(4)};
    REQUIRE(n.p);
    nc_parallel(n.p, 16, outer_item, &n);
    CHECK_INT(n.inner_items, 16 * 50);
    CHECK_INT(n.strangers, 0);
    nc_pool_destroy(n.p);
}

typedef struct storm {
    nc_pool *p;
    atomic_bool stop;
    atomic_int wrong;
    int rounds; /* 0: until stop */
} storm;

static void *call_often(void *arg) {
    storm *s = arg;
    for (int i = 0; s->rounds ? i < s->rounds : !atomic_load(&s->stop); i++) {
        if (!runs_each_once(s->p, i % 97)) atomic_fetch_add(&s->wrong, 1);
    }
    return NULL;
}

/* More callers than slots, so that some run serially. */
TEST(threads_serve_many_callers) {
    enum { CALLERS = 20 };
    storm s = {.p = nc_pool_create(4), .rounds = 60};
    REQUIRE(s.p);
    pthread_t callers[CALLERS];
    int n = 0;
    while (n < CALLERS && pthread_create(&callers[n], NULL, call_often, &s) == 0) n++;
    CHECK_INT(n, CALLERS);
    for (int i = 0; i < n; i++) pthread_join(callers[i], NULL);
    CHECK_INT(s.wrong, 0);
    nc_pool_destroy(s.p);
}

/* ---- laziness and fairness ---- */

static int threads_of_process(void) {
    char text[4096];
    const char *at = nc_machine_read("/proc/self/status", text, sizeof text) ? strstr(text, "Threads:") : NULL;
    return at ? atoi(at + 8) : -1;
}

/* The same, when threads that were joined are gone from the system's books too: it counts them a moment longer. */
static int settled_threads(void) {
    int count = threads_of_process();
    for (int same = 0; same < 5; same++) {
        usleep(2000);
        int now = threads_of_process();
        if (now != count) count = now, same = -1;
    }
    return count;
}

static void add_one(void *ctx, int64_t i) {
    (void)i;
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* Threads start with the first call that can use them, and no earlier. */
TEST(threads_start_at_first_use) {
    int before = settled_threads();
    if (before < 0) {
        nc_test_not_run("the system does not count threads");
        return;
    }
    atomic_int n = 0;
    nc_pool *p = nc_pool_create(3);
    REQUIRE(p);
    nc_parallel(p, 0, add_one, &n);
    nc_parallel(p, 1, add_one, &n);
    CHECK_INT(threads_of_process(), before);
    nc_parallel(p, 4, add_one, &n);
    CHECK_INT(settled_threads(), before + 2);
    CHECK_INT(n, 5);
    nc_pool_destroy(p);
}

typedef struct runner {
    nc_pool *p;
    atomic_bool *stop;
    atomic_int n_calls;
} runner;

enum { MANY_CALLS = 50000 };

static void spin_a_little(void *ctx, int64_t i) {
    volatile int64_t sum = i;
    for (int k = 0; k < 2000; k++) sum += k;
    (void)ctx, (void)sum;
}

static void *call_until_told(void *arg) {
    runner *r = arg;
    while (!atomic_load(r->stop)) {
        nc_parallel(r->p, 40, spin_a_little, NULL);
        if (atomic_fetch_add(&r->n_calls, 1) + 1 == MANY_CALLS) atomic_store(r->stop, true);
    }
    return NULL;
}

/* Many callers over two workers, who never end by themselves: each gets on. They are stopped when all have made a few
 * calls, or one has made very many while another had no turn. */
TEST(threads_starve_no_caller) {
    enum { CALLERS = 12, FEW_CALLS = 3 };
    atomic_bool stop = false;
    nc_pool *p = nc_pool_create(3);
    REQUIRE(p);
    pthread_t t[CALLERS];
    runner r[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        r[i].p = p, r[i].stop = &stop;
        atomic_init(&r[i].n_calls, 0);
        REQUIRE(pthread_create(&t[i], NULL, call_until_told, &r[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++)
        while (!atomic_load(&stop) && atomic_load(&r[i].n_calls) < FEW_CALLS) usleep(1000);
    atomic_store(&stop, true);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(t[i], NULL);
        CHECK(atomic_load(&r[i].n_calls) >= FEW_CALLS);
    }
    nc_pool_destroy(p);
}

#if !defined(THREAD_SANITIZER)

/* 0 when the child finished its work well. */
static int wait_for_child(pid_t pid) {
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return status;
}

/* Workers block the signals of the host program, and a child forked by one inherits that. */
static void limit_child(void) {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    alarm(20);
}

static void work_in_child(nc_pool *p) {
    limit_child();
    meeting m = {.wanted = 3};
    bool good = runs_each_once(p, 500);
    nc_parallel(p, 3, meet, &m);
    good = good && atomic_load(&m.arrived) == 3;
    nc_pool_destroy(p);
    _exit(good ? 0 : 1);
}

/* The presets that test another architecture say so. */
static bool is_emulated(void) {
    if (!getenv("NC_EMULATED")) return false;
    nc_test_not_run("qemu-user gives up when a process with running threads forks");
    return true;
}

TEST(threads_survive_fork_under_load) {
    if (is_emulated()) return;
    storm s = {.p = nc_pool_create(3)};
    REQUIRE(s.p);
    pthread_t callers[2];
    int n = 0;
    while (n < 2 && pthread_create(&callers[n], NULL, call_often, &s) == 0) n++;
    CHECK_INT(n, 2);
    for (int i = 0; i < 25 && !nc_test_has_failed(); i++) {
        pid_t pid = fork();
        if (pid == 0) work_in_child(s.p);
        CHECK_INT(wait_for_child(pid), 0);
    }
    atomic_store(&s.stop, true);
    for (int i = 0; i < n; i++) pthread_join(callers[i], NULL);
    CHECK_INT(s.wrong, 0);
    CHECK(runs_each_once(s.p, 300)); /* the parent's pool is untouched */
    nc_pool_destroy(s.p);
}

typedef struct forker {
    nc_pool *p;
    pthread_t caller;
    pid_t parent;
    atomic_int child_status, n_done;
} forker;

static void fork_in_item(void *ctx, int64_t i) {
    forker *f = ctx;
    atomic_fetch_add(&f->n_done, 1);
    if (i != 3 || getpid() != f->parent) return;
    pid_t pid = fork();
    if (pid != 0) {
        atomic_store(&f->child_status, wait_for_child(pid));
        return;
    }
    limit_child();
    if (!runs_each_once(f->p, 50)) _exit(1);
#if defined(ADDRESS_SANITIZER) /* its search for leaks at exit stumbles over the threads that are no more */
    if (!pthread_equal(pthread_self(), f->caller)) _exit(0);
#endif
}

/* When the caller forked, its call returns in the child too; when a worker did, the child ends with the job. */
TEST(threads_fork_inside_an_item) {
    if (is_emulated()) return;
    forker f = {.p = nc_pool_create(3), .caller = pthread_self(), .parent = getpid()};
    REQUIRE(f.p);
    for (int round = 0; round < 10; round++) {
        atomic_store(&f.child_status, -1);
        atomic_store(&f.n_done, 0);
        nc_parallel(f.p, 8, fork_in_item, &f);
        if (getpid() != f.parent) _exit(runs_each_once(f.p, 60) ? 0 : 1);
        CHECK_INT(f.child_status, 0);
        CHECK_INT(f.n_done, 8);
    }
    nc_pool_destroy(f.p);
}

TEST(threads_do_without_threads) {
#if defined(ADDRESS_SANITIZER)
    nc_test_not_run("the address sanitizer needs unlimited address space");
#else
    pid_t pid = fork();
    if (pid == 0) {
        limit_child();
        nc_pool *p = nc_pool_create(600);
        struct rlimit none = {1 << 20, 1 << 20};
        if (p == NULL || setrlimit(RLIMIT_AS, &none) != 0) _exit(1);
        _exit(runs_each_once(p, 200) && runs_each_once(p, 200) ? 0 : 2);
    }
    CHECK_INT(wait_for_child(pid), 0);
#endif
}

#else

TEST(threads_survive_fork_under_load) { nc_test_not_run("the thread sanitizer does not allow threads after fork"); }

#endif

TEST(threads_pool_out_of_memory) {
    uint64_t live = nc_mem_live();
    nc_mem_fail_at(1);
    CHECK(nc_pool_create(2) == NULL && nc_mem_fail_hit());
    nc_mem_fail_at(0);
    CHECK_INT(nc_mem_live(), live);
}

TEST(threads_count_is_clamped) {
    nc_pool *p = nc_pool_create(1 << 30), *q = nc_pool_create(-5);
    REQUIRE(p && q);
    CHECK_INT(nc_pool_threads(p), 1024);
    CHECK_INT(nc_pool_threads(q), nc_machine_threads());
    nc_pool_destroy(p);
    nc_pool_destroy(q);
}

/* ---- what a helper has of its caller ---- */

typedef struct look {
    meeting m;
    sigset_t masks[3];
    float products[3];
    nc_log_scope logs[3];
} look;

static void look_around(void *ctx, int64_t i) {
    look *l = ctx;
    volatile float tiny = 1e-30f, small = 1e-10f;
    pthread_sigmask(SIG_SETMASK, NULL, &l->masks[i]);
    l->products[i] = tiny * small; /* a denormal */
    l->logs[i] = nc_log_current();
    meet(&l->m, i);
}

TEST(threads_leave_faults_and_profilers_their_signals) {
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF, SIGVTALRM};
    static const int closed[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE};
    nc_pool *p = nc_pool_create(3);
    look l = {.m = {.wanted = 3}};
    sigset_t own;
    REQUIRE(p);
    nc_parallel(p, 3, look_around, &l);
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    int n_workers = 0;
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof open / sizeof *open; k++) CHECK(!sigismember(&l.masks[i], open[k]));
        if (!sigismember(&l.masks[i], SIGINT)) continue; /* the caller's own item */
        n_workers++;
        for (size_t k = 0; k < sizeof closed / sizeof *closed; k++) CHECK(sigismember(&l.masks[i], closed[k]));
    }
    CHECK(n_workers == 2 && !sigismember(&own, SIGINT));
    nc_pool_destroy(p);
}

TEST(threads_take_denormals_and_log_as_their_caller_does) {
    nc_pool *p = nc_pool_create(3);
    REQUIRE(p);
    for (int flush = 0; flush < 3; flush++) { /* off, on, off again */
        look l = {.m = {.wanted = 3}};
        uint64_t mode = nc_fpmode_get();
        nc_log_scope log = {.has_level = flush == 1, .level = NC_LOG_ERROR, .id = flush == 1 ? "x" : NULL};
        nc_log_scope before = nc_log_enter(log);
        if (flush == 1) nc_fpmode_set(nc_fpmode_flushing(mode));
        nc_parallel(p, 3, look_around, &l);
        nc_fpmode_set(mode);
        nc_log_enter(before);
        for (int i = 0; i < 3; i++) {
            CHECK((l.products[i] == 0) == (flush == 1 && nc_fpmode_can_flush()));
            CHECK(l.logs[i].has_level == (flush == 1) && l.logs[i].id == log.id);
        }
    }
    nc_pool_destroy(p);
}
