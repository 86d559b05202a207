/* ops/quant/qconv_cpu.c: ConvInteger, its sums as numbers, and QLinearConv on the CPU, also added to other codes, any
 * number of spatial dims. Constant weights are packed once. */
#include "base/mem.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/qconv.h"
#include "ops/nn/conv.h"
#include "ops/quant/quant.h"

#include <math.h>

enum { OTHER = 8, OTHER_SCALE, OTHER_ZERO, SUM_SCALE, SUM_ZERO, SUM_BIAS, MAX_IN }; /* of QLinearConvAdd */

typedef struct qconv {
    nc_conv_attrs attrs;
    bool linear, numbers, packed, sum, last; /* last: channels of x and y come last */
    int i_w, i_xz, i_wz, i_bias;             /* inputs */
    bool clamps;                             /* numbers */
    float low, high;
} qconv;

static bool is_window(const nc_type *w, const char **why) {
    *why = "the weight's rank is not known";
    return w != NULL && w->rank >= 3;
}

bool nc_conv_integer_fits(const nc_node *n, const char **why) { return is_window(n->in[1]->type, why); }
bool nc_qlinear_conv_fits(const nc_node *n, const char **why) { return is_window(n->in[3]->type, why); }

bool nc_qlinear_conv_add_fits(const nc_node *n, const char **why) {
    if (!is_window(n->in[3]->type, why)) return false;
    *why = "it has groups";
    return nc_attr_int(n, "group") == 1;
}

/* What packing needs of weights (K, C/group, window...). */
static nck_qconv_args weights_of(const qconv *s, nc_dtype type, const int64_t *dims) {
    nck_qconv_args a = {.n_spatial = s->attrs.n_spatial, .group = s->attrs.group, .K = dims[0], .w_type = type};
    a.C = dims[1] * a.group;
    for (int d = 0; d < a.n_spatial; d++) {
        a.window[d] = dims[2 + d];
        a.stride[d] = s->attrs.strides[d], a.dilation[d] = s->attrs.dilations[d];
    }
    return a;
}

static nc_code qconv_fill(const void *state, const nc_tensor *src, void *dst) {
    nck_qconv_args a = weights_of(state, src->dtype, src->dims);
    void *room = nc_alloc(nck_qconv_pack_room(&a));
    if (room == NULL) return NC_E_MEMORY;
    a.w = src->data;
    nck_qconv_pack(&a, dst, room);
    nc_free(room);
    return NC_OK;
}

static nc_code qconv_ask_pack(nc_prep *p, qconv *s) {
    int input = s->i_w;
    const nc_value *w = p->node->in[input];
    const nc_literal *lit = w->origin == NC_FROM_CONST ? w->lit : NULL;
    if (p->no_packs || lit == NULL || lit->n == 0 || lit->dims[0] % s->attrs.group != 0) return NC_OK;
    nck_qconv_args a = weights_of(s, lit->dtype, lit->dims);
    int last = a.n_spatial - 1; /* what windows of one channel for each group are laid out by */
    const char *form =
        nc_arena_printf(p->arena, "qconv_w/3/%s/%s/%d/%lld/%lld", nck_isa_get()->from.igemm, nc_dtype_name(lit->dtype),
                        (int)s->attrs.group, (long long)a.stride[last], (long long)a.dilation[last]);
    NC_NEED(p->w, form);
    p->pack[p->n_packs++] =
        (nc_pack){.input = input, .form = form, .fill = qconv_fill, .bytes = nck_qconv_packed_bytes(&a)};
    s->packed = true;
    return NC_OK;
}

nc_code nc_qconv_prepare(nc_prep *p) {
    qconv *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nc_quant_row row = *(const nc_quant_row *)p->own;
    bool numbers = row == NC_QUANT_TO_FLOAT, linear = row != NC_QUANT_INTEGER && !numbers;
    *s = (qconv){.linear = linear,
                 .numbers = numbers,
                 .sum = row == NC_QUANT_LINEAR_SUM,
                 .last = numbers || row == NC_QUANT_LINEAR_SUM ||
                         (row == NC_QUANT_LINEAR_LAST && nc_attr_int(p->node, "channels_last") != 0),
                 .i_w = linear ? 3 : 1,
                 .i_xz = numbers ? 3 : 2,
                 .i_wz = linear    ? 5
                         : numbers ? 4
                                   : 3};
    s->i_bias = s->sum ? SUM_BIAS : linear ? 8 : 5;
    s->clamps = numbers && (nc_attr_has(p->node, "low") || nc_attr_has(p->node, "high"));
    s->low = s->clamps && nc_attr_has(p->node, "low") ? (float)nc_attr_float(p->node, "low") : -INFINITY;
    s->high = s->clamps && nc_attr_has(p->node, "high") ? (float)nc_attr_float(p->node, "high") : INFINITY;
    p->state = s;
    NC_TRY(nc_conv_read_attrs(p->w, p->node, p->node->in[s->i_w]->type->rank - 2, &s->attrs));
    return qconv_ask_pack(p, s);
}

static nck_qconv_args args_of(const qconv *s, nc_tensor *const *in, int n_in, const nc_tensor *y) {
    const nc_conv_attrs *t = &s->attrs;
    const nc_tensor *x = in[0], *w = in[s->i_w];
    int i_xz = s->i_xz, i_wz = s->i_wz;
    int first = s->last ? 1 : 2; /* of the dims that the window moves along */
    nck_qconv_args a = {.n_spatial = t->n_spatial,
                        .N = x->dims[0],
                        .C = x->dims[s->last ? x->rank - 1 : 1],
                        .last = s->last,
                        .y = {.type = y->dtype},
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
        a.in[d] = x->dims[first + d], a.out[d] = y->dims[first + d], a.window[d] = w->dims[2 + d];
        a.stride[d] = t->strides[d], a.dilation[d] = t->dilations[d];
        nc_window_pads(t, d, a.in[d], a.window[d], &a.pad[d], &end);
    }
    return a;
}

size_t nc_qconv_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const qconv *s = state;
    (void)n_out;
    nc_tensor *p[MAX_IN];
    nck_qconv_args a = args_of(s, nc_tensor_pointers(p, in, n_in < MAX_IN ? n_in : MAX_IN), n_in, out);
    return nck_qconv_workspace(&a, s->packed);
}

static nc_code qconv_wrong(const nc_call *c, const char *what, int64_t got, int64_t expected) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s is %lld, expected %lld", what, (long long)got,
                       (long long)expected);
}

/* Scales and zero points of x, y, the other codes and the sum are one number each. */
static nc_code qconv_check_ones(const nc_call *c, const qconv *s) {
    static const int all[] = {1, 2, 6, 7, OTHER_SCALE, OTHER_ZERO, SUM_SCALE, SUM_ZERO};
    const int *ones = s->linear ? all : &s->i_xz;
    for (int k = 0, n = s->sum ? 8 : s->linear ? 4 : 1; k < n; k++) {
        if (ones[k] >= c->n_in || (!s->linear && c->in[ones[k]]->data == NULL)) continue; /* x may have no zero point */
        int64_t found = nc_tensor_numel(c->in[ones[k]]);
        if (found != 1)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, expected 1", ones[k],
                               (long long)found);
    }
    return NC_OK;
}

static nc_code qconv_check(const nc_call *c, const qconv *s, const nck_qconv_args *a) {
    const nc_tensor *w = c->in[s->i_w];
    NC_TRY(qconv_check_ones(c, s));
    if (a->C != w->dims[1] * a->group) return qconv_wrong(c, "the number of x's channels", a->C, w->dims[1] * a->group);
    if (a->K % a->group != 0) return qconv_wrong(c, "the rest of output channels over groups", a->K % a->group, 0);
    if (a->w_zeros != 1 && a->w_zeros != a->K) return qconv_wrong(c, "the number of w's zero points", a->w_zeros, a->K);
    for (int d = 0; d < a->n_spatial; d++) {
        int64_t begin, end;
        nc_window_pads(&s->attrs, d, a->in[d], a->window[d], &begin, &end);
        int64_t fits = nck_window_out(a->in[d], a->window[d], a->stride[d], a->dilation[d], begin + end);
        if (a->out[d] != fits) return qconv_wrong(c, "a dim of the output", a->out[d], fits);
    }
    if (!s->linear && !s->numbers) return NC_OK;
    int64_t scales = nc_tensor_numel(c->in[s->linear ? 4 : 2]), y = nc_tensor_numel(c->out[0]);
    int64_t bias = c->n_in > s->i_bias && c->in[s->i_bias]->data ? nc_tensor_numel(c->in[s->i_bias]) : a->K;
    if (s->sum && nc_tensor_numel(c->in[OTHER]) != y)
        return qconv_wrong(c, "the number of codes to add", nc_tensor_numel(c->in[OTHER]), y);
    if (scales != 1 && scales != a->K) return qconv_wrong(c, "the number of w's scales", scales, a->K);
    return bias != a->K ? qconv_wrong(c, "the number of biases", bias, a->K) : NC_OK;
}

/* What becomes of the sums. */
static nck_igemm_out out_of(const nc_call *c, const qconv *s) {
    const nc_tensor *y = c->out[0];
    static const float one = 1;
    nck_igemm_out o = {.type = y->dtype, .c = y->data};
    if (s->numbers) {
        o.a_scale = &one, o.a_scales = 1;
        o.b_scale = c->in[2]->data, o.b_scales = nc_tensor_numel(c->in[2]);
        if (c->n_in > s->i_bias) o.bias = c->in[s->i_bias]->data;
        o.clamps = s->clamps, o.low = s->low, o.high = s->high;
    }
    if (!s->linear) return o;
    o.a_scale = c->in[1]->data, o.a_scales = 1;
    o.b_scale = c->in[4]->data, o.b_scales = nc_tensor_numel(c->in[4]);
    o.y_scale = *(const float *)c->in[6]->data;
    o.y_zero = y->dtype == NC_INT8 ? *(const int8_t *)c->in[7]->data : *(const uint8_t *)c->in[7]->data;
    if (c->n_in > s->i_bias) o.sum_bias = c->in[s->i_bias]->data;
    return o;
}

nc_code nc_qconv_run(const nc_call *c) {
    const qconv *s = c->state;
    nck_qconv_args a = args_of(s, c->in, c->n_in, c->out[0]);
    NC_TRY(qconv_check(c, s, &a));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    a.y = out_of(c, s);
    a.w_packed = s->packed ? c->packed[0] : NULL;
    nck_qconv_sum sum;
    if (s->sum) {
        nc_dtype type = c->out[0]->dtype;
        sum = (nck_qconv_sum){c->in[OTHER]->data, nc_quant_codes(c, type, 6), nc_quant_codes(c, type, OTHER_SCALE),
                              nc_quant_codes(c, type, SUM_SCALE)};
        a.sum = &sum;
    }
    nck_qconv(&a, c->workspace, c->pool);
    return NC_OK;
}
