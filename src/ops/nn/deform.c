/* ops/nn/deform.c: cards of DeformConv and its gradient nacre.DeformConvGrad. Their kernels are in deform_cpu.c. */
#include "ops/card.h"
#include "ops/nn/deform_parts.h"
#include "ops/window.h"

static nc_code deform_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *w = nc_in(c, 1), *offset = nc_in(c, 2);
    const nc_dim *dims[4];
    nc_window a;
    if (x == NULL) return NC_OK;
    for (int i = 0; i < 3; i++) {
        int rank;
        if (nc_in_rank(c, i, &rank) && rank != 4)
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected 4: two spatial dims are supported", i, rank);
    }
    NC_TRY(nc_window_read(c->w, c->node, 2, &a));
    dims[0] = x->rank == 4 ? x->dims[0] : nc_fresh(c, "n");
    dims[1] = w != NULL && w->rank == 4 ? w->dims[0] : nc_fresh(c, "m");
    for (int k = 0; k < 2; k++) {
        if (x->rank == 4 && w != NULL && w->rank == 4)
            dims[k + 2] = nc_window_out(c->dims, &a, k, x->dims[k + 2], w->dims[k + 2]);
        else
            dims[k + 2] = offset != NULL && offset->rank == 4 ? offset->dims[k + 2] : nc_fresh(c, "d");
        NC_NEED(c->w, dims[k + 2]);
    }
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_code deform_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *in[6] = {NULL};
    bool wanted[5] = {false}, any = false;
    if (dy == NULL) return NC_OK;
    for (int i = 0; i < 5 && i < g->node->n_in; i++) {
        in[i] = nc_grad_x(g, i);
        any |= wanted[i] = in[i] != NULL && g->wants[i];
    }
    in[5] = dy;
    if (!any) return NC_OK;
    nc_node *n = nc_build_wanted(g->b, "nacre", "DeformConvGrad", in, 6, wanted, 5, g->node->attrs, g->node->n_attrs);
    for (int i = 0; n != NULL && i < 5; i++)
        if (wanted[i]) nc_grad_set(g, i, n->out[i]);
    return nc_grad_end(g);
}

static nc_code back_infer(nc_infer *c) {
    for (int i = 0; i < c->node->n_out; i++)
        if (c->node->out[i] != NULL) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

static nc_code deform_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[5] = {NULL};
    for (int i = 0; i < 5 && i < n->n_in; i++) in[i] = n->in[i];
    return nc_deform_parts(b, n, in, out);
}

static nc_code back_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_grad_op_by_parts(b, n, 5, 1, nc_deform_parts, out);
}

static nc_code back_grad(nc_grad *g) { return nc_grad_twice_by_parts(g, 5, 1, nc_deform_parts); }

#define OPERANDS(types) \
    {"X", types}, {"W", SAME(0)}, {"offset", SAME(0)}, {"B", SAME(0), OPTIONAL}, { "mask", SAME(0), OPTIONAL }
#define WINDOW                                                                                            \
    ATTR(A_INTS_OPT("strides"), A_INTS_OPT("pads"), A_INT("offset_group", 1), A_INTS_OPT("kernel_shape"), \
         A_INT("group", 1), A_INTS_OPT("dilations"))
#define DEFORM(types) IN(OPERANDS(types)), OUT({"Y", SAME(0)}), WINDOW
static const nc_op_version versions[] = {{.since = 22, DEFORM(T_FLOAT_ALL)}, {.since = 19, DEFORM(T_FLOAT)}, {0}};
#define GRADIENT(name) \
    { name, SAME(0), OPTIONAL }
static const nc_op_version back_versions[] = {
    {.since = 1,
     IN(OPERANDS(T_FLOAT_ALL), {"dY", SAME(0)}),
     OUT(GRADIENT("dX"), GRADIENT("dW"), GRADIENT("doffset"), GRADIENT("dB"), GRADIENT("dmask")),
     WINDOW},
    {0}};

const nc_card nc_card_deform_conv = {.name = "DeformConv",
                                     .doc = "Convolution whose taps are moved by offsets and weighed by a mask.",
                                     .versions = versions,
                                     .infer = deform_infer,
                                     .decompose = deform_decompose,
                                     .grad = deform_grad};
const nc_card nc_card_deform_conv_grad = {.name = "DeformConvGrad",
                                          .domain = "nacre",
                                          .doc = "Gradients of DeformConv by its operands.",
                                          .versions = back_versions,
                                          .infer = back_infer,
                                          .decompose = back_decompose,
                                          .grad = back_grad};
