/* base/arena.c: bump allocation from a chain of growing chunks.
 *
 * The chain is kept in order of use. `head` is the chunk in use; chunks behind it (older) are full, chunks ahead of it
 * are spare, left by a reset. So an arena that is reset and refilled with the same sizes allocates nothing. */
#include "base/arena.h"

#include "base/mem.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ALIGN 16
#define FIRST_CHUNK 4000
#define LARGEST_GROWTH ((size_t)4 << 20)
#define MANY ((size_t)16 << 20) /* bytes of an arena whose next chunk may as well be in memory whole: huge pages */

struct nc_arena_chunk {
    nc_arena_chunk *older, *newer;
    size_t bytes;
    _Alignas(ALIGN) unsigned char data[];
};

void nc_arena_init(nc_arena *a) {
    memset(a, 0, sizeof *a);
}

void nc_arena_reset(nc_arena *a) {
    while (a->head && a->head->older) a->head = a->head->older;
    a->used = 0;
}

nc_arena_mark nc_arena_here(const nc_arena *a) { return (nc_arena_mark){a->head, a->used}; }

void nc_arena_back(nc_arena *a, nc_arena_mark to) {
    if (to.head == NULL) {
        nc_arena_reset(a);
        return;
    }
    a->head = to.head;
    a->used = to.used;
}

void nc_arena_release(nc_arena *a) {
    nc_arena_reset(a);
    while (a->head) {
        nc_arena_chunk *newer = a->head->newer;
        nc_free(a->head);
        a->head = newer;
    }
    nc_arena_init(a);
}

/* Makes a chunk with room for `bytes` the head: the next spare one if it is large enough, else a new one before it. */
static int advance(nc_arena *a, size_t bytes) {
    nc_arena_chunk *spare = a->head ? a->head->newer : NULL;
    if (spare && spare->bytes >= bytes) {
        a->head = spare;
        a->used = 0;
        return 1;
    }
    size_t want = a->total < FIRST_CHUNK ? FIRST_CHUNK : a->total > LARGEST_GROWTH ? LARGEST_GROWTH : a->total;
    want = (want < bytes ? bytes : want) & ~(size_t)(ALIGN - 1);
    if (want > PTRDIFF_MAX - sizeof(nc_arena_chunk)) return 0;
    bool whole = bytes > LARGEST_GROWTH / 2 || a->total >= MANY;
    nc_arena_chunk *c = whole ? nc_alloc_aligned(sizeof *c + want, ALIGN) : nc_alloc(sizeof *c + want);
    if (c == NULL) return 0;
    *c = (nc_arena_chunk){.older = a->head, .newer = spare, .bytes = want};
    if (a->head) a->head->newer = c;
    if (spare) spare->older = c;
    a->head = c;
    a->used = 0;
    a->total += want;
    return 1;
}

/* Uninitialised; zero bytes still give an address of their own. */
static void *take(nc_arena *a, size_t bytes) {
    if (bytes > PTRDIFF_MAX - ALIGN) return NULL;
    bytes = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if ((a->head == NULL || a->head->bytes - a->used < bytes) && !advance(a, bytes)) return NULL;
    void *p = a->head->data + a->used;
    a->used += bytes;
    return p;
}

void *nc_arena_alloc(nc_arena *a, size_t bytes) {
    void *p = take(a, bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

void *nc_arena_array(nc_arena *a, size_t n, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : nc_arena_alloc(a, bytes);
}

void *nc_arena_copy(nc_arena *a, const void *p, size_t bytes) {
    void *copy = take(a, bytes);
    if (copy && bytes > 0) memcpy(copy, p, bytes);
    return copy;
}

char *nc_arena_str(nc_arena *a, const char *s) {
    return s ? nc_arena_strn(a, s, strlen(s)) : NULL;
}

char *nc_arena_strn(nc_arena *a, const char *s, size_t n) {
    if (n == SIZE_MAX) return NULL;
    char *copy = take(a, n + 1);
    if (copy == NULL) return NULL;
    if (n > 0) memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *nc_arena_printf(nc_arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : take(a, (size_t)n + 1);
    if (s == NULL) return NULL;
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

/* *v is some T *: it is read and written as bytes, since a void ** may not alias it. */
int nc_arena_grow(nc_arena *a, void **v, int *cap, int n, size_t size) {
    if (*cap > INT_MAX / 2) return 0;
    int new_cap = *cap < 4 ? 8 : *cap * 2;
    void *old, *p = nc_arena_array(a, (size_t)new_cap, size);
    if (p == NULL) return 0;
    memcpy(&old, (const void *)v, sizeof old);
    if (n > 0) memcpy(p, old, (size_t)n * size);
    memcpy((void *)v, &p, sizeof p);
    *cap = new_cap;
    return 1;
}
