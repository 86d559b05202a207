/* run/session.h: a model made ready to run: the program, its constants in place, the instances of its segments, pooled
 * frames. Several threads may run one session at once. */
#ifndef NC_RUN_SESSION_H
#define NC_RUN_SESSION_H

#include "base/log.h"
#include "onnx/save.h"
#include "plan/instance.h"
#include "plan/plan.h"
#include "run/env.h"
#include "run/profile.h"
#include "run/state.h"
#include "transform/rules.h"
#include "transform/transform.h"

/* A tie makes an input and an output the old and new content of one variable. */
typedef struct nc_tie {
    const char *input, *output;
} nc_tie;

/* A size that the caller fixes: every input dim of that name. */
typedef struct nc_fixed_dim {
    const char *name;
    int64_t value;
} nc_fixed_dim;

typedef enum nc_dump_stage {
    NC_DUMP_GRAPH,
    NC_DUMP_INFERRED,
    NC_DUMP_TRANSFORMED,
    NC_DUMP_DIFFERENTIATED,
    NC_DUMP_LOWERED,
    NC_DUMP_PROGRAM,
    NC_DUMP_INSTANCE,
    NC_N_DUMPS
} nc_dump_stage;

typedef struct nc_session_options {
    const char *device; /* NULL: "cpu" */
    int level;          /* of transform: 0 off, 1 basic, 2 extended, 3 all */
    bool no_fusion, no_layout, no_views, no_packing, no_winograd, tf32, tune, dnn_draws, capture;
    unsigned strict;  /* what of the model may not be assumed: bit = nc_assumption (ir/assume.h) */
    bool no_host;     /* what the device cannot compute is an error, not the host's */
    nc_dtype compute; /* FLOAT16, BFLOAT16: sums of products of f32 take such operands (transform/mixed.h) */
    const char *const *passes_off;
    int n_passes_off;
    const char *patterns; /* rules of the user's, transform/rules.h; NULL: none */
    const nc_tie *ties;
    int n_ties;
    const char *const *variables; /* initializers read from the state; "*": all of floats */
    int n_variables;
    const nc_plan_cut *cuts;
    int n_cuts;
    int n_streams; /* that may compute; 0: one */
    const nc_plan_stream *given;
    int n_given;
    const nc_fixed_dim *fixed_dims;
    int n_fixed_dims;
    const char *packed_file;      /* where packed weights are kept (run/pack_file.h); NULL: nowhere */
    const char *save_path;        /* the transformed graph goes there as ONNX; NULL: nowhere */
    nc_onnx_save_options save;    /* how */
    const char *const *recompute; /* node names; "*": what the plan finds cheap to take anew */
    int n_recompute;
    /* Adds gradients, variables and updates to the transformed graph (train/); NULL: inference. */
    nc_code (*differentiate)(nc_work *w, nc_model *m, const void *ctx);
    const void *differentiate_ctx;
    const char *const *stops; /* values through which no gradient passes, where one is asked for */
    int n_stops;
    uint64_t seed;
    size_t bytes_limit; /* of the session's memory on its devices; 0: none */
    bool keep_dumps;
    bool profile;
    bool flush_denormals; /* runs take denormals as zero */
    bool parts_symbols;   /* every dim of an input has a symbol of its own, whatever the model calls it */
    nc_log_scope log;     /* of the creation and the runs */
} nc_session_options;

/* An instance of a segment for a set of capacities. */
typedef struct nc_cached {
    int64_t *caps;         /* per symbol of the segment */
    nc_instance *instance; /* NULL: somebody makes it now, or failed to */
    bool failed;
    int users;
    struct nc_prepared *of; /* whose segment it is for */
    int seg;
    struct nc_cached *next;          /* of that segment */
    struct nc_cached *newer, *older; /* of the session, by last use */
} nc_cached;

/* A program with what belongs to it at run time; subprograms hang below their instructions. */
typedef struct nc_prepared {
    const nc_program *program;
    nc_env *env;               /* the session's */
    nc_budget *budget;         /* the session's */
    nc_tensor *consts;         /* per program constant */
    nc_buffer **const_buffers; /* what was copied or uploaded; NULL: used where it is mapped */
    _Atomic(nc_buffer *) *packs;
    bool *sole;                   /* per pack: nobody else reads what it is made of (readers.c) */
    atomic_bool packed;           /* nc_prepared_pack_all was begun */
    struct nc_prepared ***subs;   /* per instruction, per subgraph; NULL rows where there are none */
    struct nc_variant **variants; /* per instruction: of a Deferred, its plans */
    struct nc_frame *free_frames;
    nc_cached **cached; /* per segment: its instances */
} nc_prepared;

typedef struct nc_sym_seen {
    int n;
    int64_t v[2];
} nc_sym_seen;

typedef struct nc_stats {
    _Atomic uint64_t plans, instances, runs, frames, captures, replays;
    size_t bytes_frames; /* arena bytes of all frames, now */
    size_t bytes_frames_peak;
} nc_stats;

/* How the session plans, for what is planned while it runs. */
typedef struct nc_how {
    nc_plan_options plan;           /* without cuts, on one stream */
    nc_transform_options transform; /* its rules lie in the model's arena */
    nc_rules rules;
} nc_how;

typedef struct nc_session {
    nc_env *env;
    nc_model *model;
    nc_program *program;
    nc_prepared *prepared;
    nc_device *device;
    nc_budget *budget;    /* what its constants, frames, outputs and variables are charged to */
    nc_state *state;      /* its own, made when first asked for: nc_session_state */
    uint64_t uid;         /* no other session of this process has it */
    nc_object **initials; /* per input of the program: what it is when it is not given; NULL: it must be */
    bool capture;
    nc_lock lock;               /* instances, frames, the session's own state */
    pthread_cond_t made;        /* an instance that others wait for */
    nc_cached *newest, *oldest; /* instances, by last use */
    size_t bytes_cache;
    nc_sym_seen *seen; /* per symbol, of all programs */
    int n_seen;
    nc_how how;
    nc_lock deferred_lock; /* variants of all Deferreds */
    uint64_t deferred_clock;
    nc_stats stats;
    nc_text dumps[NC_N_DUMPS];
    uint64_t seed;
    bool flush_denormals;
    nc_log_scope log;    /* its id is in the model's arena */
    nc_profile *profile; /* NULL: off */
    int n_profiled;      /* frames that have a number in the profile */
} nc_session;

/* Takes m (also on failure). */
NC_MUST nc_code nc_session_create(nc_work *w, nc_env *env, nc_model *m, const nc_session_options *o, nc_session **out);
void nc_session_destroy(nc_session *s);
/* A state with all its variables and their initial contents. */
NC_MUST nc_code nc_session_make_state(nc_work *w, nc_session *s, nc_state **out);
/* The session's own state, borrowed: all variables, at first with their initial contents. */
NC_MUST nc_code nc_session_state(nc_work *w, nc_session *s, nc_state **out);
/* Gives back pooled frames and instances that no run uses. While others run, theirs stay. */
void nc_session_trim(nc_session *s);

/* ---- prepared.c ---- */
NC_MUST nc_code nc_prepared_create(nc_work *w, nc_env *env, nc_budget *borrows, const nc_program *p, nc_prepared **out);
void nc_prepared_destroy(nc_session *s, nc_prepared *r);
void nc_prepared_trim(nc_session *s, nc_prepared *r); /* destroys pooled frames, subprograms' too */
/* All packed forms at once, by all threads, before the first run; where one cannot be made, its user tries again. */
void nc_prepared_pack_all(nc_prepared *r);
NC_MUST nc_code nc_prepared_pack(nc_work *w, nc_prepared *r, int i_pack, const void **out);

/* ---- readers.c: finds the packs that are the only readers of their constant; gives up what was copied or packed and
 * nobody reads. Once, when r and its subprograms are made. ---- */
NC_MUST nc_code nc_readers_find(nc_work *w, nc_prepared *r);
/* The bytes were copied or packed: their pages go if they come back by themselves or `sole` says that nobody asks. */
void nc_readers_forget(const nc_literal *l, bool sole);

/* ---- cache.c: the instance for a segment at these symbol values; release when the frame lets go of it ---- */
NC_MUST nc_code nc_cache_get(nc_work *w, nc_session *s, nc_prepared *r, int seg, const int64_t *values,
                             const bool *known, nc_cached **out);
void nc_cache_release(nc_session *s, nc_cached *c);
void nc_cache_trim(nc_session *s);                   /* drops instances that no frame holds */
void nc_cache_forget(nc_session *s, nc_prepared *r); /* drops those of r; none is in use */

#endif
