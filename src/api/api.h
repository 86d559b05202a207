/* api/api.h: what stands behind the public handles, and how errors cross. The only room that knows both sides. */
#ifndef NC_API_API_H
#define NC_API_API_H

#include "base/log.h"
#include "nacre/nacre.h"
#include "run/frame.h"

/* A public value is a counted object, a public state a state, a public model a model: the same pointer under two names.
 */
static inline nc_object *nc_api_object(const nacre_value *v) { return (nc_object *)(uintptr_t)v; }
static inline nacre_value *nc_api_value(nc_object *o) { return (nacre_value *)o; }

struct nacre_env {
    nc_env *env;
};

struct nacre_model {
    nc_model *model;
    nc_env *env; /* kept: its registry has the cards */
};

struct nacre_session {
    nc_session *s;
    nc_env *model_env; /* kept: that of the model, which may be another than the session's */
};

struct nacre_state {
    nc_state *state;
};

struct nacre_stream {
    nc_env *env; /* kept */
    nc_device *device;
    nc_stream *stream;
};

struct nacre_run_options {
    nacre_state *state;
    nacre_stream *stream; /* borrowed; NULL: the frame's own */
    atomic_int cancel;
    const nacre_run_options *leader; /* whose cancel counts instead; NULL: none */
    const char **kept;               /* outputs that stay on the device */
    size_t n_kept;
    nc_log_scope log; /* its id is the options' own */
};

struct nacre_frame {
    nc_frame *f;
    nacre_session *session;
};

struct nacre_options {
    nc_arena arena;
    nc_session_options o;
    NC_VEC(const char *) off;
    NC_VEC(const char *) recompute;
    NC_VEC(const char *) variables;
    NC_VEC(const char *) stops;
    NC_VEC(nc_tie) ties;
    NC_VEC(nc_plan_cut) cuts;
    NC_VEC(nc_fixed_dim) fixed_dims;
    NC_VEC(nc_plan_stream) given;
    char device[32];
    enum { NC_DIFF_NONE, NC_DIFF_GRADIENTS, NC_DIFF_BACKWARD, NC_DIFF_SGD, NC_DIFF_ACCUMULATE } diff;
    const char *const *diff_outputs; /* the loss, or the outputs that are fed */
    int n_diff_outputs;
    const char *const *diff_wrt;
    int n_diff_wrt;
    const char *lr_input;
};

/* Fills *err (may be NULL) from a diagnostic, or from a code alone. Returns the public code. */
nacre_code nc_api_error(nacre_error *err, nc_code code, const nc_diag *d);
/* The end of a call: the same from w's diagnostic where it failed; w is released. */
nacre_code nc_api_end(nc_work *w, nc_code code, nacre_error *err);
nacre_code nc_api_fail(nacre_error *err, nc_code code, const char *fmt, ...) NC_PRINTF(3, 4);
/* A struct of the caller's that may be of an older or newer header: what it lacks is zero, what is beyond is not read.
 * Both begin with their size. */
nacre_code nc_api_read_struct(nacre_error *err, const char *name, const void *given, void *own, size_t bytes_own);
/* Hands a text to the caller, who frees it; releases it when it lacks memory. */
nacre_code nc_api_text(nc_text *t, char **out, nacre_error *err);
int nc_api_level(const char *name);                   /* of transform; -1: no such level */
bool nc_api_compute(const char *name, nc_dtype *out); /* what products are computed in; false: no such word */
nacre_code nc_api_log_level(nacre_error *err, const char *name, nc_log_scope *out);
nacre_code nc_api_check_shape(nacre_type type, int rank, const int64_t *dims, size_t *bytes, nacre_error *err);

/* ---- run.c: the pieces of a run, by index ---- */

/* Where a wanted output goes: into the caller's tensor, or into a new one, on the host or on the session's device. */
typedef struct nc_wanted {
    int output;
    nc_object *into; /* borrowed */
    bool on_device;
} nc_wanted;

/* The index of an input or output, looked for from `guess` on; -1: none. */
int nc_api_find(const nc_program *p, bool input, const char *name, int guess);
nc_code nc_api_unknown_name(nc_work *w, const nc_program *p, bool input, const char *name);
/* A frame with its state and stream; on failure there is none, and w says why. */
NC_MUST nc_code nc_api_begin(nc_work *w, nacre_session *s, nacre_run_options *r, bool wait, nc_frame **out);
NC_MUST nc_code nc_api_give(nc_frame *f, int i, nc_object *o);
NC_MUST nc_code nc_api_want(nc_frame *f, const nc_wanted *w);                  /* before the run */
NC_MUST nc_code nc_api_take(nc_frame *f, const nc_wanted *w, nc_object **out); /* after it; a new reference */
/* Counts the run, releases the frame, fills err where code is one. */
nacre_code nc_api_finish(nacre_session *s, nc_frame *f, nc_code code, nacre_error *err);

/* ---- device_value.c: tensors in the memory of a device ---- */

/* A dense host tensor with the contents of a strided one. */
NC_MUST nc_code nc_api_dense(nc_work *w, const nc_object *o, nc_object **out);
/* A host tensor with the same contents; a new reference. */
NC_MUST nc_code nc_api_to_host(nc_work *w, nc_object *o, nc_object **out);
NC_MUST nc_code nc_api_copy(nc_work *w, nc_object *dst, const nc_object *src);
/* A tensor in the device's memory with the contents of a host tensor. */
NC_MUST nc_code nc_api_to_device(nc_work *w, nc_env *env, nc_device *d, nc_object *o, nc_object **out);

/* The session options as run/ reads them; valid while o lives. */
void nc_api_options(const nacre_options *o, nc_session_options *out);

#endif
