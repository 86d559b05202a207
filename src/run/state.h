/* run/state.h: the contents of a program's variables: parameters, caches, the random state. Lives apart from session
 * and frame; a session may have several (one per conversation, one per trainee).
 *
 * A run that writes holds its state alone, readers share. When a run fails or is cancelled after its first update was
 * issued, the state is dirty: every later run refuses until it is reset or every variable was set anew. So it is in a
 * forked child when another thread's run was writing it. */
#ifndef NC_RUN_STATE_H
#define NC_RUN_STATE_H

#include "base/lock.h"
#include "plan/program.h"

typedef struct nc_state_var {
    nc_buffer *buffer;
    nc_device *device;
    nc_budget *budget; /* the session's */
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
    int grow_axis; /* -1: fixed size */
    int64_t cap;   /* room along grow_axis */
    bool set;      /* has contents */
} nc_state_var;

typedef struct nc_state {
    atomic_int refs;
    const nc_program *program; /* borrowed: the session outlives it */
    nc_state_var *vars;
    int n_vars;
    bool dirty;
    nc_lock lock;
    pthread_cond_t free;
    int readers;
    bool writer;
    uint64_t seed;
} nc_state;

NC_MUST nc_code nc_state_create(nc_work *w, nc_budget *borrows, const nc_program *p, uint64_t seed, nc_state **out);
nc_state *nc_state_ref(nc_state *s);
void nc_state_unref(nc_state *s);
NC_MUST nc_code nc_state_reset(nc_work *w,
                               nc_state *s); /* initial contents, not dirty; waits until nobody runs on it */

/* wait: block until it is free; else STATE when it is held by others. */
NC_MUST nc_code nc_state_begin(nc_work *w, nc_state *s, bool writes, bool wait);
void nc_state_end(nc_state *s, bool writes);

/* The variable as a tensor of its current dims, strides by its room. */
void nc_state_tensor(const nc_state_var *v, const int64_t *dims, nc_tensor *t);
NC_MUST nc_code nc_state_reserve(nc_work *w, nc_state_var *v, const int64_t *dims); /* makes room; contents stay */
/* Host copies, dense. */
NC_MUST nc_code nc_state_read(nc_work *w, nc_state *s, int i_var, nc_object **out);
NC_MUST nc_code nc_state_write(nc_work *w, nc_state *s, int i_var, const nc_tensor *host);

#endif
