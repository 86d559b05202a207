/* tests/check.c: runs what TEST registered: `nacre_tests [--list] [--slowest] [--jobs N] [pattern...]`. A pattern is a
 * part of "file:name"; a test runs when any of them matches. --slowest closes with the tests that took longest, --jobs
 * runs them in N processes, each of which takes the next one when it is done with its last. The exit status is 1 when a
 * test failed, a process ended badly or a pattern matched nothing, so that a misspelt name is not taken for success. */
#include "tests/check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

/* What the processes tell each other and who started them. */
typedef struct board {
    atomic_int next; /* among the chosen tests */
    atomic_int n_passed, n_failed, n_skipped;
    char ran_on[256];
    double took[]; /* seconds of each chosen test */
} board;
static board *all;

typedef struct options {
    bool list, times;
    int jobs;
    char **patterns;
    int n_patterns;
} options;

enum { N_SLOWEST = 12, MAX_JOBS = 64 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

void nc_test_ran_on(const char *device) { snprintf(all->ran_on, sizeof all->ran_on, "%s", device); }

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

static void run_test(const nc_test *t) {
    running = t;
    atomic_store(&failed, false);
    atomic_store(&shown_of_test, 0);
    reason_not_run = NULL;
    t->fn();
    running = NULL;
    if (atomic_load(&failed)) {
        all->n_failed++;
    } else if (reason_not_run) {
        printf("not run: %s: %s\n", t->name, reason_not_run);
        all->n_skipped++;
    } else {
        all->n_passed++;
    }
}

/* Takes one chosen test after the other until there is none. */
static void work(const nc_test **chosen_tests, int n) {
    for (int i; (i = all->next++) < n;) {
        double start = seconds();
        run_test(chosen_tests[i]);
        all->took[i] = seconds() - start;
    }
}

/* The same in processes; one that ends badly is a failure, and the others go on with what is left. */
static void work_in_processes(int jobs, const nc_test **chosen_tests, int n) {
    pid_t pids[MAX_JOBS];
    fflush(NULL);
    for (int i = 0; i < jobs; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            work(chosen_tests, n);
            exit(EXIT_SUCCESS);
        }
    }
    for (int i = 0, status; i < jobs; i++) {
        if (pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        printf("FAIL process %d of the tests did not end as it should\n", i + 1);
        all->n_failed++;
    }
}

static void print_slowest(const nc_test **chosen_tests, int n) {
    for (int shown = 0; shown < N_SLOWEST && shown < n; shown++) {
        int most = 0;
        for (int i = 1; i < n; i++)
            if (all->took[i] > all->took[most]) most = i;
        printf("%8.2f s %s:%s\n", all->took[most], chosen_tests[most]->file, chosen_tests[most]->name);
        all->took[most] = -1;
    }
}

/* False: an option that is not known. */
static bool parse(int argc, char **argv, options *o) {
    int i = 1;
    *o = (options){.jobs = 1};
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--list") == 0)
            o->list = true;
        else if (strcmp(argv[i], "--slowest") == 0)
            o->times = true;
        else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc && (o->jobs = atoi(argv[++i])) > 0)
            o->jobs = o->jobs < MAX_JOBS ? o->jobs : MAX_JOBS;
        else
            return false;
    }
    o->patterns = argv + i, o->n_patterns = argc - i;
    return true;
}

/* The chosen tests in a new list, and the board for them; their number. */
static int choose(const options *o, const nc_test ***list) {
    int n = 0, at = 0;
    for (const nc_test *t = tests; t; t = t->next) n += chosen(t, o->patterns, o->n_patterns);
    *list = calloc((size_t)n + 1, sizeof **list);
    all = mmap(NULL, sizeof *all + (size_t)n * sizeof all->took[0], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
    if (*list == NULL || all == MAP_FAILED) abort();
    for (const nc_test *t = tests; t; t = t->next)
        if (chosen(t, o->patterns, o->n_patterns)) (*list)[at++] = t;
    return n;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGABRT, crashed);
    options o;
    const nc_test **list;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: nacre_tests [--list] [--slowest] [--jobs N] [pattern...]\n");
        return EXIT_FAILURE;
    }
    int n = choose(&o, &list);
    for (int i = 0; o.list && i < n; i++) printf("%s:%s\n", list[i]->file, list[i]->name);
    if (!o.list && o.jobs > 1) work_in_processes(o.jobs, list, n);
    if (!o.list && o.jobs == 1) work(list, n);
    if (o.times) print_slowest(list, n);
    free(list);
    int unmatched = count_unmatched(o.patterns, o.n_patterns);
    if (all->ran_on[0]) printf("CUDA tests ran on: %s\n", all->ran_on);
    if (!o.list) printf("%d passed, %d failed, %d skipped\n", all->n_passed, all->n_failed, all->n_skipped);
    return all->n_failed > 0 || unmatched > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
