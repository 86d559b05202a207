/* bench/limits.c: what this machine can do, for bench/limits.py: multiply-adds from registers, copying and reading of
 * memory that no cache holds, by 1 and by all processors. Prints: threads, GFLOP/s, GB/s copied (bytes read plus bytes
 * written), GB/s read.
 * Stands alone: it uses nothing of the library, so that no engine sets its own limit. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    CHAINS = 12,
    STEPS = 3000000,
    LEAST_BYTES = 1 << 26,
    MOST_BYTES = 1 << 30,
    CACHES = 4, /* times the last cache: what is left in it of the last round is no more than a quarter */
    MAX_THREADS = 256,
    TRIES = 5,
    ALIGNMENT = 1 << 21
};

#ifdef __AVX512F__
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#ifdef __aarch64__
#define CHANGES(v) __asm__ volatile("" : "+w"(v)) /* to the compiler: else it would multiply once */
#else
#define CHANGES(v) __asm__ volatile("" : "+v"(v))
#endif
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

typedef struct job {
    pthread_t thread;
    char *from, *to;
    int64_t bytes; /* of each */
    float sum;
    double seconds;
} job;

/* Of this thread alone: on a busy machine the wall clock would measure the others. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of that many steps, CHAINS multiply-adds of LANES each. */
static double multiply_steps(int steps, float *sum) {
    lanes acc[CHAINS], a, b;
    double start = now();
    for (int l = 0; l < LANES; l++) a[l] = 0.999f, b[l] = *sum + 1e-3f;
    for (int c = 0; c < CHAINS; c++) acc[c] = b * (float)c;
    for (int i = 0; i < steps; i++) {
        CHANGES(a);
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) acc[c] += a * b;
    }
    for (int c = 1; c < CHAINS; c++) acc[0] += acc[c];
    CHANGES(acc[0]); /* who does not want the sum waits for it all the same */
    *sum = acc[0][0];
    return now() - start;
}

static void *multiply(void *p) {
    job *j = p;
    j->seconds = multiply_steps(STEPS, &j->sum);
    return NULL;
}

static void *copy(void *p) {
    job *j = p;
    double start = now();
    memcpy(j->to, j->from, (size_t)j->bytes);
    j->seconds = now() - start;
    return NULL;
}

/* Several streams of vectors, so that no sum waits for the one before; large pages where the system has them. */
static void *read_all(void *p) {
    enum { STREAMS = 4 };
    job *j = p;
    lanes sum[STREAMS] = {{0}};
    const int64_t each = j->bytes / (int64_t)sizeof(lanes) / STREAMS;
    double start = now();
    const lanes *v = (const lanes *)j->from;
    for (int64_t i = 0; i < each; i++)
        for (int s = 0; s < STREAMS; s++) sum[s] += v[s * each + i];
    for (int s = 1; s < STREAMS; s++) sum[0] += sum[s];
    j->sum = sum[0][0];
    j->seconds = now() - start;
    return NULL;
}

/* Pieces of work a second, of n threads together; the best of some tries. */
static double rate(job *jobs, int n, int tries, void *(*work)(void *)) {
    double best = 0;
    for (int t = 0; t < tries; t++) {
        int started = 0;
        double sum = 0;
        while (started < n && pthread_create(&jobs[started].thread, NULL, work, &jobs[started]) == 0) started++;
        for (int i = 0; i < started; i++) pthread_join(jobs[i].thread, NULL);
        for (int i = 0; i < started; i++) sum += 1 / jobs[i].seconds;
        if (sum > best) best = sum;
    }
    return best;
}

/* The third cache as the kernel tells it: C's library knows it on x86-64 only. 0: not told. */
static int64_t last_cache(void) {
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    long kb = 0;
    if (f && fscanf(f, "%ldK", &kb) != 1) kb = 0;
    if (f) fclose(f);
    return (int64_t)kb << 10;
}

/* Bytes for each of n threads, so that the last cache, which they share, cannot hold them. */
static int64_t bytes_of(int n) {
    int64_t bytes = CACHES * last_cache() / n;
    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
    return bytes / ALIGNMENT * ALIGNMENT;
}

static char *filled(int64_t bytes, int with) {
    char *p = aligned_alloc(ALIGNMENT, (size_t)bytes);
    if (!p) exit(1);
    (void)madvise(p, (size_t)bytes, MADV_HUGEPAGE);
    memset(p, with, (size_t)bytes);
    return p;
}

static void take(job *jobs, int n) {
    for (int i = 0; i < n; i++) {
        jobs[i].bytes = bytes_of(n);
        jobs[i].from = filled(jobs[i].bytes, 0);
        jobs[i].to = NULL;
    }
}

static void measure(int n) {
    static job jobs[MAX_THREADS];
    take(jobs, n);
    for (int i = 0; i < n; i++) jobs[i].to = filled(jobs[i].bytes, i);
    double flops = 2.0 * LANES * CHAINS * STEPS * rate(jobs, n, TRIES, multiply);
    double bytes = 2.0 * (double)jobs->bytes * rate(jobs, n, TRIES, copy);
    double reads = (double)jobs->bytes * rate(jobs, n, TRIES, read_all);
    printf("%d %.3f %.3f %.3f\n", n, flops * 1e-9, bytes * 1e-9, reads * 1e-9);
    for (int i = 0; i < n; i++) {
        free(jobs[i].from);
        free(jobs[i].to);
    }
}

/* For bench/worker.py, which loads this file as a library. */
double limits_now(void);
double limits_read_now(int threads);

/* GFLOP/s of this thread right now, in about a millisecond. */
double limits_now(void) {
    enum { SHORT = 60000 };
    float sum = 0;
    return 2e-9 * SHORT * CHAINS * LANES / multiply_steps(SHORT, &sum);
}

/* GB/s that so many threads read right now, each time the same number of them. What they read stays. */
double limits_read_now(int threads) {
    static job jobs[MAX_THREADS];
    if (jobs->from == NULL) take(jobs, threads);
    return 1e-9 * (double)jobs->bytes * rate(jobs, threads, 1, read_all);
}

int main(void) {
    cpu_set_t set;
    int all = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    if (all > MAX_THREADS) all = MAX_THREADS;
    measure(1);
    if (all > 1) measure(all);
    return 0;
}
