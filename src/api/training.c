/* api/training.c: training sessions over train/training.h, and the properties of checkpoints. */
#include "api/api.h"
#include "nacre/nacre_train.h"

#include "train/training.h"

#include <limits.h>
#include <string.h>

static nc_checkpoint *inside(const nacre_checkpoint *c) { return (nc_checkpoint *)(uintptr_t)c; }
static nc_training *of(const nacre_training *t) { return (nc_training *)(uintptr_t)t; }

/* ---- properties ---- */

nacre_code nacre_checkpoint_set_property(nacre_checkpoint *c, const nacre_property *p, nacre_error *err) {
    nc_work w;
    if (!p->name) return nc_api_fail(err, NC_E_ARGUMENT, "a property needs a name");
    if (p->kind < NACRE_PROPERTY_INT || p->kind > NACRE_PROPERTY_STRING)
        return nc_api_fail(err, NC_E_ARGUMENT, "property '%.100s': expected an int, a float or a string, got kind %d",
                           p->name, (int)p->kind);
    nc_property own = {.name = p->name, .kind = (nc_property_kind)p->kind, .i = p->i, .f = p->f, .s = p->s};
    nc_work_init(&w);
    return nc_api_end(&w, nc_checkpoint_set_property(&w, inside(c), &own), err);
}

size_t nacre_checkpoint_n_properties(const nacre_checkpoint *c) { return (size_t)inside(c)->properties.n; }

nacre_code nacre_checkpoint_property(const nacre_checkpoint *c, size_t i, nacre_property *out, nacre_error *err) {
    if (i >= nacre_checkpoint_n_properties(c))
        return nc_api_fail(err, NC_E_ARGUMENT, "the checkpoint has %zu properties, none with index %zu",
                           nacre_checkpoint_n_properties(c), i);
    const nc_property *p = &inside(c)->properties.v[i];
    *out = (nacre_property){.name = p->name, .kind = (nacre_property_kind)p->kind, .i = p->i, .f = p->f, .s = p->s};
    return NACRE_OK;
}

/* ---- life ---- */

nacre_code nacre_training_create(nacre_env *env, nacre_checkpoint *borrows, const nacre_training_sources *callers,
                                 nacre_training **out, nacre_error *err) {
    nacre_training_sources from;
    nacre_code read = nc_api_read_struct(err, "nacre_training_sources", callers, &from, sizeof from);
    if (read != NACRE_OK) return read;
    nc_training_models m = {.train = {from.train, from.train_bytes, from.n_train_bytes},
                            .eval = {from.eval, from.eval_bytes, from.n_eval_bytes},
                            .optimizer = {from.optimizer, from.optimizer_bytes, from.n_optimizer_bytes},
                            .device = from.device,
                            .seed = from.seed,
                            .recompute = from.recompute != 0,
                            .dnn_draws = from.cudnn_dropout != 0};
    nc_work w;
    nc_training *t = NULL;
    nc_work_init(&w);
    nc_code code = nc_training_create(&w, env->env, inside(borrows), &m, &t);
    if (code == NC_OK) *out = (nacre_training *)t;
    return nc_api_end(&w, code, err);
}

void nacre_training_release(nacre_training *t) { nc_training_release(of(t)); }

nacre_code nacre_training_add_optimizer(nacre_training *t, const char *path, const void *bytes, size_t n,
                                        nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_add_optimizer(&w, of(t), &(nc_model_source){path, bytes, n}), err);
}

nacre_code nacre_training_use_optimizer(nacre_training *t, size_t i, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_use_optimizer(&w, of(t), i < INT_MAX ? (int)i : INT_MAX), err);
}

/* ---- names ---- */

static const nc_stage_program *stage_of(const nacre_training *t, int eval) {
    return eval ? &of(t)->eval : &of(t)->train;
}

size_t nacre_training_n_inputs(const nacre_training *t, int eval) { return (size_t)stage_of(t, eval)->n_inputs; }
size_t nacre_training_n_outputs(const nacre_training *t, int eval) { return (size_t)stage_of(t, eval)->n_outputs; }

const char *nacre_training_input_name(const nacre_training *t, int eval, size_t i) {
    return i < nacre_training_n_inputs(t, eval) ? stage_of(t, eval)->inputs[i] : NULL;
}

const char *nacre_training_output_name(const nacre_training *t, int eval, size_t i) {
    if (i >= nacre_training_n_outputs(t, eval)) return NULL;
    return stage_of(t, eval)->session->program->graph->output_names.v[i];
}

nacre_type nacre_training_input_type(const nacre_training *t, int eval, size_t i, int *rank, int64_t *dims) {
    const nc_stage_program *p = stage_of(t, eval);
    return nacre_session_input_type(&(nacre_session){.s = p->session}, (size_t)p->places[i], rank, dims);
}

nacre_type nacre_training_output_type(const nacre_training *t, int eval, size_t i, int *rank, int64_t *dims) {
    return nacre_session_output_type(&(nacre_session){.s = stage_of(t, eval)->session}, i, rank, dims);
}

/* ---- steps ---- */

typedef nc_code (*stage)(nc_work *w, nc_training *t, nc_object *const *in, int n_in, nc_object **out, int n_out);

/* Tensors of the caller's, dense and on the host; the same objects where they are that already. */
static nc_code read_inputs(nc_work *w, nacre_value *const *in, size_t n, nc_object **own) {
    for (size_t i = 0; i < n; i++) {
        nc_object *o = nc_api_object(in[i]);
        if (!o) continue;
        if (nc_object_on_device(o))
            NC_TRY(nc_api_to_host(w, o, &own[i]));
        else if (o->kind == NC_OBJ_TENSOR && o->t.dtype != NC_STRING && !nc_is_dense(&o->t))
            NC_TRY(nc_api_dense(w, o, &own[i]));
        else
            own[i] = nc_object_ref(o);
    }
    return NC_OK;
}

enum { MOST = 64 };

static nacre_code run(nacre_training *t, stage how, nacre_value *const *in, size_t n_in, nacre_value **out,
                      size_t n_out, nacre_error *err) {
    nc_object *own[MOST] = {NULL}, *got[MOST];
    nc_work w;
    if (n_in > MOST || n_out > MOST)
        return nc_api_fail(err, NC_E_LIMIT, "%zu inputs and %zu outputs, at most %d are supported", n_in, n_out, MOST);
    nc_work_init(&w);
    for (size_t i = 0; i < n_out; i++) got[i] = out[i] ? nc_api_object(out[i]) : NULL;
    nc_code code = read_inputs(&w, in, n_in, own);
    if (code == NC_OK) code = how(&w, of(t), own, (int)n_in, got, (int)n_out);
    for (size_t i = 0; i < n_in; i++) nc_object_unref(own[i]);
    for (size_t i = 0; code == NC_OK && i < n_out; i++) out[i] = nc_api_value(got[i]);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_training_step(nacre_training *t, nacre_value *const *in, size_t n_in, nacre_value **out, size_t n_out,
                               nacre_error *err) {
    return run(t, nc_training_step, in, n_in, out, n_out, err);
}

nacre_code nacre_training_eval(nacre_training *t, nacre_value *const *in, size_t n_in, nacre_value **out, size_t n_out,
                               nacre_error *err) {
    return run(t, nc_training_eval, in, n_in, out, n_out, err);
}

void nacre_training_reset(nacre_training *t) { nc_training_reset(of(t)); }

nacre_code nacre_training_update(nacre_training *t, int *done, nacre_error *err) {
    nc_work w;
    bool made = false;
    nc_work_init(&w);
    nc_code code = nc_training_update(&w, of(t), &made);
    if (code == NC_OK && done) *done = made;
    return nc_api_end(&w, code, err);
}

/* ---- the rate ---- */

nacre_code nacre_training_rate(nacre_training *t, float *out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_rate(&w, of(t), out), err);
}

nacre_code nacre_training_set_rate(nacre_training *t, float rate, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_set_rate(&w, of(t), rate), err);
}

nacre_code nacre_training_set_schedule(nacre_training *t, int64_t warmup, int64_t total, float initial,
                                       nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_set_schedule(&w, of(t), warmup, total, initial), err);
}

nacre_code nacre_training_schedule(nacre_training *t, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_schedule(&w, of(t)), err);
}

float nacre_training_loss_scale(const nacre_training *t) { return nc_training_loss_scale(of(t)); }

nacre_code nacre_training_set_loss_scale(nacre_training *t, float scale, int64_t grow_every, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_set_loss_scale(&w, of(t), scale, grow_every), err);
}

/* ---- parameters ---- */

nacre_code nacre_training_size(nacre_training *t, int trainable, int64_t *out, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_size(&w, of(t), trainable != 0, out), err);
}

nacre_code nacre_training_to_buffer(nacre_training *t, int trainable, nacre_value **out, nacre_error *err) {
    nc_work w;
    int64_t n;
    nc_object *o = NULL;
    nc_work_init(&w);
    nc_code code = nc_training_size(&w, of(t), trainable != 0, &n);
    if (code == NC_OK && !(o = nc_object_host_tensor(NC_FLOAT, 1, &n)))
        code = nc_fail(&w, NC_E_MEMORY, "out of memory");
    if (code == NC_OK) code = nc_training_to_buffer(&w, of(t), trainable != 0, o);
    if (code == NC_OK)
        *out = nc_api_value(o);
    else
        nc_object_unref(o);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_training_from_buffer(nacre_training *t, int trainable, const nacre_value *from, nacre_error *err) {
    nc_work w;
    nc_object *own = NULL;
    nc_work_init(&w);
    nc_code code = read_inputs(&w, (nacre_value *const[]){(nacre_value *)(uintptr_t)from}, 1, &own);
    if (code == NC_OK) code = nc_training_from_buffer(&w, of(t), trainable != 0, own);
    nc_object_unref(own);
    return nc_api_end(&w, code, err);
}

static nc_code find(nc_work *w, const nc_training *t, const char *name, int *out) {
    const nc_parameter *p = nc_checkpoint_find(t->checkpoint, name);
    if (!p) NC_FAIL(w, NC_E_ARGUMENT, "Parameter %.200s not found.", name);
    *out = (int)(p - t->checkpoint->params.v);
    return NC_OK;
}

static nc_code set_parameter(nc_work *w, nc_training *t, const char *name, const nc_object *o) {
    int i = 0;
    NC_TRY(find(w, t, name, &i));
    nc_parameter *p = &t->checkpoint->params.v[i];
    if (!p->value)
        NC_FAIL(w, NC_E_STATE, "parameter '%s' is nominal. Please load all the parameter states first.", name);
    const nc_tensor *a = &p->value->t, *b = &o->t;
    if (o->kind != NC_OBJ_TENSOR || b->dtype != a->dtype)
        NC_FAIL(w, NC_E_TYPE, "parameter '%s' is %s, got %s", name, nc_dtype_name(a->dtype),
                o->kind == NC_OBJ_TENSOR ? nc_dtype_name(b->dtype) : "no tensor");
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
    if (!same)
        NC_FAIL(w, NC_E_SHAPE, "parameter '%s' has %d dims, got a tensor of %d, or of other sizes", name, a->rank,
                b->rank);
    memcpy(a->data, b->data, (size_t)nc_tensor_numel(a) * nc_dtype_bytes(a->dtype));
    return nc_training_put(w, t, i);
}

nacre_code nacre_training_set_parameter(nacre_training *t, const char *name, const nacre_value *v, nacre_error *err) {
    nc_work w;
    nc_object *own = NULL;
    nc_work_init(&w);
    nc_code code = read_inputs(&w, (nacre_value *const[]){(nacre_value *)(uintptr_t)v}, 1, &own);
    if (code == NC_OK) code = set_parameter(&w, of(t), name, own);
    nc_object_unref(own);
    return nc_api_end(&w, code, err);
}

nacre_code nacre_training_gradient(nacre_training *t, const char *name, nacre_value **out, nacre_error *err) {
    nc_work w;
    nc_object *o = NULL;
    int i = 0;
    nc_work_init(&w);
    nc_code code = find(&w, of(t), name, &i);
    if (code == NC_OK) code = nc_training_gradient(&w, of(t), i, &o);
    if (code == NC_OK) *out = o ? nc_api_value(o) : NULL;
    return nc_api_end(&w, code, err);
}

nacre_code nacre_training_sync(nacre_training *t, nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_sync(&w, of(t)), err);
}

/* ---- models ---- */

nacre_code nacre_training_export(nacre_training *t, const char *path, const char *const *outputs, size_t n,
                                 nacre_error *err) {
    nc_work w;
    nc_work_init(&w);
    return nc_api_end(&w, nc_training_export(&w, of(t), path, outputs, (int)n), err);
}

nacre_code nacre_training_dump(nacre_training *t, const char *which, const char *dumped, char **text,
                               nacre_error *err) {
    nc_training *own = of(t);
    nc_session *s = strcmp(which, "train") == 0       ? own->train.session
                    : strcmp(which, "eval") == 0      ? own->eval.session
                    : strcmp(which, "optimizer") == 0 ? own->optimizer ? own->optimizer->program.session : NULL
                                                      : NULL;
    if (!s) return nc_api_fail(err, NC_E_ARGUMENT, "the training session has no program '%.40s'", which);
    return nacre_session_dump(&(nacre_session){.s = s}, dumped, text, err);
}
