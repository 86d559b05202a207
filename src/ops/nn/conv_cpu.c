/* ops/nn/conv_cpu.c: Conv, ConvTranspose and their gradients on the CPU: one to three spatial dims. Plain convolutions
 * go over columns, those with one channel per group and few outputs directly; gradients over channels in blocks where
 * they can. */
#include "base/intmath.h"
#include "kernels/cpu/conv/conv_back.h"
#include "kernels/cpu/conv/conv_cols.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/move/move.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"

const nc_conv_row nc_conv_plain = {.i_weight = 1, .strided_in = 1};
const nc_conv_row nc_conv_grad = {.i_weight = 2};
const nc_conv_row nc_conv_transposed = {.i_weight = 1, .transposed = true};
const nc_conv_row nc_conv_transposed_grad = {.i_weight = 2, .transposed = true};

static int weight_rank(const nc_conv_row *row, const nc_node *n) {
    const nc_value *w = n->in[row->i_weight];
    return w->type != NULL ? w->type->rank : -1;
}

static bool conv_fits(const nc_conv_row *row, const nc_node *n, const char **why) {
    int rank = weight_rank(row, n);
    *why = rank < 0 ? "the weight's rank is not known" : "one to three spatial dims are supported";
    return rank >= 3 && rank <= 2 + NC_WINDOW_KERNEL_DIMS;
}

bool nc_conv_fits(const nc_node *n, const char **why) { return conv_fits(&nc_conv_plain, n, why); }
bool nc_conv_grad_fits(const nc_node *n, const char **why) { return conv_fits(&nc_conv_grad, n, why); }

nc_code nc_conv_read(const nc_prep *p, nc_conv_transpose *out) {
    const nc_conv_row *row = p->own;
    int n_spatial = weight_rank(row, p->node) - 2;
    *out = (nc_conv_transpose){.shaped = false};
    if (row->transposed) return nc_conv_transpose_read(p->w, p->node, n_spatial, out);
    return nc_conv_read_attrs(p->w, p->node, n_spatial, &out->attrs);
}

nc_code nc_conv_prepare(nc_prep *p) {
    nc_conv_transpose *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    p->strided_in = ((const nc_conv_row *)p->own)->strided_in;
    NC_TRY(nc_conv_read(p, s));
    s->no_winograd = p->no_winograd;
    return NC_OK;
}

/* ---- plain ---- */

/* Of a convolution from x to y with w. */
nck_conv_shape nc_conv_shape_of(const nc_conv_transpose *t, const nc_tensor *x, const nc_tensor *w,
                                const nc_tensor *y) {
    const nc_conv_attrs *a = &t->attrs;
    return (nck_conv_shape){.type = x->dtype,
                            .N = x->dims[0],
                            .C = w->dims[1] * a->group,
                            .K = w->dims[0],
                            .group = a->group,
                            .w = nc_window_kernel(a, x->dims + 2, w->dims + 2, y->dims + 2)};
}

/* Of the convolution whose transpose leads from x to y. */
nck_conv_shape nc_conv_transposed_shape(const nc_conv_transpose *t, const nc_tensor *x, const nc_tensor *w,
                                        const nc_tensor *y) {
    nck_conv_shape c = nc_conv_shape_of(t, y, w, x);
    int n = t->attrs.n_spatial;
    for (int i = 0; i < n; i++)
        c.w.pad[NC_WINDOW_KERNEL_DIMS - n + i] =
            nc_conv_transpose_pad(t, i, x->dims[i + 2], w->dims[i + 2], y->dims[i + 2]);
    return c;
}

/* What inference could not check where sizes were symbols. */
nc_code nc_conv_check_channels(const nc_call *c, const nck_conv_shape *s, int64_t channels, int64_t takes) {
    if (channels != takes)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the input has %lld channels, the weight takes %lld",
                           (long long)channels, (long long)takes);
    if (s->K % s->group != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld output channels do not divide into %lld groups",
                           (long long)s->K, (long long)s->group);
    return NC_OK;
}

nc_code nc_conv_check_places(const nc_call *c, const nck_window *w) {
    for (int i = 0; i < NC_WINDOW_KERNEL_DIMS; i++) {
        int64_t fits = nck_window_out(w->in[i], w->k[i], w->stride[i], w->dil[i], w->pad[i] + w->pad_end[i]);
        if (w->out[i] != fits)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the window does not fit the input");
    }
    return NC_OK;
}

nc_code nc_conv_check_bias(const nc_call *c, int64_t channels) {
    if (c->n_in < 3 || c->in[2]->data == NULL || nc_tensor_numel(c->in[2]) == channels) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the bias has %lld elements, %lld are expected",
                       (long long)nc_tensor_numel(c->in[2]), (long long)channels);
}

nc_code nc_conv_check(const nc_call *c, const nck_conv_shape *s, int64_t channels) {
    NC_TRY(nc_conv_check_channels(c, s, channels, s->C));
    NC_TRY(nc_conv_check_places(c, &s->w));
    return nc_conv_check_bias(c, s->K);
}

static void strides_of(const nc_tensor *t, int64_t strides[5]) {
    strides[0] = t->strides[0];
    strides[1] = t->strides[1];
    for (int i = 2; i < 5; i++) {
        int at = t->rank - 5 + i;
        strides[i] = at >= 2 ? t->strides[at] : 0;
    }
}

enum { FEW_OUTPUTS = 8 }; /* of one channel: with so many it is cheaper to lay its windows out once for all of them */

/* A shape's own products do not overflow where its tensors exist. */
size_t nc_conv_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    nck_conv_shape s = nc_conv_shape_of(state, &in[0], &in[1], &out[0]);
    (void)n_in;
    (void)n_out;
    return nck_conv_cols_workspace(&s);
}

nc_code nc_conv_run(const nc_call *c) {
    nck_conv_shape s = nc_conv_shape_of(c->state, c->in[0], c->in[1], c->out[0]);
    const void *bias = c->n_in > 2 ? c->in[2]->data : NULL;
    int64_t strides[5];
    NC_TRY(nc_conv_check(c, &s, c->in[0]->dims[1]));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    strides_of(c->in[0], strides);
    if (s.C == s.group && s.K < FEW_OUTPUTS * s.group)
        nck_conv_depthwise(&s, c->in[0]->data, strides, c->in[1]->data, bias, c->out[0]->data, c->pool);
    else
        nck_conv_cols(&s, c->in[0]->data, strides, c->in[1]->data, bias, c->out[0]->data, c->workspace, c->pool);
    return NC_OK;
}

/* By the node alone, not by sizes that only a run brings. */
static bool over_blocks(const nc_conv_transpose *t, const nck_conv_shape *s) {
    return t->attrs.n_spatial <= 2 && nck_conv_back_takes(s);
}

static nck_conv_back back_of(const nc_conv_transpose *t, const nck_conv_shape *s) {
    return (nck_conv_back){.shape = *s, .winograd = !t->no_winograd};
}

size_t nc_conv_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    nck_conv_shape s = nc_conv_shape_of(state, &in[1], &in[2], &in[0]);
    (void)n_in;
    (void)out;
    (void)n_out;
    if (!over_blocks(state, &s)) return nck_conv_cols_workspace(&s);
    nck_conv_back b = back_of(state, &s);
    return nc_max_size(nck_conv_back_dx_workspace(&b), nck_conv_back_dw_workspace(&b));
}

static void run_dx(const nc_call *c, const nck_conv_shape *s) {
    const void *dy = c->in[0]->data, *w = c->in[2]->data;
    nck_conv_back b = back_of(c->state, s);
    if (over_blocks(c->state, s))
        nck_conv_back_dx(&b, dy, w, c->out[0]->data, c->workspace, c->pool);
    else
        nck_conv_cols_dx(s, dy, w, NULL, c->out[0]->data, c->workspace, c->pool);
}

static void run_dw(const nc_call *c, const nck_conv_shape *s) {
    const void *dy = c->in[0]->data, *x = c->in[1]->data;
    nck_conv_back b = back_of(c->state, s);
    if (over_blocks(c->state, s))
        nck_conv_back_dw(&b, x, dy, c->out[1]->data, c->workspace, c->pool);
    else
        nck_conv_cols_dw(s, x, dy, c->out[1]->data, c->workspace, c->pool);
}

nc_code nc_conv_grad_run(const nc_call *c) {
    const nc_tensor *dy = c->in[0], *x = c->in[1], *w = c->in[2];
    nck_conv_shape s = nc_conv_shape_of(c->state, x, w, dy);
    NC_TRY(nc_conv_check_channels(c, &s, x->dims[1], s.C));
    NC_TRY(nc_conv_check_places(c, &s.w));
    if (c->out[0]->data != NULL) run_dx(c, &s);
    if (c->n_out > 1 && c->out[1]->data != NULL) run_dw(c, &s);
    if (c->n_out > 2 && c->out[2]->data != NULL)
        nck_conv_sum_places(s.type, s.N, s.K, nck_window_n_out(&s.w), dy->data, c->out[2]->data, c->pool);
    return NC_OK;
}

/* ---- transposed ---- */

/* Is X one place, under a window that is the whole of Y? Then Y is a row of X's channels times the weight. */
static bool is_product(const nck_conv_shape *s) {
    const nck_window *w = &s->w;
    bool one = s->group == 1;
    for (int d = 0; d < NCK_WINDOW_DIMS; d++)
        one = one && w->out[d] == 1 && w->pad[d] == 0 && w->in[d] == w->k[d] && (w->dil[d] == 1 || w->k[d] == 1);
    return one;
}

size_t nc_conv_transpose_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    nck_conv_shape s = nc_conv_transposed_shape(state, &in[0], &in[1], &out[0]);
    (void)n_in;
    (void)n_out;
    size_t product = nck_gemm_workspace(s.type, s.N, s.C * nck_window_n_k(&s.w), s.K, false);
    return nc_max_size(nck_conv_cols_workspace(&s), product);
}

static void run_product(const nc_call *c, const nck_conv_shape *s, const void *bias) {
    int64_t taps = nck_window_n_k(&s->w), n = s->C * taps;
    int64_t dims[] = {s->N, s->C, taps}, from[] = {0, 1, 0}, to[] = {n, taps, 1};
    if (bias != NULL) nck_copy(3, dims, nc_dtype_bytes(s->type), bias, from, c->out[0]->data, to, c->pool);
    nck_gemm(&(nck_gemm_args){.type = s->type,
                              .M = s->N,
                              .N = n,
                              .K = s->K,
                              .alpha = 1,
                              .beta = bias != NULL,
                              .a = c->in[0]->data,
                              .a_rs = s->K,
                              .a_cs = 1,
                              .b = c->in[1]->data,
                              .b_rs = n,
                              .b_cs = 1,
                              .c = c->out[0]->data,
                              .c_rs = n,
                              .c_cs = 1},
             c->workspace, c->pool);
}

nc_code nc_conv_transpose_run(const nc_call *c) {
    nck_conv_shape s = nc_conv_transposed_shape(c->state, c->in[0], c->in[1], c->out[0]);
    const void *bias = c->n_in > 2 ? c->in[2]->data : NULL;
    NC_TRY(nc_conv_check_channels(c, &s, c->in[0]->dims[1], s.K));
    NC_TRY(nc_conv_check_bias(c, s.C));
    if (is_product(&s))
        run_product(c, &s, bias);
    else
        nck_conv_cols_dx(&s, c->in[0]->data, c->in[1]->data, bias, c->out[0]->data, c->workspace, c->pool);
    return NC_OK;
}

size_t nc_conv_transpose_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                        int n_out) {
    nck_conv_shape s = nc_conv_transposed_shape(state, &in[1], &in[2], &in[0]);
    (void)n_in;
    (void)out;
    (void)n_out;
    return nck_conv_cols_workspace(&s);
}

nc_code nc_conv_transpose_grad_run(const nc_call *c) {
    const nc_tensor *dy = c->in[0], *x = c->in[1], *w = c->in[2];
    nck_conv_shape s = nc_conv_transposed_shape(c->state, x, w, dy);
    int64_t strides[5];
    NC_TRY(nc_conv_check_channels(c, &s, x->dims[1], s.K));
    strides_of(dy, strides);
    if (c->out[0]->data != NULL && nc_tensor_numel(x) > 0)
        nck_conv_cols(&s, dy->data, strides, w->data, NULL, c->out[0]->data, c->workspace, c->pool);
    if (c->n_out > 1 && c->out[1]->data != NULL)
        nck_conv_cols_dw(&s, dy->data, x->data, c->out[1]->data, c->workspace, c->pool);
    if (c->n_out > 2 && c->out[2]->data != NULL)
        nck_conv_sum_places(s.type, s.N, s.C, nck_window_n_in(&s.w), dy->data, c->out[2]->data, c->pool);
    return NC_OK;
}
