/* base/lock.h: mutexes that survive fork. While a process forks, the forking thread holds every lock, so that a child
 * never sees half a change; then both sides let go, and in the child what belonged to threads that are not there is set
 * right by the lock's `renew`. A lock may be taken while one of a lower rank is held, never the other way round; none
 * is made or destroyed while another is held. */
#ifndef NC_BASE_LOCK_H
#define NC_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

typedef enum nc_lock_rank {
    NC_LOCK_DEFERRED,
    NC_LOCK_SESSION,
    NC_LOCK_ENV,
    NC_LOCK_STATE,
    NC_LOCK_DEVICE,
    NC_LOCK_LEAF,
    NC_N_LOCK_RANKS
} nc_lock_rank;

typedef struct nc_lock {
    pthread_mutex_t mutex;
    void (*renew)(void *ctx); /* called in a forked child, with no other thread there; NULL: nothing to do */
    void *ctx;
    struct nc_lock *next, *prev;
    nc_lock_rank rank;
    bool recursive;
} nc_lock;

void nc_lock_init(nc_lock *l, nc_lock_rank rank, void (*renew)(void *ctx), void *ctx);
void nc_lock_init_recursive(nc_lock *l, nc_lock_rank rank); /* its thread may take it again; not for nc_lock_wait */
void nc_lock_release(nc_lock *l);
static inline void nc_lock_take(nc_lock *l) { pthread_mutex_lock(&l->mutex); }
static inline void nc_lock_give(nc_lock *l) { pthread_mutex_unlock(&l->mutex); }
static inline void nc_lock_wait(nc_lock *l, pthread_cond_t *c) { pthread_cond_wait(c, &l->mutex); }

bool nc_lock_survives_fork(void); /* false: the system refused the handlers; known once a lock was made */
unsigned nc_lock_forks(void);     /* generations between this process and the one that loaded the library */

#endif
