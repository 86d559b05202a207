/* transform/infer/activations.c: activations that exporters write out, as the one op they are: Gelu in both forms,
 * Swish, HardSwish, Mish, Clip. In a model that may be saved only where its opset has the op; Gelu of com.microsoft
 * serves older ones. */
#include "ops/contrib.h"
#include "transform/pattern.h"
#include "transform/transform.h"

enum { GELU_SINCE = 20 };

static bool number_of(const nc_match *m, const char *name, double *v) {
    const nc_value *c = nc_match_value(m, name);
    return c != NULL && c->lit->n == 1 && nc_rewrite_number(c->lit, 0, v);
}

static bool same_type(const nc_match *m) { return nc_rewrite_same_type(m->root->out[0], nc_match_value(m, "x")); }

/* Does the model's opset have Gelu? */
static bool has_gelu(const nc_match *m) { return nc_model_opset(m->root->graph->model, "") >= GELU_SINCE; }

static nc_code by_erf(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    (void)w;
    if (!has_gelu(m)) made->domain = NC_MICROSOFT;
    *fits = same_type(m);
    return NC_OK;
}

static nc_code by_tanh(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    (void)w;
    if (has_gelu(m))
        made->attrs[made->n_attrs++] = (nc_attr){.name = "approximate", .kind = NC_A_STRING, .s = {"tanh", 4}};
    else
        made->domain = NC_MICROSOFT, made->op = "FastGelu";
    *fits = same_type(m);
    return NC_OK;
}

static nc_code with_alpha(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    double alpha = 0;
    (void)w;
    *fits = same_type(m) && number_of(m, "alpha", &alpha);
    made->attrs[made->n_attrs++] = (nc_attr){.name = "alpha", .kind = NC_A_FLOAT, .f = (float)alpha};
    return NC_OK;
}

static nc_code sixths(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    const nc_node *h = nc_match_value(m, "h")->def;
    double alpha = nc_attr_float(h, "alpha") * 6 - 1, beta = nc_attr_float(h, "beta");
    (void)w, (void)made;
    *fits = same_type(m) && alpha < 1e-6 && alpha > -1e-6 && beta == 0.5;
    return NC_OK;
}

/* Bounds become scalars, which is all that Clip takes; without a lower one it is 0 (Relu). */
static nc_code bounds(nc_work *w, const nc_match *m, nc_made *made, bool *fits) {
    enum { BOUNDS_BY_INPUT = 11 };
    double lo = 0, hi;
    *fits = same_type(m) && nc_model_opset(m->root->graph->model, "") >= BOUNDS_BY_INPUT && number_of(m, "hi", &hi) &&
            (nc_match_value(m, "lo") == NULL || number_of(m, "lo", &lo)) && lo <= hi;
    if (!*fits) return NC_OK;
    nc_value *x = nc_match_value(m, "x");
    for (int i = 1; i <= 2; i++) {
        nc_value *given = nc_match_value(m, i == 1 ? "lo" : "hi");
        made->in[i] = given != NULL && given->lit->rank == 0
                          ? given
                          : nc_edit_const_scalar(x->graph, NULL, x->type->elem, i == 1 ? lo : hi);
        NC_NEED(w, made->in[i]);
    }
    made->n_in = 3;
    return NC_OK;
}

#define SHARE(f, how)                                                                             \
    {.text = "Mul(Mul(x, 0.5), Add(" f ", 1))", .op = "Gelu", .inputs = "x", .where = how},       \
        {.text = "Mul(Mul(x, Add(" f ", 1)), 0.5)", .op = "Gelu", .inputs = "x", .where = how}, { \
        .text = "Mul(x, Mul(Add(" f ", 1), 0.5))", .op = "Gelu", .inputs = "x", .where = how      \
    }
#define TANH_OF(cubic) "Tanh(Mul(Add(x, " cubic "), 0.79788456))"
#define SIXTH "Clip(Add(x, 3), 0, 6)"

static const nc_pattern rows[] = {
    SHARE("Erf(Div(x, 1.41421356))", by_erf),
    SHARE("Erf(Mul(x, 0.70710678))", by_erf),
    SHARE(TANH_OF("Mul(Pow(x, 3), 0.044715)"), by_tanh),
    SHARE(TANH_OF("Mul(Mul(x, Mul(x, x)), 0.044715)"), by_tanh),
    SHARE(TANH_OF("Mul(x, Mul(x, Mul(x, 0.044715)))"), by_tanh),
    {.text = "Mul(x, Sigmoid(x))", .op = "Swish", .inputs = "x"},
    {.text = "Mul(x, Sigmoid(Mul(x, #alpha)))", .op = "Swish", .inputs = "x", .where = with_alpha},
    {.text = "Mul(x, h=HardSigmoid(x))", .op = "HardSwish", .inputs = "x", .where = sixths},
    {.text = "Div(Mul(x, " SIXTH "), 6)", .op = "HardSwish", .inputs = "x"},
    {.text = "Mul(Mul(x, " SIXTH "), 0.16666667)", .op = "HardSwish", .inputs = "x"},
    {.text = "Mul(x, Div(" SIXTH ", 6))", .op = "HardSwish", .inputs = "x"},
    {.text = "Mul(x, Mul(" SIXTH ", 0.16666667))", .op = "HardSwish", .inputs = "x"},
    {.text = "Mul(x, Tanh(Softplus(x)))", .op = "Mish", .inputs = "x"},
    {.text = "Min(Max(x, #lo), #hi)", .op = "Clip", .inputs = "x", .where = bounds},
    {.text = "Max(Min(x, #hi), #lo)", .op = "Clip", .inputs = "x", .where = bounds},
    {.text = "Min(Relu(x), #hi)", .op = "Clip", .inputs = "x", .where = bounds},
};

nc_code nc_pass_activations(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}

nc_code nc_pass_activations_newer(nc_work *w, nc_graph *g, int *n_changes) {
    return nc_pattern_apply_newer(w, g, rows, sizeof rows / sizeof rows[0], n_changes);
}
