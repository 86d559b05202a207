/* base/mem.c: the allocator of the libc, counted, with one armed failure for tests. What is larger than all memory of
 * the machine is refused here: a system that overcommits would give addresses and end the process at the first touch.
 * The counters are statistics: relaxed atomics, exact once the threads that allocate have been joined. */
#include "base/mem.h"

#include "base/intmath.h"
#include "base/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Blocks of this size are asked for in huge pages: one fault instead of 512, and far fewer misses of the TLB. They take
 * no byte more: the end that fills no huge page stays in small ones. */
#define HUGE ((size_t)2 << 20)

static atomic_uint_least64_t n_calls, n_live, n_bytes, fail_countdown;
static atomic_bool fail_hit;
static _Thread_local uint64_t n_failures;

#define SMALL ((size_t)1 << 28) /* never compared with the machine's memory */

static bool machine_has(size_t bytes) {
    static atomic_uint_least64_t most;
    if (bytes <= SMALL) return true;
    if (bytes > PTRDIFF_MAX) return false;
    uint64_t has = atomic_load_explicit(&most, memory_order_relaxed);
    if (has == 0) {
        has = nc_machine_memory("");
        if (has == 0) has = UINT64_MAX;
        atomic_store_explicit(&most, has, memory_order_relaxed);
    }
    return bytes <= has;
}

/* Books one allocation; false when it must fail. Sizes that no object of this machine can have never reach the libc. */
static bool admit(size_t bytes) {
    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {}
    if (left == 1) atomic_store(&fail_hit, true);
    if (!machine_has(bytes)) return false;
    atomic_fetch_add_explicit(&n_bytes, bytes, memory_order_relaxed);
    return left != 1;
}

static void *failed(void) {
    n_failures++;
    return NULL;
}

static void *count_live(void *p) {
    if (p == NULL) return failed();
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

void *nc_alloc(size_t bytes) {
    if (!admit(bytes)) return failed();
    return count_live(malloc(bytes ? bytes : 1));
}

void *nc_alloc_zero(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) bytes = SIZE_MAX;
    if (!admit(bytes)) return failed();
    return count_live(calloc(1, bytes ? bytes : 1));
}

void *nc_alloc_aligned(size_t bytes, size_t align) {
    if (!admit(bytes)) return failed();
    if (align < sizeof(void *)) align = sizeof(void *);
    void *p = NULL;
    if (bytes >= HUGE && align < HUGE) align = HUGE;
    if (posix_memalign(&p, align, bytes ? bytes : 1) != 0) return failed();
    if (bytes >= HUGE) (void)madvise(p, bytes / HUGE * HUGE, MADV_HUGEPAGE);
    return count_live(p);
}

/* In step with huge pages: what is mapped too much on either side goes at once. */
void *nc_alloc_pages(size_t bytes) {
    if (!admit(bytes) || bytes > SIZE_MAX / 2) return failed();
    size_t used = nc_round_up_size(bytes ? bytes : 1, (size_t)sysconf(_SC_PAGESIZE));
    char *r = mmap(NULL, used + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED) return failed();
    size_t head = nc_round_up_size((uintptr_t)r, HUGE) - (uintptr_t)r;
    if (head > 0) (void)munmap(r, head);
    if (head < HUGE) (void)munmap(r + head + used, HUGE - head);
    if (bytes >= HUGE) (void)madvise(r + head, bytes / HUGE * HUGE, MADV_HUGEPAGE);
    return count_live(r + head);
}

void nc_free_pages(void *p, size_t bytes) {
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    (void)munmap(p, nc_round_up_size(bytes ? bytes : 1, (size_t)sysconf(_SC_PAGESIZE)));
}

void *nc_realloc(void *p, size_t bytes) {
    if (p == NULL) return nc_alloc(bytes);
    if (!admit(bytes)) return failed();
    void *moved = realloc(p, bytes ? bytes : 1);
    return moved != NULL ? moved : failed();
}

void nc_free(void *p) {
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

uint64_t nc_mem_failures(void) { return n_failures; }

void nc_mem_fail_at(uint64_t n) {
    atomic_store(&fail_hit, false);
    atomic_store(&fail_countdown, n);
}

bool nc_mem_fail_hit(void) { return atomic_load(&fail_hit); }

uint64_t nc_mem_count(void) { return atomic_load_explicit(&n_calls, memory_order_relaxed); }

uint64_t nc_mem_live(void) { return atomic_load_explicit(&n_live, memory_order_relaxed); }

uint64_t nc_mem_bytes(void) { return atomic_load_explicit(&n_bytes, memory_order_relaxed); }
