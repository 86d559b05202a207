/* ops/nn/conv.c: cards of Conv and its gradient nacre.ConvGrad. Any number of spatial dims here; which ones run is the
 * bindings' matter (conv_cpu.c). Its channel-blocked form is in conv_blocked.c. */
#include "ops/nn/conv.h"

#include "ops/build.h"
#include "ops/card.h"

nc_code nc_conv_read_attrs(nc_work *w, const nc_node *n, int n_spatial, nc_conv_attrs *a) {
    NC_TRY(nc_window_read(w, n, n_spatial, a));
    if (a->group < 1) NC_FAIL(w, NC_E_BAD_GRAPH, "group is %lld", (long long)a->group);
    return NC_OK;
}

/* ---- inference ---- */

static const nc_dim *window(nc_infer *c, int i) {
    const nc_dim *d = nc_in_dim(c, 1, i + 2);
    int n;
    const int64_t *shape = nc_attr_ints(c->node, "kernel_shape", &n);
    bool fixed = d != NULL && nc_dim_is_const(d, NULL);
    return !fixed && shape != NULL && i < n ? nc_dim_const(c->dims, shape[i]) : d;
}

static nc_code check_channels(nc_infer *c, const nc_conv_attrs *a) {
    int64_t x, w, k;
    if (nc_dim_is_const(nc_in_dim(c, 1, 0), &k) && k % a->group != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "%lld output channels do not divide into %lld groups", (long long)k,
                (long long)a->group);
    if (nc_dim_is_const(nc_in_dim(c, 0, 1), &x) && nc_dim_is_const(nc_in_dim(c, 1, 1), &w) && x != w * a->group)
        NC_FAIL(c->w, NC_E_SHAPE, "the input has %lld channels, the weight takes %lld", (long long)x,
                (long long)(w * a->group));
    int n;
    const int64_t *shape = nc_attr_ints(c->node, "kernel_shape", &n);
    for (int i = 0; shape != NULL && i < n; i++) NC_TRY(nc_in_expect(c, 1, i + 2, nc_dim_const(c->dims, shape[i])));
    return NC_OK;
}

nc_code nc_conv_spatial_dims(nc_infer *c, int extra, nc_conv_attrs *a, const nc_dim **dims, bool *known) {
    int rx, rw;
    *known = nc_in_rank(c, 0, &rx) && nc_in_rank(c, 1, &rw);
    if (!*known) return NC_OK;
    if (rw + extra != rx) NC_FAIL(c->w, NC_E_SHAPE, "weight has %d dims, input has %d", rw, rx - extra);
    NC_TRY(nc_conv_read_attrs(c->w, c->node, rw - 2, a));
    for (int i = 0; i < rw - 2; i++) dims[i + 2] = nc_window_out(c->dims, a, i, nc_in_dim(c, 0, i + 2), window(c, i));
    return NC_OK;
}

nc_code nc_conv_infer_as(nc_infer *c, nc_dtype elem) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    nc_conv_attrs a;
    bool known;
    if (x == NULL) return NC_OK;
    NC_TRY(nc_conv_spatial_dims(c, 0, &a, dims, &known));
    if (!known) return nc_out_unknown(c, 0, elem, x->rank);
    NC_TRY(check_channels(c, &a));
    dims[0] = nc_in_dim(c, 0, 0);
    dims[1] = nc_in_dim(c, 1, 0);
    return nc_out(c, 0, elem, x->rank, dims);
}

static nc_code conv_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_in_expect(c, 2, 0, nc_in_dim(c, 1, 0)));
    return x != NULL ? nc_conv_infer_as(c, x->elem) : NC_OK;
}

/* ---- gradients ---- */

static const nc_conv_names *names_of(const nc_node *n) { return n->card->own; }

static nc_node *conv_grad_node(nc_builder *b, const nc_node *like, nc_value *dy, nc_value *x, nc_value *w,
                               const bool *wanted) {
    nc_value *in[3] = {dy, x, w};
    return nc_build_wanted(b, "nacre", names_of(like)->grad, in, 3, wanted, 3, like->attrs, like->n_attrs);
}

nc_code nc_conv_card_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    bool wanted[3] = {g->wants[0], g->wants[1], g->node->n_in > 2 && g->node->in[2] != NULL && g->wants[2]};
    if (dy == NULL || !(wanted[0] || wanted[1] || wanted[2])) return NC_OK;
    nc_node *n = conv_grad_node(g->b, g->node, dy, nc_grad_x(g, 0), nc_grad_x(g, 1), wanted);
    for (int i = 0; n != NULL && i < 3; i++)
        if (wanted[i]) nc_grad_set(g, i, n->out[i]);
    return nc_grad_end(g);
}

nc_code nc_conv_grad_expect(nc_infer *c, nc_code (*forward)(nc_infer *c)) {
    nc_infer_val in[3] = {c->in[1], c->in[2]}, out[3] = {{0}};
    nc_infer f = *c;
    int rank;
    f.in = in, f.out = out;
    NC_TRY(forward(&f));
    const nc_type *y = out[0].type;
    if (y == NULL || y->rank < 0 || !nc_in_rank(c, 0, &rank)) return NC_OK;
    if (rank != y->rank) NC_FAIL(c->w, NC_E_SHAPE, "dY has %d dims, expected %d as X", rank, y->rank);
    for (int k = 0; k < rank; k++) NC_TRY(nc_in_expect(c, 0, k, y->dims[k]));
    return NC_OK;
}

static nc_code conv_grad_infer(nc_infer *c) {
    NC_TRY(nc_conv_grad_expect(c, conv_infer));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    const nc_type *w = nc_in(c, 2);
    const nc_dim *K = nc_in_dim(c, 2, 0);
    return w == NULL ? NC_OK : K == NULL ? nc_out_unknown(c, 2, w->elem, 1) : nc_out(c, 2, w->elem, 1, &K);
}

static nc_value *conv(nc_builder *b, const nc_node *like, nc_value *x, nc_value *w, nc_value *bias) {
    nc_value *in[3] = {x, w, bias};
    return nc_build_attr1(b, "", names_of(like)->op, in, bias != NULL ? 3 : 2, like->attrs, like->n_attrs);
}

/* dX is bilinear in (dY, W) and dW in (dY, X), each the transpose of Conv (or ConvTranspose) in one operand, so with
 * u, v, t the gradients that arrive at dX, dW, dB:
 *   by dY: Conv(u, W) + Conv(X, v, t);   by X: ConvGrad(dY, -, v).dX;   by W: ConvGrad(dY, u, -).dW */
nc_code nc_conv_grad_card_grad(nc_grad *g) {
    nc_value *u = nc_grad_dy(g, 0), *v = nc_grad_dy(g, 1), *t = nc_grad_dy(g, 2), *ddy = NULL;
    nc_value *x = nc_grad_x(g, 1), *w = nc_grad_x(g, 2);
    if (u == NULL && v == NULL && t == NULL) return NC_OK;
    if (g->wants[0]) {
        if (t != NULL && v == NULL && g->b->code == NC_OK) v = nc_build_zeros_like(g->b, w);
        if (u != NULL) ddy = conv(g->b, g->node, u, w, NULL);
        if (v != NULL) {
            nc_value *part = conv(g->b, g->node, x, v, t);
            ddy = ddy != NULL ? nc_build1(g->b, "Add", 2, ddy, part) : part;
        }
        nc_grad_set(g, 0, ddy);
        v = nc_grad_dy(g, 1);
    }
    if (g->wants[1] && v != NULL) {
        nc_node *n = conv_grad_node(g->b, g->node, nc_grad_x(g, 0), x, v, (const bool[]){true, false, false});
        nc_grad_set(g, 1, n != NULL ? n->out[0] : NULL);
    }
    if (g->wants[2] && u != NULL) {
        nc_node *n = conv_grad_node(g->b, g->node, nc_grad_x(g, 0), u, w, (const bool[]){false, true, false});
        nc_grad_set(g, 2, n != NULL ? n->out[1] : NULL);
    }
    return nc_grad_end(g);
}

double nc_conv_cost(const nc_node *n, const int64_t *const *in_dims) {
    double cost = 2;
    int rank = n->in[1]->type != NULL ? n->in[1]->type->rank : 0;
    if (rank < 3) return 0;
    for (int i = 0; i < rank; i++) cost *= (double)in_dims[1][i];
    int n_strides;
    const int64_t *strides = nc_attr_ints(n, "strides", &n_strides);
    for (int i = 2; i < rank; i++)
        cost *= (double)in_dims[0][i] / (double)(strides != NULL && i - 2 < n_strides ? strides[i - 2] : 1);
    return cost * (double)in_dims[0][0];
}

#define CONV_ATTR ATTR(NC_CONV_ATTRS)
#define XWB(types) IN({"X", types}, {"W", SAME(0)}, {"B", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)}), CONV_ATTR
static const nc_op_version versions[] = {
    {.since = 22, XWB(T_FLOAT_ALL)}, {.since = 11, XWB(T_FLOAT)}, {.since = 1, XWB(T_FLOAT)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"W", SAME(0)}),
     OUT({"dX", SAME(0), OPTIONAL}, {"dW", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
     CONV_ATTR},
    {0}};

static const nc_conv_names names = {"Conv", "ConvGrad"};

const nc_card nc_card_conv = {.name = "Conv",
                              .doc = "Convolution of X (N,C,...) with windows W (K,C/group,...) plus a bias per K.",
                              .versions = versions,
                              .traits = NC_NARROWS,
                              .infer = conv_infer,
                              .grad = nc_conv_card_grad,
                              .own = &names,
                              .cost = nc_conv_cost,
                              .blocks = nc_conv_blocks,
                              .blocked = nc_conv_blocked};
const nc_card nc_card_conv_grad = {.name = "ConvGrad",
                                   .domain = "nacre",
                                   .doc = "Gradients of Conv by X, W and B.",
                                   .versions = grad_versions,
                                   .infer = conv_grad_infer,
                                   .grad = nc_conv_grad_card_grad,
                                   .decompose = nc_conv_grad_decompose,
                                   .own = &names,
                                   .blocks = nc_conv_grad_blocks,
                                   .blocked = nc_conv_grad_blocked};
