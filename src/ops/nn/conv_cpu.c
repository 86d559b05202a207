/* ops/nn/conv_cpu.c: Conv, ConvGrad and ConvBlocked on the CPU: one or two spatial dims, a line being an image of
 * height 1. The blocked kernel takes weights packed once, or packs them into the workspace of each run where a session
 * packs nothing. */
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/conv/conv_grad.h"
#include "kernels/cpu/isa.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"

typedef struct conv {
    nc_conv_attrs attrs;
    bool packed;
} conv;

/* Input 1 of Conv and ConvBlocked, input 2 of ConvGrad: the weight. */
static int weight_rank(const nc_node *n) {
    const nc_value *w = n->in[n->card->domain != NULL && n->card->name[4] == 'G' ? 2 : 1];
    return w->type != NULL ? w->type->rank : -1;
}

bool nc_conv_plain_fits(const nc_node *n, const char **why) {
    int rank = weight_rank(n);
    *why = rank < 0 ? "the weight's rank is not known" : "one or two spatial dims are supported";
    return rank == 3 || rank == 4;
}

nc_code nc_conv_prepare(nc_prep *p) {
    conv *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    p->strided_in = p->node->card->domain == NULL ? 1 : 0;
    return nc_conv_read_attrs(p->w, p->node, weight_rank(p->node) - 2, &s->attrs);
}

/* The sizes of a convolution of x (N, C, spatial...) with w; x's channels are counted by the weight. */
static nck_conv_shape shape_of(const conv *s, const nc_tensor *x, const nc_tensor *w) {
    const nc_conv_attrs *a = &s->attrs;
    int at = a->n_spatial - 1; /* of the width */
    nck_conv_shape c = {.N = x->dims[0],
                        .C = w->dims[1] * a->group,
                        .H = 1,
                        .W = x->dims[2 + at],
                        .K = w->dims[0],
                        .kh = 1,
                        .kw = w->dims[2 + at],
                        .group = a->group,
                        .stride_h = 1,
                        .stride_w = a->strides[at],
                        .dil_h = 1,
                        .dil_w = a->dilations[at]};
    nc_conv_pads(a, at, c.W, c.kw, &c.pad_left, &c.pad_right);
    if (at == 0) return c;
    c.H = x->dims[2];
    c.kh = w->dims[2];
    c.stride_h = a->strides[0];
    c.dil_h = a->dilations[0];
    nc_conv_pads(a, 0, c.H, c.kh, &c.pad_top, &c.pad_bottom);
    return c;
}

/* What inference could not check where sizes were symbols. */
static nc_code check(const nc_call *c, const nck_conv_shape *s, int64_t channels, const nc_tensor *y) {
    int at = 2;
    if (channels != s->C)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the input has %lld channels, the weight takes %lld",
                           (long long)channels, (long long)s->C);
    if (s->K % s->group != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld output channels do not divide into %lld groups",
                           (long long)s->K, (long long)s->group);
    bool image = y->rank > 3;
    if ((image && y->dims[at] != nck_conv_out_h(s)) || y->dims[at + image] != nck_conv_out_w(s))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the window does not fit the input");
    return NC_OK;
}

static void strides_of(const nc_tensor *t, int64_t strides[4]) {
    strides[0] = t->strides[0];
    strides[1] = t->strides[1];
    strides[2] = t->rank > 3 ? t->strides[2] : 0;
    strides[3] = t->strides[t->rank - 1];
}

static nc_code check_bias(const nc_call *c, const nck_conv_shape *s) {
    if (c->n_in < 3 || c->in[2].data == NULL || nc_tensor_numel(&c->in[2]) == s->K) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the bias has %lld elements, %lld are expected",
                       (long long)nc_tensor_numel(&c->in[2]), (long long)s->K);
}

nc_code nc_conv_run(const nc_call *c) {
    nck_conv_args a = {.type = c->out[0].dtype,
                       .shape = shape_of(c->state, &c->in[0], &c->in[1]),
                       .x = c->in[0].data,
                       .w = c->in[1].data,
                       .bias = c->n_in > 2 ? c->in[2].data : NULL,
                       .y = c->out[0].data};
    NC_TRY(check(c, &a.shape, c->in[0].dims[1], &c->out[0]));
    NC_TRY(check_bias(c, &a.shape));
    if (nc_tensor_numel(&c->out[0]) == 0) return NC_OK;
    strides_of(&c->in[0], a.x_strides);
    strides_of(&c->out[0], a.y_strides);
    nck_conv_plain(&a, c->pool);
    return NC_OK;
}

nc_code nc_conv_grad_run(const nc_call *c) {
    nck_conv_grad_args a = {.type = c->in[0].dtype,
                            .shape = shape_of(c->state, &c->in[1], &c->in[2]),
                            .dy = c->in[0].data,
                            .x = c->in[1].data,
                            .w = c->in[2].data,
                            .dx = c->out[0].data,
                            .dw = c->n_out > 1 ? c->out[1].data : NULL,
                            .db = c->n_out > 2 ? c->out[2].data : NULL};
    NC_TRY(check(c, &a.shape, c->in[1].dims[1], &c->in[0]));
    nck_conv_grad(&a, c->pool);
    return NC_OK;
}

/* ---- blocked ---- */

static nc_code fill(const void *state, const nc_tensor *src, void *dst) {
    (void)state;
    nck_conv_pack_weights(src->dims[0], src->dims[1], src->dims[2], src->dims[3], src->data, dst);
    return NC_OK;
}

static size_t packed_bytes(const int64_t *w) { return nck_conv_packed_weights_bytes(w[0], w[1], w[2], w[3]); }

nc_code nc_conv_blocked_prepare(nc_prep *p) {
    const nc_literal *w = p->node->in[1]->lit;
    NC_TRY(nc_conv_prepare(p));
    if (w == NULL || w->rank != 4)
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "the blocked form needs a constant weight of 4 dims");
    conv *s = p->state;
    s->packed = !p->no_packs;
    if (p->no_packs) return NC_OK;
    const char *form = nc_arena_printf(p->arena, "conv_w/1/%s/float", nck_isa_get()->name);
    NC_NEED(p->w, form);
    p->pack[p->n_packs++] = (nc_pack){.input = 1, .form = form, .bytes = packed_bytes(w->dims), .fill = fill};
    return NC_OK;
}

size_t nc_conv_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const conv *s = state;
    (void)n_in;
    (void)out;
    (void)n_out;
    return s->packed ? 0 : packed_bytes(in[1].dims);
}

nc_code nc_conv_blocked_run(const nc_call *c) {
    const conv *s = c->state;
    nck_conv_shape shape = shape_of(s, &c->in[0], &c->in[1]);
    int64_t blocks = (shape.C + NCK_CONV_BLOCK - 1) / NCK_CONV_BLOCK;
    NC_TRY(check(c, &shape, c->in[0].dims[1] == blocks ? shape.C : -1, &c->out[0]));
    NC_TRY(check_bias(c, &shape));
    if (nc_tensor_numel(&c->out[0]) == 0) return NC_OK;
    const void *w = s->packed ? c->packed[0] : c->workspace;
    if (!s->packed) NC_TRY(fill(NULL, &c->in[1], c->workspace));
    nck_conv_blocked(&shape, c->in[0].data, w, c->n_in > 2 ? c->in[2].data : NULL, c->out[0].data, c->pool);
    return NC_OK;
}
