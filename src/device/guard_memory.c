/* device/guard_memory.c: addresses that the host cannot touch.
 *
 * One span of address space is reserved without any right to it; blocks are cut from it, and any read or write through
 * such an address is a fault. The bytes lie in a mapping of their own that only guard*.c know of, at its end and before
 * a page without rights, so that a kernel that overruns its block faults too. Freed addresses are not used again
 * before the whole span has been gone through. */
#include "device/guard.h"

#include "base/intmath.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT ((size_t)64)
#define SPAN_MAX ((size_t)1 << 30)
#define SPAN_MIN ((size_t)1 << 28)
#define RUBBISH 0xA5

/* All guards of the process, to tell another guard's addresses from the host's. */
static nc_lock spans_lock;
static nc_guard_memory *spans;

__attribute__((constructor)) static void init(void) { nc_lock_init(&spans_lock, NC_LOCK_LEAF, NULL, NULL); }

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

nc_code nc_guard_memory_init(nc_guard_memory *m, nc_work *w) {
    void *p = MAP_FAILED;
    size_t bytes = 2 * SPAN_MAX;
    while (p == MAP_FAILED && bytes > SPAN_MIN) {
        bytes /= 2;
        p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (p == MAP_FAILED) NC_FAIL(w, NC_E_MEMORY, "guard: no address space for its blocks");
    *m = (nc_guard_memory){.start = (uintptr_t)p, .end = (uintptr_t)p + bytes, .cursor = (uintptr_t)p};
    nc_lock_take(&spans_lock);
    m->next = spans;
    spans = m;
    nc_lock_give(&spans_lock);
    return NC_OK;
}

/* The bytes of a block end where their mapping's last, forbidden page begins. */
static void *map_bytes(size_t bytes) {
    size_t page = page_bytes(), used = nc_round_up_size(bytes ? bytes : 1, ALIGNMENT),
           body = nc_round_up_size(used, page);
    char *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (mprotect(p + body, page, PROT_NONE) != 0) {
        munmap(p, body + page);
        return NULL;
    }
    return memset(p + body - used, RUBBISH, used);
}

static void unmap_bytes(void *data, size_t bytes) {
    size_t page = page_bytes(), used = nc_round_up_size(bytes ? bytes : 1, ALIGNMENT),
           body = nc_round_up_size(used, page);
    munmap((char *)data - (body - used), body + page);
}

void nc_guard_memory_release(nc_guard_memory *m) {
    nc_lock_take(&spans_lock);
    nc_guard_memory **at = &spans;
    while (*at != NULL && *at != m) at = &(*at)->next;
    if (*at == m) *at = m->next;
    nc_lock_give(&spans_lock);
    for (size_t i = 0; i < m->live.n; i++) unmap_bytes(m->live.v[i].data, m->live.v[i].bytes);
    nc_blocks_release(&m->live);
    munmap((void *)m->start, m->end - m->start);
}

/* Addresses a block takes: the gap behind it keeps "one past the end" apart from the next block. */
static size_t extent(size_t bytes) { return nc_round_up_size(bytes, ALIGNMENT) + ALIGNMENT; }

/* Next fit from the cursor, once around. 0: the span is full. */
static uintptr_t place_block(nc_guard_memory *m, size_t bytes) {
    size_t need = extent(bytes);
    uintptr_t at = m->cursor;
    for (int round = 0; round < 2; round++, at = m->start)
        for (size_t i = nc_blocks_lower(&m->live, at); i <= m->live.n; i++) {
            uintptr_t limit = i < m->live.n ? m->live.v[i].start : m->end;
            if (limit - at >= need) return at;
            if (i < m->live.n) at = m->live.v[i].start + extent(m->live.v[i].bytes);
        }
    return 0;
}

nc_code nc_guard_memory_alloc(nc_guard_memory *m, size_t bytes, void **out, nc_diag *diag) {
    uintptr_t at = bytes < m->end - m->start ? place_block(m, bytes) : 0;
    void *data = at ? map_bytes(bytes) : NULL;
    if (data == NULL || !nc_blocks_add(&m->live, (nc_block){at, bytes, data})) {
        if (data != NULL) unmap_bytes(data, bytes);
        return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "guard: out of memory for %zu bytes", bytes);
    }
    m->cursor = at + extent(bytes);
    *out = (void *)at;
    return NC_OK;
}

bool nc_guard_memory_free(nc_guard_memory *m, void *p, size_t *bytes) {
    nc_block b;
    if (!nc_blocks_remove(&m->live, p, &b)) return false;
    unmap_bytes(b.data, b.bytes);
    *bytes = b.bytes;
    return true;
}

static bool in_span(const nc_guard_memory *m, const void *p) {
    return (uintptr_t)p >= m->start && (uintptr_t)p < m->end;
}

static bool in_other_span(const nc_guard_memory *m, const void *p) {
    nc_lock_take(&spans_lock);
    const nc_guard_memory *other = spans;
    while (other != NULL && (other == m || !in_span(other, p))) other = other->next;
    nc_lock_give(&spans_lock);
    return other != NULL;
}

nc_guard_place nc_guard_memory_find(const nc_guard_memory *m, const void *p, size_t bytes, void **out) {
    *out = (void *)(uintptr_t)p;
    if (!in_span(m, p)) return p != NULL && in_other_span(m, p) ? NC_GUARD_FOREIGN : NC_GUARD_HOST;
    const nc_block *b = nc_blocks_find(&m->live, p);
    if (b == NULL) return NC_GUARD_DEAD;
    size_t offset = (uintptr_t)p - b->start;
    if (bytes > b->bytes - offset) return NC_GUARD_OVER;
    *out = (char *)b->data + offset;
    return NC_GUARD_LIVE;
}

const char *nc_guard_place_text(nc_guard_place place) {
    switch (place) {
    case NC_GUARD_HOST: return "is host memory";
    case NC_GUARD_LIVE: return "is device memory";
    case NC_GUARD_DEAD: return "lies in no live block";
    case NC_GUARD_OVER: return "reaches past the end of its block";
    case NC_GUARD_FOREIGN: return "belongs to another guard device";
    }
    return "?";
}
