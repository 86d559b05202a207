/* ops/optim/gradient.c: the card of Gradient (domain ai.onnx.preview.training): the gradients of the value `y` by those
 * named in `xs`, while those in `zs` stay as they are, at the point that the inputs give. Inputs: a value for each name
 * of xs, one for each of zs; behind them y, xs and zs themselves (nc_card's names_values). There is no kernel:
 * autodiff/gradient.c puts the gradients in the node's place before anything is planned. */
#include "ops/card.h"

static nc_code check_float(nc_infer *c, int i, const char *attr, const char *name) {
    const nc_type *t = nc_in(c, i);
    if (!t || (t->kind == NC_T_TENSOR && (t->elem == NC_UNDEFINED || nc_dtype_is_float(t->elem)))) return NC_OK;
    nc_text text = {0};
    nc_type_print(&text, t);
    nc_code code = nc_fail(c->w, NC_E_TYPE, "'%.100s' in attribute '%s' is %s, expected a floating-point tensor", name,
                           attr, text.s ? text.s : "of another type");
    nc_text_release(&text);
    return code;
}

/* The values at which to differentiate have the element types of those they stand for. */
static nc_code check_point(nc_infer *c, int i, int i_named) {
    const nc_type *given = nc_in(c, i), *named = nc_in(c, i_named);
    if (!given || !named || given->elem == named->elem) return NC_OK;
    NC_FAIL(c->w, NC_E_TYPE, "input %d is %s, but it stands for '%.100s', which is %s", i, nc_dtype_name(given->elem),
            c->node->in[i_named]->name, nc_dtype_name(named->elem));
}

static nc_code gradient_infer(nc_infer *c) {
    const nc_node *n = c->node;
    int n_x = nc_attr_n_strings(n, "xs"), n_at = n_x + nc_attr_n_strings(n, "zs");
    if (n->n_in != n_at + 1 + n_at)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "has %d inputs, expected one for each of the %d names in 'xs' and 'zs'",
                n->n_in - nc_node_n_named(n), n_at);
    if (n->n_out > n_x)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "has %d outputs, expected one for each of the %d names in 'xs'", n->n_out, n_x);
    NC_TRY(check_float(c, n_at, "y", n->in[n_at]->name));
    for (int i = 0; i < n_x; i++) NC_TRY(check_float(c, n_at + 1 + i, "xs", n->in[n_at + 1 + i]->name));
    for (int i = 0; i < n_at; i++) NC_TRY(check_point(c, i, n_at + 1 + i));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"Inputs", T_TENSOR, MIXED}),
     OUT({"Outputs", T_FLOAT, MIXED}),
     ATTR(A_STR_REQ("y"), A_STRINGS_OPT("zs"), {.name = "xs", .kind = NC_A_STRINGS, .flags = NC_ATTR_REQUIRED})},
    {0}};

static const char *const names_values[] = {"y", "xs", "zs", NULL};

const nc_card nc_card_gradient = {.name = "Gradient",
                                  .domain = "ai.onnx.preview.training",
                                  .doc = "Gradients of the value y by those named in xs; those in zs are held.",
                                  .versions = versions,
                                  .no_grad = "autodiff puts gradients in its place before anything is differentiated",
                                  .traits = NC_DIFFERENTIATES,
                                  .names_values = names_values,
                                  .infer = gradient_infer};
