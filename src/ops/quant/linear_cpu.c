/* ops/quant/linear_cpu.c: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear on the CPU. Scales and zero points
 * become doubles in the workspace; how they lie along x is found from the actual sizes. */
#include "base/intmath.h"
#include "base/narrow.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/quant/linear.h"
#include "ops/quant/quant.h"

typedef struct linear {
    int64_t axis, block; /* block 0: per tensor or per axis */
    nc_dtype precision;  /* UNDEFINED: by the scale */
    nc_narrowing how;
} linear;

static int64_t attr_or(const nc_node *n, const char *name, int64_t absent) {
    const nc_attr *a = nc_node_attr(n, name);
    return a != NULL ? a->i : absent;
}

nc_code nc_quantize_prepare(nc_prep *p) {
    linear *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (linear){.axis = attr_or(p->node, "axis", 1),
                  .block = attr_or(p->node, "block_size", 0),
                  .precision = (nc_dtype)attr_or(p->node, "precision", 0),
                  .how = {.saturate = attr_or(p->node, "saturate", 1) != 0, .round = NC_ROUND_UP}};
    p->state = s;
    return NC_OK;
}

size_t nc_quantize_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state;
    (void)n_in;
    (void)out;
    (void)n_out;
    return 2 * (size_t)nc_tensor_numel(&in[1]) * sizeof(double);
}

static nc_code linear_wrong(const nc_call *c, const char *what, int64_t got, int64_t expected) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s is %lld, expected %lld", what, (long long)got,
                       (long long)expected);
}

static nc_code lay_blocks(const nc_call *c, int axis, nck_linear *a) {
    const nc_tensor *x = c->in[0], *s = c->in[1];
    int64_t blocks = nc_ceil_div(x->dims[axis], a->block);
    for (int d = 0; d < x->rank; d++) {
        int64_t expected = d == axis ? blocks : x->dims[d];
        if (s->dims[d] != expected) return linear_wrong(c, "a dim of the scale", s->dims[d], expected);
    }
    a->s_inner = 1;
    a->s_axis = a->inner;
    a->s_outer = a->inner * blocks;
    return NC_OK;
}

/* How scale and zero point lie along x. */
static nc_code lay(const nc_call *c, nck_linear *a) {
    const linear *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t n = nc_tensor_numel(c->in[1]), axis = s->axis < 0 ? s->axis + x->rank : s->axis;
    *a = (nck_linear){.outer = 1, .axis = nc_tensor_numel(x), .inner = 1, .block = 1};
    if (n == 1) return NC_OK;
    if (axis < 0 || axis >= x->rank)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "axis is %lld, x has %d dims", (long long)s->axis,
                           x->rank);
    a->axis = x->dims[axis];
    for (int d = 0; d < x->rank; d++)
        if (d != axis) *(d < axis ? &a->outer : &a->inner) *= x->dims[d];
    a->block = s->block > 0 ? s->block : 1;
    if (s->block > 0) return lay_blocks(c, (int)axis, a);
    if (n != a->axis) return linear_wrong(c, "the number of scales", n, a->axis);
    a->s_axis = 1;
    return NC_OK;
}

static bool is_float8(nc_dtype t) { return nc_dtype_class(t) == 'N' && nc_dtype_bits(t) == 8; }

static nc_code not_zero(const nc_call *c, nc_dtype t, double zero) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "a zero point of %s is %g, expected 0", nc_dtype_name(t),
                       zero);
}

/* Reads scales and zero points into the workspace. */
static nc_code read_params(const nc_call *c, nck_linear *a) {
    bool has_zero = c->n_in > 2 && c->in[2]->data != NULL;
    int64_t n = nc_tensor_numel(c->in[1]);
    double *scale = c->workspace, *zero = scale + n;
    if (has_zero && nc_tensor_numel(c->in[2]) != n)
        return linear_wrong(c, "the number of zero points", nc_tensor_numel(c->in[2]), n);
    nc_tensor to;
    nc_tensor_copy(&to, c->in[1]);
    to.data = scale, to.dtype = NC_DOUBLE;
    NC_TRY(nck_convert(c->in[1], &to, c->pool));
    for (int64_t i = 0; i < n && !has_zero; i++) zero[i] = 0;
    if (has_zero) {
        nc_tensor_copy(&to, c->in[2]);
        to.data = zero, to.dtype = NC_DOUBLE;
        NC_TRY(nck_convert(c->in[2], &to, c->pool));
        for (int64_t i = 0; i < n && is_float8(c->in[2]->dtype); i++)
            if (zero[i] != 0) return not_zero(c, c->in[2]->dtype, zero[i]);
    }
    a->scale = scale;
    a->zero = zero;
    a->x_type = c->in[0]->dtype, a->y_type = c->out[0]->dtype;
    a->x = c->in[0]->data, a->y = c->out[0]->data;
    return NC_OK;
}

/* The quotient has the type of the scale, unless `precision` says otherwise; scales that are integers or powers of two
 * have no type to divide in. */
static nc_dtype precision_of(const linear *s, nc_dtype scale) {
    if (s->precision != NC_UNDEFINED) return s->precision;
    return nc_dtype_is_float(scale) ? scale : scale == NC_INT32 ? NC_DOUBLE : NC_FLOAT;
}

nc_code nc_quantize_run(const nc_call *c) {
    const linear *s = c->state;
    nck_linear a;
    NC_TRY(lay(c, &a));
    NC_TRY(read_params(c, &a));
    a.precision = precision_of(s, c->in[1]->dtype);
    a.how = s->how;
    nck_quantize(&a, c->pool);
    return NC_OK;
}

nc_code nc_dequantize_run(const nc_call *c) {
    nck_linear a;
    NC_TRY(lay(c, &a));
    NC_TRY(read_params(c, &a));
    nck_dequantize(&a, c->pool);
    return NC_OK;
}

nc_code nc_dynamic_quantize_run(const nc_call *c) {
    int64_t n = nc_tensor_numel(c->in[0]);
    float scale;
    uint8_t zero;
    nck_quantize_dynamic(c->in[0]->data, n, c->out[0]->data, &scale, &zero, c->pool);
    if (c->n_out > 1 && c->out[1]->data != NULL) *(float *)c->out[1]->data = scale;
    if (c->n_out > 2 && c->out[2]->data != NULL) *(uint8_t *)c->out[2]->data = zero;
    return NC_OK;
}

nc_code nc_at_zero_check(const nc_call *c) {
    int64_t n = nc_tensor_numel(c->in[0]), zeros = nc_tensor_numel(c->in[1]);
    return zeros == n ? NC_OK : linear_wrong(c, "the number of zero points", zeros, n);
}

nc_code nc_at_zero_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *zero = c->in[1];
    NC_TRY(nc_at_zero_check(c));
    for (int64_t i = 0, n = nc_tensor_numel(zero); i < n; i++) {
        float v = nc_narrow_to_f32(zero->dtype, ((const uint8_t *)zero->data)[i]);
        if (v != 0) return not_zero(c, zero->dtype, (double)v);
    }
    return nck_convert(x, c->out[0], c->pool);
}
