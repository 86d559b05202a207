/* run/state.h: named buffers that programs keep their variables in: parameters, moments, caches, the random state. A
 * state lives apart from session and frame. Several programs may bind to one state by name (train, evaluate, step over
 * one set of weights), and one program to several states (one per conversation).
 *
 * A buffer is the state's own, or lent by the caller: then it stays where it is, and one that is lent to be read is
 * refused to programs that write it. Variables are added, never taken away: what was found by name stays valid.
 *
 * A run that writes holds its state alone, readers share, whatever program they run. When a run fails or is cancelled
 * after its first update was issued, the variables that its program writes are dirty: every later run on the state
 * refuses until each of them was reset or set anew. So it is in a forked child when another thread's run was writing.
 *
 * Files: state.c (the set: names, binding, who holds it, contents), state_var.c (the memory of one variable). */
#ifndef NC_RUN_STATE_H
#define NC_RUN_STATE_H

#include "base/lock.h"
#include "base/map.h"
#include "plan/program.h"
#include "run/env.h"

typedef struct nc_state_var {
    const char *name;
    nc_env *env; /* the state's */
    nc_buffer *buffer;
    nc_device *device;
    nc_budget *budget; /* the state's; NULL: none */
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
    int64_t fixed[NC_MAX_RANK]; /* what new contents must have per axis; -1: any size */
    int grow_axis;              /* -1: fixed size */
    int64_t cap;                /* room along grow_axis */
    bool set;                   /* has contents */
    atomic_bool dirty;          /* an update of it may be half done */
    bool late;                  /* a run that returned before its end writes it */
    bool lent;                  /* the caller's memory: never replaced */
    bool read_only;
} nc_state_var;

/* What a program's variables are in a state, found once. */
typedef struct nc_state_map {
    uint64_t program; /* its session's uid */
    nc_state_var **vars;
} nc_state_map;

enum { NC_STATE_MAPS = 16 }; /* programs that are remembered; the oldest is looked up again */

typedef struct nc_state {
    atomic_int refs;
    nc_env *env;
    nc_device *device;
    nc_budget *budget;
    nc_arena arena; /* names and variables */
    nc_map names;
    NC_VEC(nc_state_var *) vars;
    nc_state_map maps[NC_STATE_MAPS];
    int n_maps, next_map;
    nc_lock lock; /* names, maps, who holds it, dirty */
    pthread_cond_t free;
    int readers;
    bool writer;
    bool suspect;   /* some variable may be dirty */
    nc_event *done; /* behind all runs that returned before their end, on streams of their callers; NULL: none ever */
    bool pending;   /* such runs may still be under way */
} nc_state;

/* Without variables. The budget (may be NULL) is charged for what it will own. */
NC_MUST nc_code nc_state_create(nc_work *w, nc_env *keeps, nc_device *d, nc_budget *keeps_budget, nc_state **out);
nc_state *nc_state_ref(nc_state *s);
void nc_state_unref(nc_state *s);

/* ---- adding; ARGUMENT when the name is there already ---- */

/* The variables of p that the state lacks, with their initial contents; seed: of the random state. */
NC_MUST nc_code nc_state_add_program(nc_work *w, nc_state *s, const nc_program *p, uint64_t seed);
/* The state's own memory; host NULL: zeros. */
NC_MUST nc_code nc_state_add(nc_work *w, nc_state *s, const char *name, const nc_tensor *t, const void *host);
/* The memory of a tensor on the state's device. */
NC_MUST nc_code nc_state_lend(nc_work *w, nc_state *s, const char *name, nc_object *keeps, bool writable);

/* ---- finding ---- */

int nc_state_n(nc_state *s);
const nc_state_var *nc_state_at(nc_state *s, int i);
/* The state's variable for each of p's; program is the uid of its session. ARGUMENT names those that are missing. */
NC_MUST nc_code nc_state_bind(nc_work *w, nc_state *s, uint64_t program, const nc_program *p, nc_state_var **out);

/* ---- holding ---- */

/* wait: block until it is free; else STATE when it is held by others. */
NC_MUST nc_code nc_state_begin(nc_work *w, nc_state *s, bool writes, bool wait);
void nc_state_end(nc_state *s, bool writes);
void nc_state_look(nc_state *s); /* waits and holds it as a reader, also a dirty one; then nc_state_end */
/* A run on a stream of its caller's follows those that returned before their end: all work queued on the stream later
 * comes after theirs. It leaves in the same way: who holds the state next waits, on its own stream or on the host. */
NC_MUST nc_code nc_state_follow(nc_work *w, nc_state *s, nc_stream *stream);
NC_MUST nc_code nc_state_leave(nc_work *w, nc_state *s, const nc_program *p, nc_state_var *const *vars,
                               nc_stream *stream);
/* The host waits for such runs. What one of them met is told here; the variables that they write are then dirty. */
NC_MUST nc_code nc_state_await(nc_state *s, nc_diag *diag);
/* What p writes is dirty. The caller holds the state. */
void nc_state_spoil(nc_state *s, const nc_program *p, nc_state_var *const *vars);
bool nc_state_is_dirty(nc_state *s);

/* ---- contents; these wait until they may hold the state, and for runs that returned before their end ---- */

/* Initial contents for the variables of p, or for the one of this name; those lent to be read keep theirs. */
NC_MUST nc_code nc_state_reset(nc_work *w, nc_state *s, const nc_program *p, uint64_t seed, const char *name);
/* A host copy, dense. */
NC_MUST nc_code nc_state_read(nc_work *w, nc_state *s, const char *name, nc_object **out);
NC_MUST nc_code nc_state_write(nc_work *w, nc_state *s, const char *name, const nc_tensor *host);
/* A tensor over the variable's own memory. STATE where its rows lie apart. */
NC_MUST nc_code nc_state_share(nc_work *w, nc_state *s, const char *name, nc_object **out);

/* ---- state_var.c: the memory of one variable; the caller holds the state ---- */

/* The variable as a tensor of these dims, strides by its room. */
void nc_state_tensor(const nc_state_var *v, const int64_t *dims, nc_tensor *t);
bool nc_state_var_is_dense(const nc_state_var *v);
/* It grows along this axis from now on. */
NC_MUST nc_code nc_state_var_grow(nc_work *w, nc_state_var *v, int axis);
NC_MUST nc_code nc_state_reserve(nc_work *w, nc_state_var *v, const int64_t *dims); /* makes room; contents stay */
/* host NULL: zeros. */
NC_MUST nc_code nc_state_var_fill(nc_work *w, nc_state_var *v, const int64_t *dims, const void *host);
NC_MUST nc_code nc_state_var_read(nc_work *w, const nc_state_var *v, nc_object **out);

#endif
