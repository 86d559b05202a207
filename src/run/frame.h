/* run/frame.h: one run: memory, slots, streams, where it stands. Pooled per program. A frame can stop at a cut and
 * go on later; several may stand at once; releasing one gives up its activations.
 *
 * Files: frame.c (life and boundary), resident.c (boundary tensors on the device), bind.c (symbols, slots and
 * memory of a segment), exec.c (instructions), dyn.c (dynamic kernels and subprograms), deferred.c (subprograms
 * planned when reached), replay.c (captured segments). */
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

typedef struct nc_captured {
    nc_capture *capture;
    uint64_t key;
    int runs; /* with this key */
} nc_captured;

typedef struct nc_frame {
    nc_session *session;
    nc_prepared *prepared;
    const nc_program *program;
    struct nc_frame *next;   /* in the free list */
    struct nc_frame *parent; /* of a subprogram's frame: lends its streams */
    nc_live *slots;
    int64_t *sym;
    bool *known;
    nc_chunk (*chunks)[2]; /* per segment, per place */
    nc_cached **instances; /* per segment */
    nc_captured *captured; /* per segment */
    nc_stream *streams[NC_N_STREAMS];
    nc_event **events;
    nc_state *state;
    bool holds_state, updated;
    int seg; /* the next segment to run */
    bool failed;
    const atomic_int *cancel;
    nc_log_scope log; /* that of the run; of a subprogram's frame: unused */
    nc_work work;
    nc_tensor *args; /* room for one instruction's tensors */
    const void **packed;
    int i_profile;    /* which frame of the profile; 0: not numbered yet */
    uint64_t ns_subs; /* profiled: time that the present instruction spent in subgraphs */
} nc_frame;

/* A frame from the pool or a new one; symbols unknown, nothing bound. */
NC_MUST nc_code nc_frame_acquire(nc_work *w, nc_session *s, nc_prepared *r, nc_frame *parent, nc_frame **out);
void nc_frame_release(
    nc_frame *f); /* back to the pool: inputs, objects and state are let go; memory is kept for the next run */
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
NC_MUST nc_code nc_frame_use_state(nc_frame *f, nc_state *borrows, bool wait);
/* Runs up to the cut before instruction `stop` (a segment's start), or, not at_cut, to the end. Errors are in
 * f->work.diag. */
NC_MUST nc_code nc_frame_run(nc_frame *f, int stop, bool at_cut);
nc_object *nc_frame_output(nc_frame *f, int i); /* borrowed; NULL: not made yet */

/* ---- between the files ---- */
NC_MUST nc_code nc_bind_symbols(nc_frame *f); /* from inputs and variables, before the first segment */
NC_MUST nc_code nc_bind_dims(nc_frame *f, int slot, const nc_tensor *t); /* actual dims teach symbols, or contradict */
NC_MUST nc_code nc_bind_segment(nc_frame *f, int seg);                   /* sizes, instance, memory, slots */
NC_MUST nc_code nc_exec_instr(nc_frame *f, int i, bool with_events);
NC_MUST nc_code nc_exec_waits(nc_frame *f, const nc_instr *x);
NC_MUST nc_code nc_exec_record(nc_frame *f, const nc_instr *x);
NC_MUST nc_code nc_exec_sync(nc_frame *f); /* all streams */
NC_MUST nc_code nc_exec_dynamic(nc_frame *f, int i, nc_call *c);
NC_MUST nc_code nc_exec_range(nc_frame *f, int seg); /* the capturable range, recorded or replayed when that is on */
void nc_exec_let_go(nc_frame *f, const nc_instr *x); /* objects whose last use this was */
nc_code nc_exec_fill_call(nc_frame *f, int i, nc_call *c);

/* ---- deferred.c: the plan of instruction i, a Deferred, for these inputs, made if there is none */
typedef struct nc_variant nc_variant;
NC_MUST nc_code nc_deferred_get(nc_frame *f, int i, const nc_tensor *in, nc_variant **out, nc_prepared **prepared);
void nc_deferred_release(nc_session *s, nc_variant *v);  /* NULL is fine */
void nc_deferred_trim(nc_session *s, nc_variant **list); /* drops what no frame uses */
void nc_deferred_clear(nc_session *s, nc_variant **list);

static inline nc_device *nc_frame_device(const nc_frame *f, int place) {
    return place ? f->program->device : nc_device_cpu();
}

#endif
