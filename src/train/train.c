/* train/train.c: joins autodiff with variables: which values are meant by which names, gradients as outputs, the step
 * of gradient descent. The mathematics is in the cards and in autodiff/. */
#include "train/train.h"

#include "autodiff/autodiff.h"
#include "infer/infer.h"
#include "ops/build.h"

#include <string.h>

static nc_code find_output(nc_work *w, const nc_graph *g, const char *name, int *out) {
    for (int i = 0; i < g->outputs.n; i++)
        if (strcmp(g->output_names.v[i], name) == 0) {
            *out = i;
            return NC_OK;
        }
    NC_FAIL(w, NC_E_ARGUMENT, "the model has no output '%s'", name);
}

static nc_code find_source(nc_work *w, const nc_graph *g, const char *name, nc_value **out) {
    for (int i = 0; i < g->inputs.n; i++)
        if (strcmp(g->inputs.v[i]->name, name) == 0) return *out = g->inputs.v[i], NC_OK;
    for (int i = 0; i < g->consts.n; i++)
        if (strcmp(g->consts.v[i]->name, name) == 0) return *out = g->consts.v[i], NC_OK;
    for (int i = 0; i < g->vars.n; i++)
        if (strcmp(g->vars.v[i]->name, name) == 0) return *out = g->vars.v[i]->first, NC_OK;
    NC_FAIL(w, NC_E_ARGUMENT, "the model has no input, constant or variable '%s'", name);
}

static nc_code find_sources(nc_work *w, const nc_graph *g, const char *const *names, int n, nc_value **out) {
    for (int i = 0; i < n; i++) {
        NC_TRY(find_source(w, g, names[i], &out[i]));
        const nc_type *t = out[i]->type;
        if (t && (t->kind != NC_T_TENSOR || !nc_dtype_is_float(t->elem)))
            NC_FAIL(w, NC_E_TYPE, "'%s' is no floating-point tensor, so it has no gradient", names[i]);
    }
    return NC_OK;
}

static nc_value **values(nc_work *w, int n) { return nc_arena_array(&w->scratch, (size_t)n + 1, sizeof(nc_value *)); }

static const char *joined(nc_work *w, const char *prefix, const char *name) {
    return nc_arena_printf(&w->scratch, "%s%s", prefix, name);
}

static nc_code add_gradients(nc_work *w, nc_graph *g, nc_value *const *xs, nc_value *const *dxs, const char *const *wrt,
                             int n) {
    nc_builder b = {.w = w, .graph = g, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    for (int i = 0; i < n; i++) {
        const char *name = joined(w, "grad:", wrt[i]);
        nc_value *dx = dxs[i] ? dxs[i] : nc_build_zeros_like(&b, xs[i]);
        NC_TRY(b.code);
        if (!name || nc_edit_output(g, dx, name) != NC_OK) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    }
    return NC_OK;
}

nc_code nc_train_gradients(nc_work *w, nc_model *m, const char *loss_output, const char *const *wrt, int n) {
    int i_loss = -1;
    nc_value **xs = values(w, n), **dxs = values(w, n);
    if (!xs || !dxs) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(find_output(w, m->main, loss_output, &i_loss));
    NC_TRY(find_sources(w, m->main, wrt, n, xs));
    NC_TRY(nc_autodiff(w, m->main, &m->main->outputs.v[i_loss], NULL, 1, xs, n, dxs));
    return add_gradients(w, m->main, xs, dxs, wrt, n);
}

nc_code nc_train_backward(nc_work *w, nc_model *m, const char *const *outputs, int n_out, const char *const *wrt,
                          int n) {
    nc_graph *g = m->main;
    nc_value **ys = values(w, n_out), **dys = values(w, n_out), **xs = values(w, n), **dxs = values(w, n);
    if (!ys || !dys || !xs || !dxs) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(find_sources(w, g, wrt, n, xs));
    for (int i = 0; i < n_out; i++) {
        int i_out = -1;
        NC_TRY(find_output(w, g, outputs[i], &i_out));
        ys[i] = g->outputs.v[i_out];
        const char *name = joined(w, "d:", outputs[i]);
        dys[i] = name ? nc_edit_input(g, name, ys[i]->type) : NULL;
        NC_NEED(w, dys[i]);
    }
    NC_TRY(nc_autodiff(w, g, ys, dys, n_out, xs, n, dxs));
    return add_gradients(w, g, xs, dxs, wrt, n);
}

/* ---- gradient descent ---- */

/* All floating-point constants on the way to the loss, in the order of the graph. */
static nc_code all_params(nc_work *w, nc_graph *g, nc_value *loss, nc_value ***out, int *n) {
    nc_value **xs = values(w, g->consts.n);
    bool *used = nc_arena_array(&w->scratch, (size_t)g->consts.n + 1, sizeof *used);
    if (!xs || !used) NC_FAIL(w, NC_E_MEMORY, "out of memory");
    NC_TRY(nc_autodiff_influence(w, g, &loss, 1, g->consts.v, g->consts.n, used));
    *n = 0;
    for (int i = 0; i < g->consts.n; i++)
        if (used[i]) xs[(*n)++] = g->consts.v[i];
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
    NC_TRY(nc_autodiff(w, g, &d.loss, NULL, 1, d.params, d.n, d.grads));
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
