/* tests/cuda/driver_memory.c: device memory. One span of addresses without any right; a block's pages are opened by the
 * first touch of device work and closed before the host goes on, so that a host that reads them faults. A block ends
 * (rounded up to 256 bytes, CUDA's alignment) where its last page ends, and a page without rights follows. Addresses
 * are not used again before the whole span has been gone through. */
#include "tests/cuda/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RUBBISH = 0xA5, ALIGNMENT = 256, LARGE = 4 << 20 };

static struct {
    uintptr_t start, end, cursor;
    block *v; /* sorted by start */
    size_t n, cap, in_use;
} mem;

static struct {
    struct {
        uintptr_t start;
        size_t bytes;
    } * v;
    size_t n, cap;
} pinned;

static size_t page(void) { return (size_t)sysconf(_SC_PAGESIZE); }
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static bool reserve_span(void) {
    for (size_t bytes = (size_t)1 << 40; mem.start == 0 && bytes > MEMORY_TOTAL; bytes /= 2) {
        void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) continue;
        mem.start = mem.cursor = (uintptr_t)p;
        mem.end = mem.start + bytes;
    }
    return mem.start != 0;
}

/* The index of the first block whose pages end behind p. */
static size_t lower(uintptr_t p) {
    size_t lo = 0, hi = mem.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (mem.v[mid].pages + mem.v[mid].bytes_pages > p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Next fit from the cursor, once around; 0: none. */
static uintptr_t place(size_t bytes) {
    uintptr_t at = mem.cursor;
    for (int round = 0; round < 2; round++, at = mem.start)
        for (size_t i = lower(at); i <= mem.n; i++) {
            uintptr_t limit = i < mem.n ? mem.v[i].pages : mem.end;
            if (limit > at && limit - at >= bytes) return at;
            if (i < mem.n) at = mem.v[i].pages + mem.v[i].bytes_pages + page();
        }
    return 0;
}

int memory_reserve(size_t bytes, bool live, uintptr_t *out) {
    if (bytes == 0) return E_INVALID_VALUE;
    if (bytes > MEMORY_TOTAL || mem.in_use + bytes > MEMORY_TOTAL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (mem.start == 0 && !reserve_span()) return CUDA_ERROR_OUT_OF_MEMORY;
    if (mem.n == mem.cap) {
        size_t cap = mem.cap ? 2 * mem.cap : 64;
        block *v = realloc(mem.v, cap * sizeof *v);
        if (v == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        mem.v = v, mem.cap = cap;
    }
    size_t used = round_up(bytes, ALIGNMENT), pages = round_up(used, page());
    uintptr_t at = place(pages + page());
    if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t i = lower(at);
    memmove(mem.v + i + 1, mem.v + i, (mem.n - i) * sizeof *mem.v);
    mem.v[i] = (block){.start = at + pages - used, .bytes = bytes, .pages = at, .bytes_pages = pages, .live = live};
    mem.n++;
    mem.in_use += bytes;
    mem.cursor = at + pages + page();
    *out = mem.v[i].start;
    return OK;
}

static block *find(uintptr_t p) {
    size_t i = lower(p);
    return i < mem.n && p >= mem.v[i].start ? &mem.v[i] : NULL;
}

const block *memory_find(uintptr_t p, size_t bytes) {
    const block *b = find(p);
    return b != NULL && p - b->start <= b->bytes && bytes <= b->bytes - (p - b->start) ? b : NULL;
}

bool memory_in_span(uintptr_t p) { return p >= mem.start && p < mem.end; }
size_t memory_blocks(void) { return mem.n; }

bool memory_live(uintptr_t start) {
    block *b = find(start);
    if (b == NULL || b->start != start) return false;
    b->live = true;
    return true;
}

/* The pages are given back and forbidden again. */
static void forget(const block *b) {
    if (b->touched)
        mmap((void *)b->pages, b->bytes_pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
    mem.in_use -= b->bytes;
}

bool memory_release(uintptr_t start) {
    block *b = find(start);
    if (b == NULL || b->start != start) return false;
    forget(b);
    size_t i = (size_t)(b - mem.v);
    memmove(b, b + 1, (mem.n - i - 1) * sizeof *b);
    mem.n--;
    return true;
}

void memory_release_all(void) {
    for (size_t i = 0; i < mem.n; i++) forget(&mem.v[i]);
    mem.n = 0;
}

/* What no kernel has written is no zero. Of large blocks, the workspaces of streams, only the ends are filled: every
 * test has some. */
static void fill_with_rubbish(const block *b) {
    size_t end = b->bytes_pages > LARGE ? LARGE / 16 : 0;
    memset((void *)b->pages, RUBBISH, end > 0 ? end : b->bytes_pages);
    memset((void *)(b->pages + b->bytes_pages - end), RUBBISH, end);
}

/* Runs inside the handler of a fault: system calls and plain stores alone. */
bool memory_open(uintptr_t p) {
    block *b = memory_in_span(p) ? find(p) : NULL;
    if (b == NULL || !b->live || b->open) return false;
    if (mprotect((void *)b->pages, b->bytes_pages, PROT_READ | PROT_WRITE) != 0) return false;
    b->open = true;
    if (!b->touched) fill_with_rubbish(b);
    b->touched = true;
    return true;
}

static bool is_whole(const block *b) {
    const unsigned char *p = (const unsigned char *)b->start;
    for (size_t i = b->bytes; i < round_up(b->bytes, ALIGNMENT); i++)
        if (p[i] != RUBBISH) {
            complain("something wrote byte %zu of a block of %zu bytes", i, b->bytes);
            return false;
        }
    return true;
}

bool memory_close(void) {
    bool whole = true;
    for (size_t i = 0; i < mem.n; i++) {
        if (!mem.v[i].open) continue;
        whole = is_whole(&mem.v[i]) && whole;
        mprotect((void *)mem.v[i].pages, mem.v[i].bytes_pages, PROT_NONE);
        mem.v[i].open = false;
    }
    return whole;
}

int pinned_alloc(void **out, size_t bytes) {
    if (bytes == 0) return E_INVALID_VALUE;
    if (pinned.n == pinned.cap) {
        size_t cap = pinned.cap ? 2 * pinned.cap : 16;
        void *v = realloc(pinned.v, cap * sizeof *pinned.v);
        if (v == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        pinned.v = v, pinned.cap = cap;
    }
    void *p = NULL;
    if (bytes > MEMORY_TOTAL || posix_memalign(&p, 4096, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    pinned.v[pinned.n].start = (uintptr_t)p;
    pinned.v[pinned.n++].bytes = bytes;
    *out = p;
    return OK;
}

bool pinned_free(void *p) {
    for (size_t i = 0; i < pinned.n; i++)
        if (pinned.v[i].start == (uintptr_t)p) {
            pinned.v[i] = pinned.v[--pinned.n];
            free(p);
            return true;
        }
    return false;
}

bool pinned_has(uintptr_t p) {
    for (size_t i = 0; i < pinned.n; i++)
        if (p >= pinned.v[i].start && p - pinned.v[i].start < pinned.v[i].bytes) return true;
    return false;
}

size_t pinned_count(void) { return pinned.n; }
