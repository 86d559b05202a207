/* ops/training/training_cpu.c: CPU bindings of the training operators that have kernels of their own: the optimizers,
 * over variables in place or over sequences as new ones, and the axes of a broadcast. */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/training/dims.h"
#include "ops/training/optim.h"

#include <math.h>
#include <string.h>

/* ---- axes of a broadcast ---- */

static nc_code args_run(const nc_call *c) {
    const nc_tensor *shape[2] = {c->in[0], c->in[1]};
    int64_t axes[NC_MAX_RANK];
    for (int i = 0; i < c->n_out; i++) {
        const nc_tensor *a = shape[i], *b = shape[!i];
        int n;
        if (!nc_training_widened(a->data, (int)a->dims[0], b->data, (int)b->dims[0], axes, &n))
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the shapes do not broadcast");
        if (c->out[i]->data == NULL) continue;
        memcpy(c->out[i]->data, axes, (size_t)n * sizeof *axes);
        c->sizes[i * NC_MAX_RANK] = n;
    }
    return NC_OK;
}

/* ---- the optimizers over variables ---- */

typedef struct step_state {
    nck_optim_rule rule;
    nc_optim_layout at;
} step_state;

static nc_code step_prepare(nc_prep *p) {
    step_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (step_state){nc_optim_rule_of(p->node), nc_optim_layout_of(p->node)};
    p->state = s;
    return NC_OK;
}

static double number(const nc_tensor *t) {
    return t->dtype == NC_DOUBLE ? *(const double *)t->data : (double)*(const float *)t->data;
}

static nc_code step_run(const nc_call *c) {
    const step_state *s = c->state;
    int n = s->at.n, last = s->at.rate;
    bool has_m = s->at.moments > 0, has_v = s->at.moments > 1;
    nck_optim_args a = {.rule = &s->rule,
                        .rate = number(c->in[last]),
                        .step = *(const int64_t *)c->in[last + 1]->data,
                        .scale = number(c->in[last + 2])};
    if (!*(const bool *)c->in[last + 3]->data) {
        for (int i = 0; i < c->n_out; i++)
            if (c->out[i]->data != c->in[i]->data)
                memcpy(c->out[i]->data, c->in[i]->data,
                       (size_t)nc_tensor_numel(c->in[i]) * nc_dtype_bytes(c->in[i]->dtype));
        return NC_OK;
    }
    for (int i = 0; i < n; i++) {
        nck_optim_tensors t = {.w = c->in[i],
                               .g = c->in[s->at.grads + i],
                               .m = has_m ? c->in[n + i] : NULL,
                               .v = has_v ? c->in[2 * n + i] : NULL,
                               .new_w = c->out[i],
                               .new_m = has_m ? c->out[n + i] : NULL,
                               .new_v = has_v ? c->out[2 * n + i] : NULL};
        nck_optim_step(&a, &t, c->pool);
    }
    return NC_OK;
}

/* ---- the optimizers over sequences ---- */

/* Operands and results of an optimizer's node; -1: it has none. */
typedef struct seq_state {
    nck_optim_rule rule;
    int step, w, g, m, v, signal;
    int new_w, new_m, new_v;
    double max_norm;
} seq_state;

static nc_code seq_prepare(nc_prep *p) {
    static const seq_state
        adam = {.step = 1, .w = 2, .g = 3, .m = 4, .v = 5, .signal = 6, .new_w = 1, .new_m = 2, .new_v = 3},
        momentum = {.step = 1, .w = 2, .g = 3, .m = 4, .v = -1, .signal = 5, .new_w = 1, .new_m = 2, .new_v = -1},
        sgd = {.step = -1, .w = 1, .g = 2, .m = -1, .v = -1, .signal = 3, .new_w = 1, .new_m = -1, .new_v = -1};
    seq_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nck_optim_rule rule = nc_optim_rule_of(p->node);
    *s = rule.adam ? adam : rule.momentum ? momentum : sgd;
    s->rule = rule;
    p->state = s;
    return NC_OK;
}

static nc_code no_memory(nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

/* Input i of an optimizer: one number. */
static nc_code check_number(nc_dyn *d, int i) {
    if (i < 0 || i >= d->call->n_in || d->call->in[i]->data == NULL) return NC_OK;
    int64_t n = nc_tensor_numel(d->call->in[i]);
    return n == 1 ? NC_OK
                  : nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op,
                                "input %d has %lld elements, expected 1", i, (long long)n);
}

/* Input i of an optimizer: a sequence of tensors of floats. */
static nc_code check_floats(nc_dyn *d, int i) {
    for (int64_t k = 0; i >= 0 && k < d->in[i]->n; k++) {
        const nc_object *o = d->in[i]->items[k];
        if (o == NULL || o->kind != NC_OBJ_TENSOR || !(NC_BIT(o->t.dtype) & T_FLOAT_ALL))
            return nc_diag_set(d->call->diag, NC_E_TYPE, d->call->node, d->call->op,
                               "tensor %lld of input %d is of type %s, expected floats", (long long)k, i,
                               o != NULL && o->kind == NC_OBJ_TENSOR ? nc_dtype_name(o->t.dtype) : "none");
    }
    return NC_OK;
}

static nc_code check_lists(nc_dyn *d, const seq_state *s) {
    for (int k = 0; k < 4; k++) NC_TRY(check_floats(d, (const int[]){s->w, s->g, s->m, s->v}[k]));
    for (int k = 0; k < 3; k++) NC_TRY(check_number(d, (const int[]){0, s->step, s->signal}[k]));
    const nc_object *w = d->in[s->w],
                    *others[3] = {d->in[s->g], s->m >= 0 ? d->in[s->m] : NULL, s->v >= 0 ? d->in[s->v] : NULL};
    for (int k = 0; k < 3; k++) {
        const nc_object *o = others[k];
        if (o == NULL) continue;
        if (o->n != w->n)
            return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op,
                               "there are %lld weights and %lld of %s", (long long)w->n, (long long)o->n,
                               k == 0 ? "gradients" : "a moment");
        for (int64_t i = 0; i < w->n; i++) {
            const nc_tensor *a = &w->items[i]->t, *b = &o->items[i]->t;
            if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
                return nc_diag_set(d->call->diag, NC_E_SHAPE, d->call->node, d->call->op,
                                   "tensor %lld of %s has another shape than its weight", (long long)i,
                                   k == 0 ? "the gradients" : "a moment");
        }
    }
    return NC_OK;
}

/* A sequence of new tensors as those of `like`. */
static nc_object *new_list(const nc_object *like) {
    nc_object *list = nc_object_list(NC_OBJ_SEQUENCE, like->t.dtype);
    for (int64_t i = 0; list != NULL && i < like->n; i++) {
        const nc_tensor *t = &like->items[i]->t;
        nc_object *item = nc_object_host_tensor(t->dtype, t->rank, t->dims);
        if (item == NULL || !nc_object_push(list, item)) {
            nc_object_unref(list);
            return NULL;
        }
    }
    return list;
}

static nc_code give_flag(nc_dyn *d, bool done) {
    static const int64_t one[1] = {1};
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, NC_BOOL, 1, one, &y));
    *(bool *)y.data = done;
    return NC_OK;
}

static bool wants(const nc_dyn *d, int i) { return i >= 0 && i < d->call->n_out; }

/* What the step does not touch comes out as it went in. */
static nc_code pass_lists(nc_dyn *d, const seq_state *s) {
    int in[3] = {s->w, s->m, s->v}, out[3] = {s->new_w, s->new_m, s->new_v};
    for (int k = 0; k < 3; k++)
        if (wants(d, out[k])) d->out[out[k]] = nc_object_ref(d->in[in[k]]);
    return NC_OK;
}

static void step_lists(nc_dyn *d, const seq_state *s, nc_object *const *made) {
    nck_optim_args a = {.rule = &s->rule, .rate = number(d->call->in[0]), .scale = 1};
    if (s->step >= 0) a.step = *(const int64_t *)d->call->in[s->step]->data;
    for (int64_t i = 0; i < d->in[s->w]->n; i++) {
        nck_optim_tensors t = {.w = &d->in[s->w]->items[i]->t, .g = &d->in[s->g]->items[i]->t};
        t.new_w = &made[0]->items[i]->t;
        if (s->m >= 0) t.m = &d->in[s->m]->items[i]->t, t.new_m = &made[1]->items[i]->t;
        if (s->v >= 0) t.v = &d->in[s->v]->items[i]->t, t.new_v = &made[2]->items[i]->t;
        nck_optim_step(&a, &t, d->call->pool);
    }
}

static nc_code seq_run(nc_dyn *d) {
    const seq_state *s = d->call->state;
    int in[3] = {s->w, s->m, s->v}, out[3] = {s->new_w, s->new_m, s->new_v};
    nc_object *made[3] = {NULL};
    NC_TRY(check_lists(d, s));
    const nc_tensor *signal = s->signal < d->call->n_in ? d->call->in[s->signal] : NULL;
    bool acts = signal == NULL || signal->data == NULL || *(const bool *)signal->data;
    NC_TRY(give_flag(d, acts));
    if (!acts) return pass_lists(d, s);
    bool lacking = false;
    for (int k = 0; k < (s->v >= 0 ? 3 : s->m >= 0 ? 2 : 1); k++) lacking |= (made[k] = new_list(d->in[in[k]])) == NULL;
    if (!lacking) step_lists(d, s, made);
    for (int k = 0; k < 3; k++) {
        if (!lacking && wants(d, out[k]))
            d->out[out[k]] = made[k];
        else
            nc_object_unref(made[k]);
    }
    return lacking ? no_memory(d) : NC_OK;
}

/* ---- clipping ---- */

static nc_code clip_prepare(nc_prep *p) {
    double *most = nc_arena_alloc(p->arena, sizeof *most);
    NC_NEED(p->w, most);
    *most = nc_attr_float(p->node, "max_norm");
    p->state = most;
    return NC_OK;
}

static double square_sum(const nc_tensor *t) {
    int64_t n = nc_tensor_numel(t);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = t->dtype == NC_DOUBLE    ? ((const double *)t->data)[i]
                   : t->dtype == NC_FLOAT   ? (double)((const float *)t->data)[i]
                   : t->dtype == NC_FLOAT16 ? (double)nc_f16_to_f32(((const uint16_t *)t->data)[i])
                                            : (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
        sum += x * x;
    }
    return sum;
}

/* A gradient that is the new weight of a weight of -0 under SGD of rate -1: g * scale, with the same conversions. */
static nc_code clip_run(nc_dyn *d) {
    const double *most = d->call->state;
    const nc_object *list = d->in[0];
    double sum = 0;
    NC_TRY(check_floats(d, 0));
    for (int64_t i = 0; i < list->n; i++) sum += square_sum(&list->items[i]->t);
    double by = *most / (sqrt(sum) + 1e-6), zero = -0.0;
    nc_object *made = new_list(list);
    if (made == NULL) return no_memory(d);
    nck_optim_rule rule = {.adam = false};
    nck_optim_args a = {.rule = &rule, .rate = -1, .scale = by < 1 ? by : 1};
    nc_tensor none;
    nc_tensor_set(&none, &zero, NC_DOUBLE, 0);
    for (int64_t i = 0; i < list->n; i++) {
        nc_tensor *g = &list->items[i]->t;
        nck_optim_step(&a, &(nck_optim_tensors){.w = &none, .g = g, .new_w = &made->items[i]->t}, d->call->pool);
    }
    d->out[0] = made;
    return NC_OK;
}

#define MS .domain = "com.microsoft"
const nc_binding nc_training_cpu[] = {
    {.op = "BroadcastGradientArgs", MS, .kind = NC_K_BOUNDED, .run = args_run},
    {.op = "OptimizerStep", .domain = "nacre", .kind = NC_K_STATIC, .prepare = step_prepare, .run = step_run},
    {.op = "AdamWOptimizer", MS, .kind = NC_K_DYNAMIC, .prepare = seq_prepare, .dynamic = seq_run},
    {.op = "SGDOptimizerV2", MS, .kind = NC_K_DYNAMIC, .prepare = seq_prepare, .dynamic = seq_run},
    {.op = "MomentumOptimizer", .domain = "nacre", .kind = NC_K_DYNAMIC, .prepare = seq_prepare, .dynamic = seq_run},
    {.op = "InplaceClipGradNorm", MS, .kind = NC_K_DYNAMIC, .prepare = clip_prepare, .dynamic = clip_run},
    {0}};
