/* ops/nn/conv_transpose.c: cards of ConvTranspose and nacre.ConvTransposeGrad. The transpose of Conv in its input: each
 * element of X is spread over the window. Kernels are in conv_cpu.c, the channel-blocked form is in
 * conv_transpose_blocked.c. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/nn/conv.h"

nc_code nc_conv_transpose_read(nc_work *w, const nc_node *n, int n_spatial, nc_conv_transpose *a) {
    int n_shape;
    const int64_t *shape = nc_attr_ints(n, "output_shape", &n_shape);
    NC_TRY(nc_conv_read_attrs(w, n, n_spatial, &a->attrs));
    NC_TRY(nc_window_ints(w, n, "output_padding", n_spatial, 0, 0, a->out_padding));
    a->shaped = shape != NULL;
    if (shape != NULL && n_shape == n_spatial + 2) shape += 2, n_shape -= 2;
    if (shape != NULL && n_shape != n_spatial)
        NC_FAIL(w, NC_E_SHAPE, "output_shape has %d numbers, %d are expected", n_shape, n_spatial);
    for (int i = 0; shape != NULL && i < n_spatial; i++) a->out_shape[i] = shape[i];
    return NC_OK;
}

static bool pads_follow(const nc_conv_transpose *a) {
    return a->shaped || a->attrs.auto_pad == NC_PAD_SAME_UPPER || a->attrs.auto_pad == NC_PAD_SAME_LOWER;
}

int64_t nc_conv_transpose_pad(const nc_conv_transpose *a, int i, int64_t in, int64_t k, int64_t out) {
    const nc_conv_attrs *w = &a->attrs;
    if (!pads_follow(a)) return w->pads[i];
    int64_t total = w->strides[i] * (in - 1) + a->out_padding[i] + (k - 1) * w->dilations[i] + 1 - out;
    if (total < 0) total = 0;
    return w->auto_pad == NC_PAD_SAME_UPPER ? total / 2 : total - total / 2;
}

const nc_dim *nc_conv_transpose_dim(nc_dims *t, const nc_conv_transpose *a, int i, const nc_dim *in, const nc_dim *k) {
    const nc_conv_attrs *w = &a->attrs;
    const nc_dim *stride = nc_dim_const(t, w->strides[i]), *one = nc_dim_const(t, 1);
    if (a->shaped) return nc_dim_const(t, a->out_shape[i]);
    if (pads_follow(a)) return nc_dim_mul(t, in, stride);
    const nc_dim *reach = nc_dim_mul(t, nc_dim_sub(t, k, one), nc_dim_const(t, w->dilations[i]));
    const nc_dim *steps = nc_dim_mul(t, nc_dim_sub(t, in, one), stride);
    int64_t more = a->out_padding[i] + 1 - w->pads[i] - w->pads[w->n_spatial + i];
    return nc_dim_add(t, nc_dim_add(t, steps, reach), nc_dim_const(t, more));
}

static nc_code transpose_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    nc_conv_transpose a;
    int rx, rw;
    int64_t have, want;
    if (x == NULL) return NC_OK;
    if (!nc_in_rank(c, 0, &rx) || !nc_in_rank(c, 1, &rw)) return nc_out_unknown(c, 0, x->elem, x->rank);
    if (rw != rx) NC_FAIL(c->w, NC_E_SHAPE, "weight has %d dims, input has %d", rw, rx);
    NC_TRY(nc_conv_transpose_read(c->w, c->node, rx - 2, &a));
    if (nc_dim_is_const(nc_in_dim(c, 0, 1), &have) && nc_dim_is_const(nc_in_dim(c, 1, 0), &want) && have != want)
        NC_FAIL(c->w, NC_E_SHAPE, "the input has %lld channels, the weight takes %lld", (long long)have,
                (long long)want);
    if (nc_dim_is_const(nc_in_dim(c, 1, 0), &want) && want % a.attrs.group != 0)
        NC_FAIL(c->w, NC_E_SHAPE, "%lld channels do not divide into %lld groups", (long long)want,
                (long long)a.attrs.group);
    dims[0] = x->dims[0];
    dims[1] = nc_dim_mul(c->dims, nc_in_dim(c, 1, 1), nc_dim_const(c->dims, a.attrs.group));
    for (int i = 0; i < rx - 2; i++)
        dims[i + 2] = nc_conv_transpose_dim(c->dims, &a, i, x->dims[i + 2], nc_in_dim(c, 1, i + 2));
    return nc_out(c, 0, x->elem, rx, dims);
}

static nc_code grad_infer(nc_infer *c) {
    const nc_type *w = nc_in(c, 2);
    const nc_dim *group = nc_dim_const(c->dims, nc_attr_int(c->node, "group")), *M = nc_in_dim(c, 2, 1);
    NC_TRY(nc_conv_grad_expect(c, transpose_infer));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    if (w == NULL) return NC_OK;
    if (M == NULL) return nc_out_unknown(c, 2, w->elem, 1);
    const nc_dim *channels = nc_dim_mul(c->dims, M, group);
    return nc_out(c, 2, w->elem, 1, &channels);
}

/* The attributes of the Conv whose transpose n is; UNSUPPORTED where its pads depend on sizes that are not known. */
static nc_code conv_attrs(nc_builder *b, const nc_node *n, int64_t *pads, nc_attr *attrs, int *count) {
    const nc_type *x = n->in[1]->type, *w = n->in[2]->type, *y = n->in[0]->type;
    nc_conv_transpose a;
    int64_t in, k, out;
    if (x == NULL || x->rank < 3 || w == NULL || w->rank != x->rank || y == NULL || y->rank != x->rank)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    int n_spatial = x->rank - 2;
    NC_TRY(nc_conv_transpose_read(b->w, n, n_spatial, &a));
    for (int i = 0; i < n_spatial; i++) {
        pads[i] = a.attrs.pads[i], pads[n_spatial + i] = a.attrs.pads[n_spatial + i];
        if (a.out_padding[i] >= a.attrs.strides[i])
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "output_padding is no less than the stride, which its pieces cannot say");
        if (!pads_follow(&a)) continue;
        if (!nc_dim_is_const(x->dims[i + 2], &in) || !nc_dim_is_const(w->dims[i + 2], &k) ||
            !nc_dim_is_const(y->dims[i + 2], &out))
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pads follow from sizes that are not known");
        int64_t total = a.attrs.strides[i] * (in - 1) + a.out_padding[i] + (k - 1) * a.attrs.dilations[i] + 1 - out;
        pads[i] = nc_conv_transpose_pad(&a, i, in, k, out);
        pads[n_spatial + i] = total > pads[i] ? total - pads[i] : 0;
        if (a.out_padding[i] - total >= a.attrs.strides[i])
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "output_shape is a stride or more beyond X, which its pieces cannot say");
    }
    static const char *const copied[] = {"dilations", "group", "strides"};
    *count = 0;
    attrs[(*count)++] = (nc_attr){.name = "pads", .kind = NC_A_INTS, .ints = pads, .n = 2 * n_spatial};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        if (nc_node_attr(n, copied[i]) != NULL) attrs[(*count)++] = *nc_node_attr(n, copied[i]);
    return NC_OK;
}

/* dX is Conv of dY with the same weights, and dW that Conv's weight gradient with X in the place of its dY. */
static nc_code grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *x = n->in[1], *w = n->in[2];
    int64_t pads[2 * NC_MAX_RANK], axes[NC_MAX_RANK];
    nc_attr attrs[4];
    int count = 0, n_axes = 0;
    NC_TRY(conv_attrs(b, n, pads, attrs, &count));
    if (n->out[0] != NULL) out[0] = nc_build_attr1(b, "", "Conv", (nc_value *[]){dy, w}, 2, attrs, count);
    if (n->n_out > 1 && n->out[1] != NULL) {
        nc_node *d = nc_build_wanted(b, "nacre", "ConvGrad", (nc_value *[]){x, dy, w}, 3,
                                     (const bool[]){false, true, false}, 3, attrs, count);
        if (d != NULL) out[1] = d->out[1];
    }
    for (int i = 0; i < x->type->rank; i++)
        if (i != 1) axes[n_axes++] = i;
    if (n->n_out > 2 && n->out[2] != NULL) out[2] = nc_build_reduce_sum(b, dy, axes, n_axes, false);
    return b->code;
}

#define TRANSPOSE_ATTR ATTR(NC_CONV_ATTRS, A_INTS_OPT("output_padding"), A_INTS_OPT("output_shape"))
#define XWB(types) IN({"X", types}, {"W", SAME(0)}, {"B", SAME(0), OPTIONAL}), OUT({"Y", SAME(0)}), TRANSPOSE_ATTR
static const nc_op_version versions[] = {
    {.since = 22, XWB(T_FLOAT_ALL)}, {.since = 11, XWB(T_FLOAT)}, {.since = 1, XWB(T_FLOAT)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"W", SAME(0)}),
     OUT({"dX", SAME(0), OPTIONAL}, {"dW", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
     TRANSPOSE_ATTR},
    {0}};

static const nc_conv_names names = {"ConvTranspose", "ConvTransposeGrad"};

const nc_card nc_card_conv_transpose = {.name = "ConvTranspose",
                                        .doc = "Spreads each element of X (N,C,...) over windows W (C,M/group,...).",
                                        .versions = versions,
                                        .traits = NC_NARROWS,
                                        .infer = transpose_infer,
                                        .grad = nc_conv_card_grad,
                                        .own = &names,
                                        .blocks = nc_conv_transpose_blocks,
                                        .blocked = nc_conv_transpose_blocked};
const nc_card nc_card_conv_transpose_grad = {.name = "ConvTransposeGrad",
                                             .domain = "nacre",
                                             .doc = "Gradients of ConvTranspose by X, W and B.",
                                             .versions = grad_versions,
                                             .infer = grad_infer,
                                             .grad = nc_conv_grad_card_grad,
                                             .decompose = grad_decompose,
                                             .own = &names};
