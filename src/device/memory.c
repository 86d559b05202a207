/* device/memory.c: byte counters with a hard limit, and the sorted table of blocks.
 * Finding is a binary search; adding and removing move the tail, which is cheap for a session's few thousand blocks. */
#include "device/memory.h"

#include "base/mem.h"

#include <string.h>

nc_code nc_device_take(nc_device *d, size_t bytes, nc_diag *diag) {
    size_t live = atomic_load(&d->bytes_live), limit = d->bytes_limit;
    do {
        if (bytes > SIZE_MAX - live || (limit != 0 && live + bytes > limit))
            return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL,
                               "%s: out of memory: %zu bytes wanted, %zu in use, the machine has %zu", d->table->name,
                               bytes, live, limit);
    } while (!atomic_compare_exchange_weak(&d->bytes_live, &live, live + bytes));
    size_t now = live + bytes, peak = atomic_load(&d->bytes_peak);
    while (peak < now && !atomic_compare_exchange_weak(&d->bytes_peak, &peak, now)) {}
    atomic_fetch_add(&d->n_allocs, 1);
    return NC_OK;
}

void nc_device_give(nc_device *d, size_t bytes) { atomic_fetch_sub(&d->bytes_live, bytes); }

size_t nc_blocks_lower(const nc_block_table *t, uintptr_t p) {
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->v[mid].start < p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const nc_block *nc_blocks_find(const nc_block_table *t, const void *p) {
    uintptr_t at = (uintptr_t)p;
    size_t i = nc_blocks_lower(t, at);
    if (i < t->n && t->v[i].start == at) return &t->v[i];
    if (i == 0 || at - t->v[i - 1].start > t->v[i - 1].bytes) return NULL;
    return &t->v[i - 1];
}

bool nc_blocks_add(nc_block_table *t, nc_block b) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        nc_block *v = nc_realloc(t->v, cap * sizeof *v);
        if (v == NULL) return false;
        t->v = v;
        t->cap = cap;
    }
    size_t i = nc_blocks_lower(t, b.start);
    memmove(t->v + i + 1, t->v + i, (t->n - i) * sizeof *t->v);
    t->v[i] = b;
    t->n++;
    return true;
}

bool nc_blocks_remove(nc_block_table *t, const void *start, nc_block *out) {
    size_t i = nc_blocks_lower(t, (uintptr_t)start);
    if (i == t->n || t->v[i].start != (uintptr_t)start) return false;
    *out = t->v[i];
    t->n--;
    memmove(t->v + i, t->v + i + 1, (t->n - i) * sizeof *t->v);
    return true;
}

void nc_blocks_release(nc_block_table *t) {
    nc_free(t->v);
    *t = (nc_block_table){0};
}
