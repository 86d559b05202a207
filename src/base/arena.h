/* base/arena.h: bump allocation by lifetime. Nothing is freed singly; reset keeps the memory, release gives it back.
 * NULL on out of memory. Not thread-safe: one owner. */
#ifndef NC_BASE_ARENA_H
#define NC_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct nc_arena_chunk nc_arena_chunk;
typedef struct nc_arena {
    nc_arena_chunk *head; /* newest chunk */
    size_t used;          /* bytes used in head */
    size_t total;         /* bytes in all chunks */
} nc_arena;

void nc_arena_init(nc_arena *a); /* also valid: all zero */
void nc_arena_reset(nc_arena *a);
void nc_arena_release(nc_arena *a);
/* What was taken since the mark is free again, its memory kept. */
typedef struct nc_arena_mark {
    nc_arena_chunk *head;
    size_t used;
} nc_arena_mark;
nc_arena_mark nc_arena_here(const nc_arena *a);
void nc_arena_back(nc_arena *a, nc_arena_mark to);
void *nc_arena_alloc(nc_arena *a, size_t bytes);          /* 16-byte aligned, zeroed */
void *nc_arena_array(nc_arena *a, size_t n, size_t size); /* n*size checked, zeroed; n may be 0 */
void *nc_arena_copy(nc_arena *a, const void *p, size_t bytes);
char *nc_arena_str(nc_arena *a, const char *s);            /* copy; NULL stays NULL */
char *nc_arena_strn(nc_arena *a, const char *s, size_t n); /* copy of n bytes plus a NUL */
char *nc_arena_printf(nc_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Growable arrays inside an arena: `NC_VEC(nc_node *) nodes;` then NC_PUSH(arena, nodes, n), false on out of memory. */
#define NC_VEC(T)   \
    struct {        \
        T *v;       \
        int n, cap; \
    }
#define NC_PUSH(a, vec, item)                                                                             \
    (((vec).n < (vec).cap || nc_arena_grow((a), (void **)&(vec).v, &(vec).cap, (vec).n, sizeof *(vec).v)) \
         ? ((vec).v[(vec).n++] = (item), 1)                                                               \
         : 0)
int nc_arena_grow(nc_arena *a, void **v, int *cap, int n, size_t size); /* doubles; 0 on out of memory */

#endif
