/* tests/check.c: runs what TEST registered: `nacre_tests [--list | --slowest] [pattern...]`. A pattern is a part of
 * "file:name"; a test runs when any of them matches. --slowest closes with the tests that took longest. The exit status
 * is 1 when a test failed or a pattern matched nothing, so that a misspelt name is not taken for success. */
#include "tests/check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TOL(name, relative, absolute, text) const nc_tolerance nc_tol_##name = {relative, absolute};
#include "tests/tolerances.list"
#undef TOL

static nc_test *tests; /* sorted by file, then name */
static const nc_test *running;
static atomic_bool failed; /* checks may fail on any thread */
static atomic_int shown_of_test;
static const char *reason_not_run;
static char ran_on[256];

enum { N_SLOWEST = 12 };
static struct {
    const nc_test *test;
    double seconds;
} slowest[N_SLOWEST + 1]; /* the longest first; the last is room */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_time(const nc_test *t, double took) {
    int at = N_SLOWEST;
    for (; at > 0 && slowest[at - 1].seconds < took; at--) slowest[at] = slowest[at - 1];
    slowest[at].test = t, slowest[at].seconds = took;
}

static int order(const nc_test *a, const nc_test *b) {
    int files = strcmp(a->file, b->file);
    return files ? files : strcmp(a->name, b->name);
}

void nc_test_register(nc_test *t) {
    nc_test **at = &tests;
    while (*at && order(*at, t) < 0) at = &(*at)->next;
    t->next = *at;
    *at = t;
}

void nc_test_failed(const char *file, int line, const char *fmt, ...) {
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    atomic_store(&failed, true);
    if (shown_of_test++ >= 6) return; /* the first few tell enough */
    printf("FAIL %s:%d: %s: %s\n", file, line, running ? running->name : "?", text);
}

void nc_test_not_run(const char *why) { reason_not_run = why; }

void nc_test_ran_on(const char *device) { snprintf(ran_on, sizeof ran_on, "%s", device); }

bool nc_test_has_failed(void) { return atomic_load(&failed); }

bool nc_test_emulated(void) { return getenv("NC_EMULATED") != NULL; }

static bool matches(const nc_test *t, const char *pattern) {
    char full[1024];
    snprintf(full, sizeof full, "%s:%s", t->file, t->name);
    return strstr(full, pattern) != NULL;
}

static bool chosen(const nc_test *t, char **patterns, int n) {
    for (int i = 0; i < n; i++) {
        if (matches(t, patterns[i])) return true;
    }
    return n == 0;
}

/* The number of patterns that match no test, each named. */
static int count_unmatched(char **patterns, int n) {
    int unmatched = 0;
    for (int i = 0; i < n; i++) {
        const nc_test *t = tests;
        while (t && !matches(t, patterns[i])) t = t->next;
        if (t) continue;
        printf("no test matches '%s'\n", patterns[i]);
        unmatched++;
    }
    return unmatched;
}

/* Names the test that crashed, then lets the signal do its work. */
static void crashed(int sig) {
    static const char text[] = "\nCRASHED in ";
    ssize_t n = write(1, text, sizeof text - 1);
    if (running) n += write(1, running->name, strlen(running->name));
    n += write(1, "\n", 1);
    (void)n;
    signal(sig, SIG_DFL);
    raise(sig);
}

static void run_test(const nc_test *t, int *n_passed, int *n_failed, int *n_skipped) {
    running = t;
    atomic_store(&failed, false);
    atomic_store(&shown_of_test, 0);
    reason_not_run = NULL;
    double start = seconds();
    t->fn();
    note_time(t, seconds() - start);
    running = NULL;
    if (atomic_load(&failed)) {
        ++*n_failed;
    } else if (reason_not_run) {
        printf("not run: %s: %s\n", t->name, reason_not_run);
        ++*n_skipped;
    } else {
        ++*n_passed;
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGABRT, crashed);
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    bool times = argc > 1 && strcmp(argv[1], "--slowest") == 0;
    char **patterns = argv + 1 + (list || times);
    int n_patterns = argc - 1 - (list || times), n_passed = 0, n_failed = 0, n_skipped = 0;
    for (const nc_test *t = tests; t; t = t->next) {
        if (!chosen(t, patterns, n_patterns)) continue;
        if (list)
            printf("%s:%s\n", t->file, t->name);
        else
            run_test(t, &n_passed, &n_failed, &n_skipped);
    }
    for (int i = 0; times && i < N_SLOWEST && slowest[i].test; i++)
        printf("%8.2f s %s:%s\n", slowest[i].seconds, slowest[i].test->file, slowest[i].test->name);
    int unmatched = count_unmatched(patterns, n_patterns);
    if (ran_on[0]) printf("CUDA tests ran on: %s\n", ran_on);
    if (!list) printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || unmatched > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
