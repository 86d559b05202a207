/* train/parameters.c: the parameters of a training session: lent to its state, as one buffer, by name. On the processor
 * the state works in the checkpoint's memory; on a device it has copies, which nc_training_sync fetches. */
#include "train/training.h"

#include <string.h>

static bool shares_memory(const nc_training *t) { return strcmp(t->device, "cpu") == 0; }

static nc_object *zeros_like(const nc_tensor *t) {
    nc_object *o = nc_object_host_tensor(t->dtype, t->rank, t->dims);
    if (o) memset(o->t.data, 0, o->buffer->bytes);
    return o;
}

/* A tensor of the checkpoint as a variable of the state. */
static nc_code give(nc_work *w, nc_training *t, const char *name, nc_object *o) {
    if (shares_memory(t)) return nc_state_lend(w, t->state, name, o, true);
    return nc_state_add(w, t->state, name, &o->t, o->t.data);
}

static bool has(nc_training *t, const char *name) { return nc_map_get(&t->state->names, name) != NULL; }

/* Those of any optimizer: each moment is one for all of them. */
static int n_moments(const nc_training *t) {
    int most = 0;
    for (int i = 0; i < t->optimizers.n; i++)
        if (t->optimizers.v[i]->moments > most) most = t->optimizers.v[i]->moments;
    return most;
}

/* resumed: how many moments of each parameter the checkpoint has. */
static nc_code lend_moments(nc_work *w, nc_training *t, nc_parameter *p, int resumed) {
    for (int k = 0; k < n_moments(t); k++) {
        const char *name = nc_bind_moment_name(&w->scratch, p->name, k);
        NC_NEED(w, name);
        if (has(t, name)) continue;
        NC_NEED(w, name = nc_arena_str(&t->arena, name));
        if (!p->moments[k] && k < resumed)
            NC_FAIL(w, NC_E_ARGUMENT, "the checkpoint has moments of other parameters, but none of '%s'", p->name);
        if (!p->moments[k]) NC_NEED(w, p->moments[k] = zeros_like(&p->value->t));
        NC_TRY(give(w, t, name, p->moments[k]));
    }
    return NC_OK;
}

static nc_code lend_param(nc_work *w, nc_training *t, int i) {
    nc_parameter *p = &t->checkpoint->params.v[i];
    if (!has(t, p->name)) NC_TRY(give(w, t, p->name, p->value));
    if (!t->params[i].sum || has(t, t->params[i].sum)) return NC_OK;
    NC_NEED(w, t->sums[i] = zeros_like(&p->value->t));
    return give(w, t, t->params[i].sum, t->sums[i]);
}

/* The most moments that the checkpoint has of any parameter. */
static int n_resumed(const nc_training *t) {
    int most = 0;
    for (int i = 0; i < t->checkpoint->params.n; i++)
        while (most < NC_MOMENTS && t->checkpoint->params.v[i].moments[most]) most++;
    return most;
}

/* The random state goes on where the checkpoint says: {seed, steps}, the one variable that programs bring along. */
static nc_code put_random(nc_work *w, nc_training *t) {
    const nc_graph *g = t->train.session->program->graph;
    int64_t from[2] = {(int64_t)t->checkpoint->seed, (int64_t)t->checkpoint->drawn};
    nc_tensor held;
    nc_tensor_set(&held, from, NC_INT64, 1);
    held.dims[0] = 2, held.strides[0] = 1;
    for (int i = 0; t->checkpoint->has_random && i < g->vars.n; i++)
        if (g->vars.v[i]->internal) NC_TRY(nc_state_write(w, t->state, g->vars.v[i]->name, &held));
    return NC_OK;
}

nc_code nc_training_lend(nc_work *w, nc_training *t) {
    int resumed = n_resumed(t);
    for (int i = 0; i < t->checkpoint->params.n; i++) {
        nc_parameter *p = &t->checkpoint->params.v[i];
        NC_TRY(lend_param(w, t, i));
        if (t->params[i].sum) NC_TRY(lend_moments(w, t, p, resumed));
    }
    NC_TRY(nc_state_add_program(w, t->state, t->train.session->program, t->seed));
    if (t->eval.session) NC_TRY(nc_state_add_program(w, t->state, t->eval.session->program, t->seed));
    if (!t->lent) NC_TRY(put_random(w, t));
    t->lent = true;
    return NC_OK;
}

/* ---- one buffer ---- */

static bool counts(const nc_training *t, int i, bool trainable) {
    return t->params[i].rank >= 0 && (!trainable || t->checkpoint->params.v[i].trainable);
}

static nc_code size_of(nc_work *w, const nc_training *t, int i, int64_t *n) {
    const nc_parameter *p = &t->checkpoint->params.v[i];
    const nc_bound_param *b = &t->params[i];
    const int64_t *dims = p->value ? p->value->t.dims : b->dims;
    *n = 1;
    for (int d = 0; d < b->rank; d++) {
        if (dims[d] < 0) NC_FAIL(w, NC_E_UNSUPPORTED, "parameter '%s': the model does not tell its shape", p->name);
        *n *= dims[d];
    }
    return NC_OK;
}

nc_code nc_training_size(nc_work *w, const nc_training *t, bool trainable, int64_t *out) {
    int64_t total = 0, n;
    for (int i = 0; i < t->checkpoint->params.n; i++) {
        if (!counts(t, i, trainable)) continue;
        NC_TRY(size_of(w, t, i, &n));
        total += n;
    }
    *out = total;
    return NC_OK;
}

static nc_code check_buffer(nc_work *w, const nc_training *t, bool trainable, const nc_object *o) {
    int64_t want;
    NC_TRY(nc_training_size(w, t, trainable, &want));
    if (o->kind != NC_OBJ_TENSOR || o->t.dtype != NC_FLOAT)
        NC_FAIL(w, NC_E_TYPE, "a buffer of parameters is a tensor of float, got %s",
                o->kind == NC_OBJ_TENSOR ? nc_dtype_name(o->t.dtype) : "no tensor");
    if (nc_tensor_numel(&o->t) != want)
        NC_FAIL(w, NC_E_SHAPE, "the buffer has %lld elements, the %s parameters have %lld",
                (long long)nc_tensor_numel(&o->t), trainable ? "trainable" : "model's", (long long)want);
    for (int i = 0; i < t->checkpoint->params.n; i++)
        if (counts(t, i, trainable) && t->checkpoint->params.v[i].dtype != NC_FLOAT)
            NC_FAIL(w, NC_E_TYPE, "parameter '%s' is %s: a buffer holds parameters of float",
                    t->checkpoint->params.v[i].name, nc_dtype_name(t->checkpoint->params.v[i].dtype));
    return NC_OK;
}

nc_code nc_training_to_buffer(nc_work *w, nc_training *t, bool trainable, nc_object *into) {
    NC_TRY(nc_training_need_values(w, t));
    NC_TRY(check_buffer(w, t, trainable, into));
    NC_TRY(nc_training_sync(w, t));
    float *to = into->t.data;
    for (int i = 0; i < t->checkpoint->params.n; i++) {
        int64_t n;
        if (!counts(t, i, trainable)) continue;
        NC_TRY(size_of(w, t, i, &n));
        if (n) memcpy(to, t->checkpoint->params.v[i].value->t.data, (size_t)n * sizeof *to);
        to += n;
    }
    return NC_OK;
}

/* Nominal parameters get memory. */
static nc_code make_values(nc_work *w, nc_training *t) {
    for (int i = 0; i < t->checkpoint->params.n; i++) {
        nc_parameter *p = &t->checkpoint->params.v[i];
        if (p->value) continue;
        if (t->params[i].rank < 0)
            NC_FAIL(w, NC_E_UNSUPPORTED, "parameter '%s' is nominal, and no model tells its shape", p->name);
        NC_NEED(w, p->value = nc_object_host_tensor(p->dtype, t->params[i].rank, t->params[i].dims));
    }
    return NC_OK;
}

nc_code nc_training_from_buffer(nc_work *w, nc_training *t, bool trainable, const nc_object *from) {
    nc_checkpoint *c = t->checkpoint;
    if (c->nominal && trainable)
        NC_FAIL(w, NC_E_STATE,
                "the checkpoint is nominal: please load all the parameter states first (trainable and frozen ones at "
                "once)");
    NC_TRY(check_buffer(w, t, trainable, from));
    if (c->nominal) NC_TRY(make_values(w, t));
    const float *at = from->t.data;
    for (int i = 0; i < c->params.n; i++) {
        int64_t n;
        if (!counts(t, i, trainable)) continue;
        NC_TRY(size_of(w, t, i, &n));
        if (n) memcpy(c->params.v[i].value->t.data, at, (size_t)n * sizeof *at);
        at += n;
        if (t->lent) NC_TRY(nc_training_put(w, t, i));
    }
    c->nominal = false;
    return nc_training_lend(w, t);
}

/* ---- by name ---- */

nc_code nc_training_put(nc_work *w, nc_training *t, int i) {
    const nc_parameter *p = &t->checkpoint->params.v[i];
    if (shares_memory(t) || !t->lent) return NC_OK;
    return nc_state_write(w, t->state, p->name, &p->value->t);
}

static nc_code fetch(nc_work *w, nc_training *t, const char *name, nc_object *into) {
    nc_object *o;
    NC_TRY(nc_state_read(w, t->state, name, &o));
    memcpy(into->t.data, o->t.data, (size_t)nc_tensor_numel(&o->t) * nc_dtype_bytes(o->t.dtype));
    nc_object_unref(o);
    return NC_OK;
}

static nc_code fetch_random(nc_work *w, nc_training *t) {
    const nc_graph *g = t->train.session->program->graph;
    for (int i = 0; t->lent && i < g->vars.n; i++) {
        nc_object *o;
        if (!g->vars.v[i]->internal) continue;
        NC_TRY(nc_state_read(w, t->state, g->vars.v[i]->name, &o));
        t->checkpoint->has_random = true;
        t->checkpoint->seed = (uint64_t)((const int64_t *)o->t.data)[0];
        t->checkpoint->drawn = (uint64_t)((const int64_t *)o->t.data)[1];
        nc_object_unref(o);
    }
    return NC_OK;
}

nc_code nc_training_sync(nc_work *w, nc_training *t) {
    NC_TRY(fetch_random(w, t));
    if (shares_memory(t) || !t->lent) return NC_OK;
    for (int i = 0; i < t->checkpoint->params.n; i++) {
        nc_parameter *p = &t->checkpoint->params.v[i];
        NC_TRY(fetch(w, t, p->name, p->value));
        if (t->sums[i]) NC_TRY(fetch(w, t, t->params[i].sum, t->sums[i]));
        for (int k = 0; k < n_moments(t) && p->moments[k] && t->params[i].sum; k++) {
            const char *name = nc_bind_moment_name(&w->scratch, p->name, k);
            NC_NEED(w, name);
            NC_TRY(fetch(w, t, name, p->moments[k]));
        }
    }
    return NC_OK;
}

nc_code nc_training_gradient(nc_work *w, nc_training *t, int i, nc_object **out) {
    *out = NULL;
    if (!t->sums[i]) return NC_OK;
    if (!shares_memory(t) && t->lent) NC_TRY(fetch(w, t, t->params[i].sum, t->sums[i]));
    *out = nc_object_ref(t->sums[i]);
    return NC_OK;
}
