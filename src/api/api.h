/* api/api.h: what stands behind the public handles, and how errors cross. The only room that knows both sides. */
#ifndef NC_API_API_H
#define NC_API_API_H

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
};

struct nacre_session {
    nc_session *s;
};

struct nacre_state {
    nc_state *state;
};

struct nacre_run_options {
    nacre_state *state;
    atomic_int cancel;
    const nacre_run_options *leader; /* whose cancel counts instead; NULL: none */
    const char **kept;               /* outputs that stay on the device */
    size_t n_kept;
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
    NC_VEC(nc_tie) ties;
    NC_VEC(nc_plan_cut) cuts;
    NC_VEC(nc_fixed_dim) fixed_dims;
    NC_VEC(nc_plan_stream) given;
    char device[32];
    enum { NC_DIFF_NONE, NC_DIFF_GRADIENTS, NC_DIFF_BACKWARD, NC_DIFF_SGD } diff;
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
/* Hands a text to the caller, who frees it; releases it when it lacks memory. */
nacre_code nc_api_text(nc_text *t, char **out, nacre_error *err);
int nc_api_level(const char *name); /* of transform; -1: no such level */
nacre_code nc_api_check_shape(nacre_type type, int rank, const int64_t *dims, size_t *bytes, nacre_error *err);

/* ---- device_value.c: tensors in the memory of a device ---- */

/* A host tensor with the same contents; a new reference. */
NC_MUST nc_code nc_api_to_host(nc_work *w, nc_object *o, nc_object **out);
NC_MUST nc_code nc_api_copy(nc_work *w, nc_object *dst, const nc_object *src);
/* A tensor in the device's memory with the contents of a host tensor. */
NC_MUST nc_code nc_api_to_device(nc_work *w, nc_env *env, nc_device *d, nc_object *o, nc_object **out);

/* The session options as run/ reads them; valid while o lives. */
void nc_api_options(const nacre_options *o, nc_session_options *out);

#endif
