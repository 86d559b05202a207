/* train/training.c: a training session's life and its steps; see training.h. */
#include "train/training.h"

#include "base/mem.h"
#include "ir/edit.h"
#include "onnx/load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- models ---- */

nc_code nc_training_load(nc_work *w, nc_training *t, const nc_stage_program *p, nc_model **out) {
    const nc_registry *r = nc_env_registry(t->env);
    if (p->source.path) return nc_onnx_load_file(w, p->source.path, r, out);
    return nc_onnx_load(w, p->source.bytes, p->source.n, p->keeps, NULL, r, out);
}

static nc_code keep_source(nc_work *w, nc_training *t, const nc_model_source *s, nc_stage_program *p) {
    if (s->path) {
        NC_NEED(w, p->source.path = nc_arena_str(&t->arena, s->path));
        return NC_OK;
    }
    NC_NEED(w, p->keeps = nc_buffer_host(s->n ? s->n : 1));
    memcpy(p->keeps->ptr, s->bytes, s->n);
    p->source = (nc_model_source){.bytes = p->keeps->ptr, .n = s->n};
    return NC_OK;
}

/* Gradients are in the graph already; what training asks of passes and random numbers holds all the same. */
static nc_code as_it_is(nc_work *w, nc_model *m, const void *ctx) {
    (void)w, (void)m, (void)ctx;
    return NC_OK;
}

nc_code nc_training_make(nc_work *w, nc_training *t, nc_model *takes, nc_session **out) {
    static const char *const cheap[] = {"*"};
    nc_session_options o = {.device = t->device,
                            .level = 3,
                            .recompute = cheap,
                            .n_recompute = t->recompute,
                            .dnn_draws = t->dnn_draws,
                            .differentiate = as_it_is,
                            .seed = t->seed,
                            .keep_dumps = true,
                            .capture = true}; /* steps of one size are all alike */
    return nc_session_create(w, t->env, takes, &o, out);
}

/* Which inputs of the program the caller feeds: all but the session's own (names, or NULL), whose places are told. */
static nc_code list_inputs(nc_work *w, nc_training *t, nc_stage_program *p, const char *const own[2], int *i_own[2]) {
    const nc_program *prog = p->session->program;
    NC_NEED(w, p->inputs = nc_arena_array(&t->arena, (size_t)prog->n_inputs + 1, sizeof *p->inputs));
    NC_NEED(w, p->places = nc_arena_array(&t->arena, (size_t)prog->n_inputs + 1, sizeof *p->places));
    for (int i = 0; i < prog->n_inputs; i++) {
        const char *name = prog->slots[prog->inputs[i]].value->name;
        int k = 0;
        while (k < 2 && !(own[k] && strcmp(name, own[k]) == 0)) k++;
        if (k < 2) {
            *i_own[k] = i;
            continue;
        }
        p->inputs[p->n_inputs] = name;
        p->places[p->n_inputs++] = i;
    }
    p->n_outputs = prog->n_outputs;
    return NC_OK;
}

/* One number, in as many dims as the program takes it. */
static nc_code make_scale(nc_work *w, nc_training *t) {
    const nc_program *p = t->train.session->program;
    int64_t ones[NC_MAX_RANK];
    for (int d = 0; d < NC_MAX_RANK; d++) ones[d] = 1;
    NC_NEED(w, t->scale = nc_object_host_tensor(NC_FLOAT, p->slots[p->inputs[t->i_scale]].rank, ones));
    if (!(t->checkpoint->loss_scale > 0)) t->checkpoint->loss_scale = 65536, t->checkpoint->scale_updates = 0;
    return NC_OK;
}

static nc_code make_train(nc_work *w, nc_training *t) {
    nc_bound_model bound = {.params = t->params};
    nc_model *m;
    NC_TRY(nc_training_load(w, t, &t->train, &m));
    nc_code code = nc_bind_training(w, m, t->checkpoint, &bound);
    for (int i = 0; code == NC_OK && i < t->checkpoint->params.n; i++)
        if (t->params[i].sum && !(t->params[i].sum = nc_arena_str(&t->arena, t->params[i].sum)))
            code = nc_fail(w, NC_E_MEMORY, "out of memory");
    const char *own[2] = {bound.reset ? nc_arena_str(&t->arena, bound.reset) : NULL,
                          bound.scale ? nc_arena_str(&t->arena, bound.scale) : NULL};
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    NC_TRY(nc_training_make(w, t, m, &t->train.session));
    NC_TRY(list_inputs(w, t, &t->train, own, (int *[2]){&t->i_reset, &t->i_scale}));
    return t->i_scale >= 0 ? make_scale(w, t) : NC_OK;
}

static nc_code make_eval(nc_work *w, nc_training *t) {
    nc_model *m;
    NC_TRY(nc_training_load(w, t, &t->eval, &m));
    nc_code code = nc_bind_eval(w, m, t->checkpoint);
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    NC_TRY(nc_training_make(w, t, m, &t->eval.session));
    return list_inputs(w, t, &t->eval, (const char *const[2]){NULL, NULL}, (int *[2]){NULL, NULL});
}

/* ---- life ---- */

static bool given(const nc_model_source *s) { return s->path != NULL || s->bytes != NULL; }

static nc_code start(nc_work *w, nc_training *t, const nc_training_models *m) {
    size_t n = (size_t)t->checkpoint->params.n + 1;
    nc_device *device;
    if (!given(&m->train)) NC_FAIL(w, NC_E_ARGUMENT, "a training session needs a training model");
    snprintf(t->device, sizeof t->device, "%s", m->device ? m->device : "cpu");
    t->recompute = m->recompute, t->dnn_draws = m->dnn_draws;
    t->seed = t->checkpoint->has_random ? t->checkpoint->seed : m->seed;
    NC_NEED(w, t->params = nc_arena_array(&t->arena, n, sizeof *t->params));
    NC_NEED(w, t->sums = nc_arena_array(&t->arena, n, sizeof(nc_object *)));
    memset(t->sums, 0, n * sizeof(nc_object *));
    NC_NEED(w, t->reset = nc_object_host_tensor(NC_BOOL, 1, (const int64_t[]){1}));
    *(bool *)t->reset->t.data = true; /* the sums are zeros: adding to them or replacing them is the same */
    NC_TRY(nc_env_device(t->env, w, t->device, &device));
    NC_TRY(nc_state_create(w, t->env, device, NULL, &t->state));
    NC_TRY(keep_source(w, t, &m->train, &t->train));
    NC_TRY(make_train(w, t));
    if (given(&m->eval)) {
        NC_TRY(keep_source(w, t, &m->eval, &t->eval));
        NC_TRY(make_eval(w, t));
    }
    if (!t->checkpoint->nominal) NC_TRY(nc_training_lend(w, t));
    return given(&m->optimizer) ? nc_training_add_optimizer(w, t, &m->optimizer) : NC_OK;
}

nc_code nc_training_create(nc_work *w, nc_env *env, nc_checkpoint *borrows, const nc_training_models *m,
                           nc_training **out) {
    nc_training *t = nc_alloc_zero(1, sizeof *t);
    NC_NEED(w, t);
    t->env = nc_env_ref(env), t->checkpoint = borrows, t->i_reset = t->i_scale = -1;
    t->grow_every = 2000;
    nc_code code = start(w, t, m);
    if (code == NC_OK)
        *out = t;
    else
        nc_training_release(t);
    return code;
}

static void release_program(nc_stage_program *p) {
    nc_session_destroy(p->session);
    nc_buffer_unref(p->keeps);
}

/* o's program, and which of its inputs the session feeds. */
static nc_code make_optimizer(nc_work *w, nc_training *t, const nc_model_source *s, nc_optimizer *o) {
    nc_bound_optimizer bound;
    nc_model *m;
    NC_TRY(keep_source(w, t, s, &o->program));
    NC_TRY(nc_training_load(w, t, &o->program, &m));
    nc_code code = nc_bind_optimizer(w, m, t->checkpoint, t->params, t->i_scale >= 0, &bound);
    if (code != NC_OK) {
        nc_model_destroy(m);
        return code;
    }
    NC_TRY(nc_training_make(w, t, m, &o->program.session));
    const nc_program *p = o->program.session->program;
    o->moments = bound.moments, o->i_rate = o->i_step = -1;
    for (int i = 0; i < p->n_inputs; i++) {
        const char *name = p->slots[p->inputs[i]].value->name;
        if (bound.rate && strcmp(name, bound.rate) == 0) o->i_rate = i;
        if (bound.step && strcmp(name, bound.step) == 0) o->i_step = i;
    }
    return NC_OK;
}

static nc_code make_feeds(nc_work *w, nc_training *t) {
    if (!t->rate) NC_NEED(w, t->rate = nc_object_host_tensor(NC_FLOAT, 1, (const int64_t[]){1}));
    if (!t->step) NC_NEED(w, t->step = nc_object_host_tensor(NC_INT64, 1, (const int64_t[]){1}));
    if (!t->done) NC_NEED(w, t->done = nc_object_host_tensor(NC_BOOL, 1, (const int64_t[]){1}));
    return NC_OK;
}

nc_code nc_training_add_optimizer(nc_work *w, nc_training *t, const nc_model_source *s) {
    nc_optimizer *made = nc_arena_alloc(&t->arena, sizeof *made);
    NC_NEED(w, made);
    NC_TRY(make_feeds(w, t));
    if (!NC_PUSH(&t->arena, t->optimizers, made)) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    nc_code code = make_optimizer(w, t, s, made);
    if (code != NC_OK) {
        t->optimizers.n--;
        release_program(&made->program);
        return code;
    }
    t->optimizer = made;
    nc_optimizer_state *o = &t->checkpoint->optimizer;
    if (!o->present) *o = (nc_optimizer_state){.present = true, .initial_rate = 1e-3f, .rate = 1e-3f};
    return t->checkpoint->nominal ? NC_OK : nc_training_lend(w, t);
}

nc_code nc_training_use_optimizer(nc_work *w, nc_training *t, int i) {
    if (i < 0 || i >= t->optimizers.n)
        NC_FAIL(w, NC_E_ARGUMENT, "the training session has %d optimizers, none with index %d", t->optimizers.n, i);
    t->optimizer = t->optimizers.v[i];
    return NC_OK;
}

void nc_training_release(nc_training *t) {
    if (!t) return;
    release_program(&t->train), release_program(&t->eval);
    for (int i = 0; i < t->optimizers.n; i++) release_program(&t->optimizers.v[i]->program);
    nc_state_unref(t->state);
    for (int i = 0; t->sums && i < t->checkpoint->params.n; i++) nc_object_unref(t->sums[i]);
    nc_object_unref(t->reset), nc_object_unref(t->rate), nc_object_unref(t->step);
    nc_object_unref(t->done), nc_object_unref(t->scale);
    nc_env_unref(t->env);
    nc_arena_release(&t->arena);
    nc_free(t);
}

/* ---- runs ---- */

static nc_code run_frame(nc_frame *f, nc_training *t, const nc_feed *in, int n_in, nc_object **out, int n_out) {
    if (f->program->n_vars) NC_TRY(nc_frame_use_state(f, t->state, true));
    for (int i = 0; i < n_in; i++)
        if (in[i].value)
            NC_TRY(nc_frame_bind_input(f, in[i].place, in[i].value->kind == NC_OBJ_TENSOR ? &in[i].value->t : NULL,
                                       nc_object_ref(in[i].value)));
    for (int i = 0; i < n_out; i++)
        if (out[i]) NC_TRY(nc_frame_bind_output(f, i, nc_object_ref(out[i])));
    NC_TRY(nc_frame_run(f, f->program->n_instrs, false));
    for (int i = 0; i < n_out; i++)
        if (!out[i]) out[i] = nc_object_ref(nc_frame_output(f, i));
    return NC_OK;
}

nc_code nc_training_run(nc_work *w, nc_training *t, nc_session *s, const nc_feed *in, int n_in, nc_object **out,
                        int n_out) {
    nc_frame *f;
    NC_TRY(nc_frame_acquire(w, s, s->prepared, NULL, &f));
    f->cancel = NULL, f->log = s->log;
    nc_code code = run_frame(f, t, in, n_in, out, n_out);
    if (code != NC_OK)
        w->diag = f->work.diag;
    else
        s->stats.runs++;
    nc_frame_release(f);
    return code;
}

nc_code nc_training_need_values(nc_work *w, const nc_training *t) {
    if (t->checkpoint->nominal)
        NC_FAIL(w, NC_E_STATE,
                "the checkpoint is nominal: it names parameters without their values. Please load the model parameters "
                "first.");
    return NC_OK;
}

static nc_code check_counts(nc_work *w, const nc_stage_program *p, int n_in, int n_out) {
    nc_text names = {0};
    for (int i = 0; i < p->n_inputs; i++) nc_text_addf(&names, "%s%s", i ? ", " : "", p->inputs[i]);
    nc_code code = NC_OK;
    if (n_in != p->n_inputs)
        code = nc_fail(w, NC_E_ARGUMENT, "%d inputs are given, expected %d: %.300s", n_in, p->n_inputs,
                       names.s ? names.s : "");
    else if (n_out > p->n_outputs)
        code = nc_fail(w, NC_E_ARGUMENT, "%d outputs are asked for, the model has %d", n_out, p->n_outputs);
    nc_text_release(&names);
    return code;
}

enum { MOST_FED = 64 };

static nc_code run_stage(nc_work *w, nc_training *t, const nc_stage_program *p, nc_object *const *in, int n_in,
                         nc_object **out, int n_out, const nc_feed *more, int n_more) {
    nc_feed feeds[MOST_FED];
    NC_TRY(nc_training_need_values(w, t));
    if (n_in != p->n_inputs || n_out > p->n_outputs) return check_counts(w, p, n_in, n_out);
    if (n_in + n_more > MOST_FED)
        NC_FAIL(w, NC_E_LIMIT, "%d inputs, at most %d are supported", n_in, MOST_FED - n_more);
    for (int i = 0; i < n_in; i++) feeds[i] = (nc_feed){p->places[i], in[i]};
    for (int i = 0; i < n_more; i++) feeds[n_in++] = more[i];
    return nc_training_run(w, t, p->session, feeds, n_in, out, n_out);
}

static bool is_bad(const nc_object *o) {
    if (!o || o->kind != NC_OBJ_TENSOR || nc_tensor_numel(&o->t) != 1) return false;
    switch (o->t.dtype) {
    case NC_FLOAT: return !isfinite(*(const float *)o->t.data);
    case NC_DOUBLE: return !isfinite(*(const double *)o->t.data);
    case NC_FLOAT16: return !isfinite(nc_f16_to_f32(*(const uint16_t *)o->t.data));
    case NC_BFLOAT16: return !isfinite(nc_bf16_to_f32(*(const uint16_t *)o->t.data));
    default: return false;
    }
}

nc_code nc_training_step(nc_work *w, nc_training *t, nc_object *const *in, int n_in, nc_object **out, int n_out) {
    nc_feed own[2];
    int n = 0;
    if (t->i_reset >= 0) own[n++] = (nc_feed){t->i_reset, t->reset};
    if (t->i_scale >= 0) {
        *(float *)t->scale->t.data = t->checkpoint->loss_scale;
        own[n++] = (nc_feed){t->i_scale, t->scale};
    }
    NC_TRY(run_stage(w, t, &t->train, in, n_in, out, n_out, own, n));
    *(bool *)t->reset->t.data = false;
    if (n_out > 0 && !t->told_of_nan && is_bad(out[0])) nc_training_tell_nan(t, in, n_in);
    return NC_OK;
}

nc_code nc_training_eval(nc_work *w, nc_training *t, nc_object *const *in, int n_in, nc_object **out, int n_out) {
    if (!t->eval.session) NC_FAIL(w, NC_E_STATE, "the training session has no eval model");
    return run_stage(w, t, &t->eval, in, n_in, out, n_out, NULL, 0);
}

void nc_training_reset(nc_training *t) { *(bool *)t->reset->t.data = true; }
