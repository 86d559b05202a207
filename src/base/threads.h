/* base/threads.h: one pool, lazily started; the caller works too. Work is cut into items by the caller, and an item
 * never knows which thread runs it: results must not depend on the thread count. Survives fork: a child starts anew. */
#ifndef NC_BASE_THREADS_H
#define NC_BASE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nc_pool nc_pool;

/* threads <= 0: as many as affinity and CPU quota allow. NULL: out of memory. Threads start at first use; if none
 * can be started, the caller does all the work. Several threads may use one pool at once. */
nc_pool *nc_pool_create(int threads);
void nc_pool_destroy(nc_pool *p);
int nc_pool_threads(const nc_pool *p); /* including the caller */
int nc_machine_threads(void);
uint64_t nc_pool_posts(const nc_pool *p); /* how often threads were asked to help so far */

/* The pool for `work` elements of a few operations each: none, where waking a thread costs more than the work. */
enum { NC_ALONE = 16384 };
static inline nc_pool *nc_pool_for(nc_pool *p, int64_t work) { return work < NC_ALONE ? NULL : p; }

/* How much of `work` an item of a loop has, where nothing else depends on it: `most`, or less where each thread would
 * have fewer than four, but no less than `least`. */
static inline int64_t nc_pool_item(const nc_pool *p, int64_t work, int64_t least, int64_t most) {
    int64_t threads = nc_pool_threads(p), each = work / (4 * threads);
    return threads == 1 || each > most ? most : each < least ? least : each;
}

/* Calls fn(ctx, i) once for every i in [0, n), in any order, from several threads; returns when all are done.
 * p may be NULL: serial. May be called from inside an item (then it runs serially in that item). */
void nc_parallel(nc_pool *p, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx);
/* The same by at most so many threads (1 or more): for work too small to wake them all, or with scratch for so many. */
void nc_parallel_upto(nc_pool *p, int most, int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx);
/* Inside of an item: a number below nc_pool_threads, `most` and n that no other thread in the same call has, for
 * scratch that items use one after the other. What an item gives may not depend on it. */
int nc_parallel_lane(void);

#endif
