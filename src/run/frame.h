/* run/frame.h: one run: memory, slots, streams, where it stands. Pooled per program. A frame can stop at a cut and
 * go on later; several may stand at once; releasing one gives up its activations.
 *
 * Between runs a frame keeps what it has bound: memory, sizes, the calls of its kernels with pointers to its slots. A
 * run with the same sizes fills in the caller's tensors and launches.
 *
 * Files: frame.c (life and boundary), resident.c (boundary tensors on the device), bind.c (symbols, slots and memory of
 * a segment), sizing.c (sizes that host arguments tell), exec.c (instructions), overlap.c (those of several host
 * streams), dyn.c (dynamic kernels and subprograms), deferred.c (subprograms planned when reached), replay.c (captured
 * segments). */
#ifndef NC_RUN_FRAME_H
#define NC_RUN_FRAME_H

#include "base/log.h"
#include "run/session.h"

typedef struct nc_live {
    nc_tensor t;
    nc_object *obj; /* OBJECT, INPUT, OUTPUT slots: holds a reference; NULL: borrowed tensor or not there */
    bool there;     /* INPUT, OUTPUT: bound */
    bool on_device; /* INPUT, OUTPUT: the bytes lie in the session's device, though the slot's place is the host */
} nc_live;

typedef struct nc_chunk {
    void *ptr;
    size_t bytes;
} nc_chunk;

/* A segment as it was bound last. */
typedef struct nc_bound {
    bool valid;
    int64_t *syms;     /* values of the segment's symbols; INT64_MIN: not known when it started */
    nc_cached *cached; /* its instance, held */
} nc_bound;

/* A stream of the host whose instructions run beside those of others. */
typedef struct nc_lane {
    nc_work work; /* where its instructions say what is wrong; of stream 0 it is the frame's */
    int next;     /* the first instruction that is not done */
    bool busy;
    nc_code code;
} nc_lane;

/* A recording of a segment: replay.c. */
typedef struct nc_captured {
    nc_capture *capture; /* NULL: not made yet */
    uint64_t key;        /* of all that is baked in */
    uint64_t memory;     /* of the frame's memory and stream alone */
    uint64_t *baked;     /* per instruction: of what its own work has baked in */
    int runs;            /* with this memory */
    uint64_t used_at;    /* 0: never */
} nc_captured;

enum { NC_CAPTURES = 8 }; /* recordings of a segment that are kept: states and sizes that take turns have one each */

typedef struct nc_captures {
    nc_captured row[NC_CAPTURES];
    uint64_t past[NC_CAPTURES]; /* keys whose recordings were changed to serve others */
    uint64_t n_past;
    int n_misfits; /* recordings that could not be changed */
} nc_captures;

typedef struct nc_frame {
    nc_session *session;
    nc_prepared *prepared;
    const nc_program *program;
    struct nc_frame *next;   /* in the free list */
    struct nc_frame *parent; /* of a subprogram's frame: lends its streams */
    nc_live *slots;
    nc_call *calls;       /* per instruction: filled once; what changes between runs is in the slots it points to */
    nc_kernel *kernels;   /* per instruction: the kernel, where its call on the host is all there is to do; else NULL */
    nc_tensor **operands; /* of all calls */
    const void **packed;  /* per pack of the program; filled when a segment is bound first */
    nc_tensor absent;     /* operands that are not there */
    nc_tensor ignored;    /* results of views that nobody reads */
    int64_t *sym;
    bool *known;
    nc_chunk *chunks;       /* (segments, places) */
    nc_bound *bound;        /* per segment */
    nc_captures *captures;  /* per segment */
    uint64_t clock;         /* of captures */
    struct nc_sized *sized; /* per instruction that is sized: sizing.c */
    nc_stream **streams;    /* per stream of the program */
    nc_stream *own;         /* the compute stream that the caller's stands for now */
    bool lent;              /* the compute stream is the caller's */
    bool still;             /* nothing is copied: the stream that computes waits for none and none for it */
    bool pending;           /* the run has returned, its work may go on until border[1] */
    nc_event *border[2];    /* between the caller's stream and the others; the end of the run */
    nc_event **events;
    nc_lane *lanes; /* per stream of a program that overlaps; NULL: it does not */
    nc_state *state;
    nc_state_var **vars; /* the state's variable for each of the program's */
    bool vars_placed;    /* their slots are filled */
    uint64_t vars_key;   /* of where they lie, and of their sizes */
    bool holds_state;
    atomic_bool updated;
    int seg;      /* the next segment to run */
    bool rebound; /* this run bound a segment anew: those after it follow */
    bool failed;
    const atomic_int *cancel;
    nc_log_scope log; /* that of the run; of a subprogram's frame: unused */
    nc_work work;
    nc_object **objects;     /* room for one dynamic instruction's operands and results */
    nc_tensor *results;      /* and for what is expected of its results */
    nc_tensor **results_ptr; /* pointers to those */
    int i_profile;           /* which frame of the profile; 0: not numbered yet */
    uint64_t ns_subs;        /* profiled: time that the present instruction spent in subgraphs */
} nc_frame;

/* A frame from the pool or a new one; symbols unknown, nothing bound. */
NC_MUST nc_code nc_frame_acquire(nc_work *w, nc_session *s, nc_prepared *r, nc_frame *parent, nc_frame **out);
/* Back to the pool: inputs, objects and state are let go; memory and sizes are kept for the next run. */
void nc_frame_release(nc_frame *f);
void nc_frame_destroy(nc_frame *f);

/* Takes the reference obj (may be NULL: t is borrowed until the run ends). t is the tensor, or NULL for other objects.
 */
NC_MUST nc_code nc_frame_bind_input(nc_frame *f, int i, const nc_tensor *t, nc_object *takes);
/* The caller's own memory for output i; must fit when its size is known. */
NC_MUST nc_code nc_frame_bind_output(nc_frame *f, int i, nc_object *takes);
/* Boundary tensors in the memory of the session's device: may input i be read, output i be written there, without a
 * copy in host memory? Where not, the caller copies. */
bool nc_frame_reads_on_device(const nc_frame *f, int i, const nc_object *o);
bool nc_frame_writes_on_device(const nc_frame *f, int i);
void nc_frame_output_on_device(nc_frame *f, int i); /* memory for output i, when it is not bound, is the device's */
/* The run computes on the caller's stream, after what was queued there, and returns without waiting for its end. */
NC_MUST nc_code nc_frame_use_stream(nc_frame *f, nc_stream *borrows);
NC_MUST nc_code nc_frame_use_state(nc_frame *f, nc_state *keeps, bool wait);
/* Runs up to the cut before instruction `stop` (a segment's start), or, not at_cut, to the end. Errors are in
 * f->work.diag. */
NC_MUST nc_code nc_frame_run(nc_frame *f, int stop, bool at_cut);
nc_object *nc_frame_output(nc_frame *f, int i); /* borrowed; NULL: not made yet */

/* ---- between the files ---- */
NC_MUST nc_code nc_frame_follow_stream(nc_frame *f); /* the others wait for what was queued on the caller's stream */
NC_MUST nc_code nc_frame_finish_stream(nc_frame *f); /* the caller's stream waits for the others */
void nc_frame_return_stream(nc_frame *f);
bool nc_frame_is_done(nc_frame *f); /* nothing of its last run is under way */
void nc_frame_await(nc_frame *f);
NC_MUST nc_code nc_bind_symbols(nc_frame *f); /* from inputs and variables, before the first segment */
/* Actual dims teach symbols, or contradict. */
NC_MUST nc_code nc_bind_dims(nc_frame *f, int slot, const int64_t *dims);
/* Sizes, instance, memory, slots. *kept: they are those of the run before, so that fixed views need not run again. */
NC_MUST nc_code nc_bind_segment(nc_frame *f, int seg, bool *kept);
void nc_bind_forget(nc_frame *f);                    /* lets go of the instances */
NC_MUST nc_code nc_sizing_run(nc_frame *f, int seg); /* symbols that the segment's host arguments tell */
void nc_sizing_release(nc_frame *f);
NC_MUST nc_code nc_exec_instr(nc_frame *f, int i, bool with_events);
/* Instruction i and those behind it, as far as they have `kernels`: nothing to wait for, to choose, to record or to let
 * go. *next: the first that was not run. */
NC_MUST nc_code nc_exec_plain(nc_frame *f, int i, int end, int *next);
NC_MUST nc_code nc_exec_waits(nc_frame *f, const nc_instr *x);
NC_MUST nc_code nc_exec_record(nc_frame *f, const nc_instr *x);
NC_MUST nc_code nc_exec_sync(nc_frame *f); /* all streams */
/* The instructions [first, end), each beside others; fixed views not, where they are kept. */
NC_MUST nc_code nc_exec_overlap(nc_frame *f, int first, int end, bool kept);
NC_MUST nc_code nc_exec_dynamic(nc_frame *f, int i);
NC_MUST nc_code nc_exec_range(nc_frame *f, int seg); /* the capturable range, recorded or replayed when that is on */
void nc_exec_forget(nc_frame *f);                    /* all recordings */
void nc_exec_let_go(nc_frame *f, const nc_instr *x); /* objects whose last use this was */

/* ---- deferred.c: the plan of instruction i, a Deferred, for these inputs, made if there is none ---- */
typedef struct nc_variant nc_variant;
/* Release it after use. */
NC_MUST nc_code nc_deferred_get(nc_frame *f, int i, nc_tensor *const *in, nc_variant **out, nc_prepared **prepared);
void nc_deferred_release(nc_session *s, nc_variant *v);  /* NULL is fine */
void nc_deferred_trim(nc_session *s, nc_variant **list); /* drops what no frame uses */
void nc_deferred_clear(nc_session *s, nc_variant **list);

static inline nc_device *nc_frame_device(const nc_frame *f, int place) { return f->program->places[place]; }
static inline nc_chunk *nc_frame_chunk(const nc_frame *f, int seg, int place) {
    return &f->chunks[(size_t)seg * (size_t)f->program->n_places + (size_t)place];
}

#endif
