/* ops/quant/qconv_cpu.c: ConvInteger and QLinearConv on the CPU, any number of spatial dims. QLinearConv keeps the
 * int32 sums in the workspace and quantizes them again, one image and channel at a time. */
#include "base/intmath.h"
#include "kernels/cpu/quant/linear.h"
#include "kernels/cpu/quant/qconv.h"
#include "ops/nn/conv.h"
#include "ops/quant/quant.h"

enum { MAX_IN = 9 };

typedef struct qconv {
    nc_conv_attrs attrs;
    bool linear;
} qconv;

static bool is_window(const nc_type *w, const char **why) {
    *why = "the weight's rank is not known";
    return w != NULL && w->rank >= 3;
}

bool nc_conv_integer_fits(const nc_node *n, const char **why) { return is_window(n->in[1]->type, why); }
bool nc_qlinear_conv_fits(const nc_node *n, const char **why) { return is_window(n->in[3]->type, why); }

nc_code nc_qconv_prepare(nc_prep *p) {
    qconv *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->linear = *(const nc_quant_row *)p->own == NC_QUANT_LINEAR;
    p->state = s;
    return nc_conv_read_attrs(p->w, p->node, p->node->in[s->linear ? 3 : 1]->type->rank - 2, &s->attrs);
}

static nck_qconv_args args_of(const qconv *s, nc_tensor *const *in, int n_in, const nc_tensor *y) {
    const nc_conv_attrs *t = &s->attrs;
    const nc_tensor *x = in[0], *w = in[s->linear ? 3 : 1];
    int i_xz = 2, i_wz = s->linear ? 5 : 3;
    nck_qconv_args a = {.n_spatial = t->n_spatial,
                        .N = x->dims[0],
                        .C = x->dims[1],
                        .K = w->dims[0],
                        .group = t->group,
                        .x_type = x->dtype,
                        .w_type = w->dtype,
                        .x = x->data,
                        .w = w->data,
                        .x_zero = i_xz < n_in ? in[i_xz]->data : NULL,
                        .w_zero = i_wz < n_in ? in[i_wz]->data : NULL};
    a.w_zeros = a.w_zero ? nc_tensor_numel(in[i_wz]) : 1;
    for (int d = 0; d < t->n_spatial; d++) {
        int64_t end;
        a.in[d] = x->dims[2 + d], a.out[d] = y->dims[2 + d], a.window[d] = w->dims[2 + d];
        a.stride[d] = t->strides[d], a.dilation[d] = t->dilations[d];
        nc_window_pads(t, d, a.in[d], a.window[d], &a.pad[d], &end);
    }
    return a;
}

static size_t sums_bytes(const qconv *s, const nc_tensor *y) {
    return s->linear ? nc_align64((size_t)nc_tensor_numel(y) * sizeof(int32_t)) : 0;
}

size_t nc_qconv_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const qconv *s = state;
    (void)n_out;
    nc_tensor *p[MAX_IN];
    nck_qconv_args a = args_of(s, nc_tensor_pointers(p, in, n_in < MAX_IN ? n_in : MAX_IN), n_in, out);
    return sums_bytes(s, out) + nck_qconv_workspace(&a);
}

static nc_code qconv_wrong(const nc_call *c, const char *what, int64_t got, int64_t expected) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s is %lld, expected %lld", what, (long long)got,
                       (long long)expected);
}

static nc_code qconv_check(const nc_call *c, const qconv *s, const nck_qconv_args *a) {
    const nc_tensor *w = c->in[s->linear ? 3 : 1];
    if (a->C != w->dims[1] * a->group) return qconv_wrong(c, "the number of x's channels", a->C, w->dims[1] * a->group);
    if (a->K % a->group != 0) return qconv_wrong(c, "the rest of output channels over groups", a->K % a->group, 0);
    if (a->w_zeros != 1 && a->w_zeros != a->K) return qconv_wrong(c, "the number of w's zero points", a->w_zeros, a->K);
    for (int d = 0; d < a->n_spatial; d++) {
        int64_t begin, end;
        nc_window_pads(&s->attrs, d, a->in[d], a->window[d], &begin, &end);
        int64_t fits = nck_window_out(a->in[d], a->window[d], a->stride[d], a->dilation[d], begin + end);
        if (a->out[d] != fits) return qconv_wrong(c, "a dim of the output", a->out[d], fits);
    }
    if (!s->linear) return NC_OK;
    int64_t scales = nc_tensor_numel(c->in[4]), bias = c->n_in > 8 && c->in[8]->data ? nc_tensor_numel(c->in[8]) : a->K;
    if (scales != 1 && scales != a->K) return qconv_wrong(c, "the number of w's scales", scales, a->K);
    return bias != a->K ? qconv_wrong(c, "the number of biases", bias, a->K) : NC_OK;
}

typedef struct planes {
    const nc_call *c;
    int64_t K, n;
    int32_t *sums; /* (images, K, n) */
} planes;

static void plane_item(void *ctx, int64_t item) {
    const planes *p = ctx;
    nc_tensor *const *in = p->c->in;
    const nc_tensor *y = p->c->out[0];
    int64_t k = item % p->K;
    const float *w_scale = in[4]->data;
    float scale = *(const float *)in[1]->data * w_scale[nc_tensor_numel(in[4]) > 1 ? k : 0] / *(float *)in[6]->data;
    int zero = y->dtype == NC_INT8 ? *(const int8_t *)in[7]->data : *(const uint8_t *)in[7]->data;
    int32_t *sums = p->sums + item * p->n;
    if (p->c->n_in > 8 && in[8]->data) {
        uint32_t bias = (uint32_t)((const int32_t *)in[8]->data)[k];
        for (int64_t i = 0; i < p->n; i++) sums[i] = (int32_t)((uint32_t)sums[i] + bias);
    }
    nck_requantize(sums, p->n, (double)scale, zero, y->dtype, (char *)y->data + item * p->n);
}

nc_code nc_qconv_run(const nc_call *c) {
    const qconv *s = c->state;
    const nc_tensor *y = c->out[0];
    nck_qconv_args a = args_of(s, c->in, c->n_in, y);
    NC_TRY(qconv_check(c, s, &a));
    if (nc_tensor_numel(y) == 0) return NC_OK;
    a.y = s->linear ? c->workspace : y->data;
    nck_qconv(&a, (char *)c->workspace + sums_bytes(s, y), c->pool);
    if (!s->linear) return NC_OK;
    planes p = {.c = c, .K = a.K, .n = nc_tensor_numel(y) / (a.N * a.K), .sums = a.y};
    nc_parallel(nc_pool_for(c->pool, nc_tensor_numel(y)), a.N * a.K, plane_item, &p);
    return NC_OK;
}
