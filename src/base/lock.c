/* base/lock.c: all locks of the process in one list per rank, and what happens to them around a fork. The list has a
 * lock of its own, which is taken before all others. */
#include "base/lock.h"

#include <stdatomic.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static nc_lock *all[NC_N_LOCK_RANKS];
static bool survives;
static atomic_uint n_forks;

static void make_mutex(nc_lock *l) {
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    if (l->recursive) pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&l->mutex, &how);
    pthread_mutexattr_destroy(&how);
}

static void before_fork(void) {
    pthread_mutex_lock(&all_lock);
    for (int r = 0; r < NC_N_LOCK_RANKS; r++)
        for (nc_lock *l = all[r]; l; l = l->next) pthread_mutex_lock(&l->mutex);
}

static void give_all(void) {
    for (int r = NC_N_LOCK_RANKS - 1; r >= 0; r--)
        for (nc_lock *l = all[r]; l; l = l->next) pthread_mutex_unlock(&l->mutex);
    pthread_mutex_unlock(&all_lock);
}

/* The mutexes are made anew: they may have waiters that are not in the child. Unlocked before that, for what watches
 * locks: ThreadSanitizer knows no other end of one that is held. */
static void after_fork_child(void) {
    atomic_fetch_add(&n_forks, 1);
    for (int r = 0; r < NC_N_LOCK_RANKS; r++)
        for (nc_lock *l = all[r]; l; l = l->next) {
            pthread_mutex_unlock(&l->mutex);
            make_mutex(l);
            if (l->renew) l->renew(l->ctx);
        }
    pthread_mutex_unlock(&all_lock);
    pthread_mutex_init(&all_lock, NULL);
}

static void register_handlers(void) { survives = pthread_atfork(before_fork, give_all, after_fork_child) == 0; }

static void add(nc_lock *l) {
    pthread_once(&once, register_handlers);
    make_mutex(l);
    pthread_mutex_lock(&all_lock);
    l->next = all[l->rank];
    if (l->next) l->next->prev = l;
    all[l->rank] = l;
    pthread_mutex_unlock(&all_lock);
}

void nc_lock_init(nc_lock *l, nc_lock_rank rank, void (*renew)(void *ctx), void *ctx) {
    *l = (nc_lock){.rank = rank, .renew = renew, .ctx = ctx};
    add(l);
}

void nc_lock_init_recursive(nc_lock *l, nc_lock_rank rank) {
    *l = (nc_lock){.rank = rank, .recursive = true};
    add(l);
}

void nc_lock_release(nc_lock *l) {
    pthread_mutex_lock(&all_lock);
    if (l->next) l->next->prev = l->prev;
    if (l->prev)
        l->prev->next = l->next;
    else
        all[l->rank] = l->next;
    pthread_mutex_unlock(&all_lock);
    pthread_mutex_destroy(&l->mutex);
}

bool nc_lock_survives_fork(void) { return survives; }
unsigned nc_lock_forks(void) { return atomic_load(&n_forks); }
