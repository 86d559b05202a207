/* train/train.c: joins autodiff with variables: which values are meant by which names, gradients as outputs, the step
 * of gradient descent. The mathematics is in the cards and in autodiff/. */
#include "train/train.h"

#include "autodiff/autodiff.h"
#include "base/near.h"
#include "infer/infer.h"
#include "ops/build.h"
#include "transform/transform.h"

#include <string.h>

/* Of passes that leave a model with gradients as others can read it, and of those that find what has a gradient of its
 * own: activations, normalizations, attention. */
enum { TIDY_LEVEL = 1, FUSED_LEVEL = 2 };

static nc_code find_output(nc_work *w, const nc_graph *g, const char *name, int *out) {
    char text[200];
    nc_near near = {.wanted = name};
    for (int i = 0; i < g->outputs.n; i++) {
        nc_near_offer(&near, g->output_names.v[i]);
        if (strcmp(g->output_names.v[i], name) == 0) {
            *out = i;
            return NC_OK;
        }
    }
    NC_FAIL(w, NC_E_ARGUMENT, "the model has no output '%.100s'%s", name, nc_near_text(&near, text));
}

static nc_code find_source(nc_work *w, const nc_graph *g, const char *name, nc_value **out) {
    char text[200];
    nc_near near = {.wanted = name};
    for (int i = 0; i < g->inputs.n; i++) nc_near_offer(&near, g->inputs.v[i]->name);
    for (int i = 0; i < g->consts.n; i++) nc_near_offer(&near, g->consts.v[i]->name);
    for (int i = 0; i < g->vars.n; i++) nc_near_offer(&near, g->vars.v[i]->name);
    *out = nc_graph_find(g, name);
    if (*out && (*out)->origin != NC_FROM_NODE) return NC_OK;
    NC_FAIL(w, NC_E_ARGUMENT, "the model has no input, constant or variable '%.100s'%s", name,
            nc_near_text(&near, text));
}

static nc_code check_float(nc_work *w, const nc_value *v, const char *name) {
    nc_text text = {0};
    if (!v->type || (v->type->kind == NC_T_TENSOR && nc_dtype_is_float(v->type->elem))) return NC_OK;
    nc_type_print(&text, v->type);
    nc_code code = nc_fail(w, NC_E_TYPE, "'%.100s' is %s, no floating-point tensor, so it has no gradient", name,
                           text.s ? text.s : "of another type");
    nc_text_release(&text);
    return code;
}

static nc_code find_sources(nc_work *w, const nc_graph *g, const char *const *names, int n, nc_value **out) {
    for (int i = 0; i < n; i++) {
        NC_TRY(find_source(w, g, names[i], &out[i]));
        NC_TRY(check_float(w, out[i], names[i]));
    }
    return NC_OK;
}

static nc_value **values(nc_work *w, int n) { return nc_arena_array(&w->scratch, (size_t)n + 1, sizeof(nc_value *)); }

static const char *joined(nc_work *w, const char *prefix, const char *name) {
    return nc_arena_printf(&w->scratch, "%s%s", prefix, name);
}

/* Values that are held count as what their users see. */
static nc_code differentiate(nc_work *w, nc_graph *g, nc_value *const *ys, nc_value *const *dys, int n_y,
                             nc_value *const *xs, int n_x, nc_value **dxs) {
    nc_value **y = values(w, n_y), **x = values(w, n_x);
    if (!y || !x) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n_y; i++) y[i] = nc_autodiff_stopped(ys[i]);
    for (int i = 0; i < n_x; i++) x[i] = nc_autodiff_stopped(xs[i]);
    return nc_autodiff(w, g, y, dys, n_y, x, n_x, dxs);
}

/* ---- gradients as outputs ---- */

typedef struct ends {
    const char *const *y_names, *const *x_names;
    nc_value **ys, **dys, **xs, **dxs;
    int n_y, n_x;
} ends;

static nc_code make_ends(nc_work *w, const nc_train_ask *a, ends *e) {
    *e = (ends){.y_names = a->ys, .x_names = a->xs, .n_y = a->n_y, .n_x = a->n_x};
    e->ys = values(w, a->n_y), e->dys = values(w, a->n_y), e->xs = values(w, a->n_x), e->dxs = values(w, a->n_x);
    if (!e->ys || !e->dys || !e->xs || !e->dxs) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_cotangents(nc_work *w, nc_graph *g, const ends *e) {
    for (int i = 0; i < e->n_y; i++) {
        const char *name = joined(w, "d:", e->y_names[i]);
        NC_NEED(w, name);
        if (nc_graph_find(g, name)) NC_FAIL(w, NC_E_ARGUMENT, "the model has a value '%.100s' already", name);
        NC_NEED(w, e->dys[i] = nc_edit_input(g, name, e->ys[i]->type));
    }
    return NC_OK;
}

static nc_code add_output(nc_work *w, nc_graph *g, nc_value *v, const char *name) {
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], name) == 0)
            NC_FAIL(w, NC_E_ARGUMENT, "the model has an output '%.100s' already", name);
    if (nc_edit_output(g, v, name) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code add_gradients(nc_work *w, nc_graph *g, const ends *e) {
    nc_builder b = {.w = w, .graph = g, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    for (int i = 0; i < e->n_x; i++) {
        const char *name = joined(w, "grad:", e->x_names[i]);
        NC_NEED(w, name);
        if (!e->dxs[i]) {
            nc_autodiff_warn_zeros(e->n_y == 1 ? e->y_names[0] : "all that is differentiated", e->x_names[i]);
            e->dxs[i] = nc_build_zeros_like(&b, e->xs[i]);
            NC_TRY(b.code);
        }
        NC_TRY(add_output(w, g, e->dxs[i], name));
    }
    return NC_OK;
}

nc_code nc_train_differentiate(nc_work *w, nc_model *m, const nc_train_ask *a) {
    nc_graph *g = m->main;
    ends e;
    NC_TRY(make_ends(w, a, &e));
    NC_TRY(find_sources(w, g, a->xs, a->n_x, e.xs));
    for (int i = 0; i < a->n_y; i++) {
        int i_out = -1;
        NC_TRY(find_output(w, g, a->ys[i], &i_out));
        e.ys[i] = g->outputs.v[i_out];
    }
    if (a->cotangents) NC_TRY(add_cotangents(w, g, &e));
    NC_TRY(differentiate(w, g, e.ys, e.dys, e.n_y, e.xs, e.n_x, e.dxs));
    return add_gradients(w, g, &e);
}

nc_code nc_train_gradients(nc_work *w, nc_model *m, const char *loss_output, const char *const *wrt, int n) {
    nc_train_ask ask = {.ys = &loss_output, .n_y = 1, .xs = wrt, .n_x = n};
    return nc_train_differentiate(w, m, &ask);
}

nc_code nc_train_backward(nc_work *w, nc_model *m, const char *const *outputs, int n_out, const char *const *wrt,
                          int n) {
    nc_train_ask ask = {.ys = outputs, .n_y = n_out, .xs = wrt, .n_x = n, .cotangents = true};
    return nc_train_differentiate(w, m, &ask);
}

/* ---- a model with gradients, to be looked at, saved or run ---- */

/* An output, or any other value, of the main graph. */
static nc_code find_any(nc_work *w, const nc_graph *g, const char *name, const char *what, nc_value **out) {
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], name) == 0) return *out = g->outputs.v[i], NC_OK;
    return nc_graph_need(w, g, name, what, out);
}

static nc_code find_all(nc_work *w, const nc_graph *g, const char *const *names, int n, const char *what, bool floats,
                        nc_value **out) {
    for (int i = 0; i < n; i++) {
        NC_TRY(find_any(w, g, names[i], what, &out[i]));
        if (floats) NC_TRY(check_float(w, out[i], names[i]));
        for (int k = 0; k < i; k++)
            if (strcmp(names[k], names[i]) == 0)
                NC_FAIL(w, NC_E_ARGUMENT, "%s: '%.100s' is there twice", what, names[i]);
    }
    return NC_OK;
}

static nc_code find_ends(nc_work *w, const nc_graph *g, const nc_train_ask *a, ends *e) {
    NC_TRY(find_all(w, g, a->ys, a->n_y, "y", true, e->ys));
    return find_all(w, g, a->xs, a->n_x, "x", true, e->xs);
}

/* Passes keep outputs, and what no node makes. */
static bool ends_stay(const ends *e) {
    bool stay = true;
    for (int i = 0; i < e->n_y; i++) stay &= e->ys[i]->n_outputs > 0;
    for (int i = 0; i < e->n_x; i++) stay &= e->xs[i]->origin != NC_FROM_NODE;
    return stay;
}

/* What is differentiated then is the ops that kernels exist for. Meanwhile the constants are of a variable. */
nc_code nc_train_fuse(nc_work *w, nc_model *m, const char *const *held, int n) {
    nc_variable some = {.name = "", .grow_axis = -1};
    nc_value **marked = values(w, n);
    int n_marked = 0;
    bool infers_only = m->infers_only;
    NC_NEED(w, marked);
    NC_TRY(nc_infer_model(w, m));
    NC_TRY(nc_autodiff_expand(w, m));
    for (int i = 0; i < n; i++) {
        nc_value *v = nc_graph_find(m->main, held[i]);
        if (v && v->origin == NC_FROM_CONST && !v->var) v->var = &some, marked[n_marked++] = v;
    }
    m->infers_only = true;
    nc_code code = nc_transform(w, m, &(nc_transform_options){.level = FUSED_LEVEL, .trains = true, .newer = true});
    m->infers_only = infers_only;
    for (int i = 0; i < n_marked; i++) marked[i]->var = NULL;
    NC_TRY(code);
    if (m->stale_sizes) NC_TRY(nc_infer_model(w, m));
    m->stale_sizes = false;
    return NC_OK;
}

nc_code nc_train_model_gradients(nc_work *w, nc_model *m, const nc_train_ask *a) {
    nc_graph *g = m->main;
    nc_value **stops = values(w, a->n_stop);
    ends e;
    NC_NEED(w, stops);
    NC_TRY(make_ends(w, a, &e));
    NC_TRY(nc_infer_model(w, m));
    NC_TRY(nc_autodiff_expand(w, m));
    NC_TRY(find_ends(w, g, a, &e));
    NC_TRY(find_all(w, g, a->stop, a->n_stop, "stop", false, stops));
    for (int i = 0; i < a->n_stop; i++) NC_TRY(nc_autodiff_stop(w, stops[i], NULL));
    if (!a->standard && ends_stay(&e)) {
        NC_TRY(nc_train_fuse(w, m, a->xs, a->n_x));
        NC_TRY(find_ends(w, m->main, a, &e));
    }
    if (a->cotangents) NC_TRY(add_cotangents(w, g, &e));
    NC_TRY(differentiate(w, g, e.ys, e.dys, e.n_y, e.xs, e.n_x, e.dxs));
    NC_TRY(add_gradients(w, g, &e));
    nc_autodiff_unstop_all(g);
    NC_TRY(a->standard ? nc_train_standard(w, m) : nc_train_raise_control(w, m));
    return nc_transform(w, m, &(nc_transform_options){.level = TIDY_LEVEL, .after_gradient = true});
}

/* ---- gradient descent ---- */

/* All floating-point constants on the way to the loss but settings, in the order of the graph. */
static nc_code all_params(nc_work *w, nc_graph *g, nc_value *loss, nc_value ***out, int *n) {
    nc_value **xs = values(w, g->consts.n);
    bool *used = nc_arena_array(&w->scratch, (size_t)g->consts.n + 1, sizeof *used);
    if (!xs || !used) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(nc_autodiff_influence(w, g, &loss, 1, g->consts.v, g->consts.n, used));
    *n = 0;
    for (int i = 0; i < g->consts.n; i++)
        if (used[i] && !nc_value_is_setting(g->consts.v[i])) xs[(*n)++] = g->consts.v[i];
    *out = xs;
    return NC_OK;
}

static nc_code make_variables(nc_work *w, nc_value *const *params, int n) {
    for (int i = 0; i < n; i++) {
        if (params[i]->origin == NC_FROM_VARIABLE) continue;
        if (params[i]->origin != NC_FROM_CONST)
            NC_FAIL(w, NC_E_ARGUMENT, "'%s' is an input, a parameter must be a constant or a variable",
                    params[i]->name);
        if (nc_edit_make_variable(params[i]) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

/* In the order of the parameters: new = p - lr * dp. */
static nc_code update(nc_work *w, nc_graph *g, nc_value *lr, nc_value *const *params, nc_value *const *grads, int n) {
    nc_builder b = {.w = w, .graph = g, .stage = NC_STAGE_UPDATE, .infer = nc_infer_node};
    for (int i = 0; i < n; i++) {
        if (!grads[i]) continue;
        nc_variable *var = params[i]->var;
        if (var->last != params[i])
            NC_FAIL(w, NC_E_ARGUMENT, "the model already writes to the variable '%s'", var->name);
        nc_value *rate = nc_build_cast(&b, lr, params[i]->type ? params[i]->type->elem : lr->type->elem);
        nc_value *next = nc_build1(&b, "Sub", 2, params[i], nc_build1(&b, "Mul", 2, rate, grads[i]));
        NC_TRY(b.code);
        nc_edit_set_version(var, next);
    }
    return NC_OK;
}

typedef struct descent {
    nc_value *loss, **params, **grads;
    int n;
} descent;

/* The parameters as variables, and the gradients of the loss: NULL where it does not depend on one. */
static nc_code descend(nc_work *w, nc_graph *g, const char *loss_output, const char *const *params, int n_params,
                       descent *out) {
    int i_loss = -1;
    descent d = {.n = n_params};
    NC_TRY(find_output(w, g, loss_output, &i_loss));
    NC_NEED(w, d.params = values(w, n_params));
    d.loss = g->outputs.v[i_loss];
    NC_TRY(n_params ? find_sources(w, g, params, n_params, d.params) : all_params(w, g, d.loss, &d.params, &d.n));
    if (!d.loss->type || d.loss->type->kind != NC_T_TENSOR)
        NC_FAIL(w, NC_E_TYPE, "the loss '%s' is no tensor", loss_output);
    NC_TRY(make_variables(w, d.params, d.n));
    NC_NEED(w, d.grads = values(w, d.n));
    NC_TRY(differentiate(w, g, &d.loss, NULL, 1, d.params, d.n, d.grads));
    *out = d;
    return NC_OK;
}

nc_code nc_train_sgd(nc_work *w, nc_model *m, const char *loss_output, const char *const *params, int n_params,
                     const char *lr_input) {
    descent d;
    NC_TRY(descend(w, m->main, loss_output, params, n_params, &d));
    const nc_type *scalar = nc_type_tensor(&m->arena, d.loss->type->elem, 0, NULL);
    nc_value *lr = scalar ? nc_edit_input(m->main, lr_input, scalar) : NULL;
    NC_NEED(w, lr);
    return update(w, m->main, lr, d.params, d.grads, d.n);
}

nc_code nc_train_accumulate(nc_work *w, nc_model *m, const char *loss_output, const char *const *params, int n_params) {
    descent d;
    NC_TRY(descend(w, m->main, loss_output, params, n_params, &d));
    nc_builder b = {.w = w, .graph = m->main, .stage = NC_STAGE_UPDATE, .infer = nc_infer_node};
    for (int i = 0; i < d.n; i++) {
        const char *name = joined(w, "grad:", d.params[i]->name);
        nc_value *sum = name ? nc_edit_variable(m->main, name, d.params[i]->type, NULL) : NULL;
        NC_NEED(w, sum);
        if (!d.grads[i]) continue;
        nc_value *next = nc_build1(&b, "Add", 2, sum, d.grads[i]);
        NC_TRY(b.code);
        nc_edit_set_version(sum->var, next);
    }
    return NC_OK;
}
