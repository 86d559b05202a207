/* ops/quant/linear_grad.c: gradients of quantizing and back, straight through the rounding: y = s' (q - z') with
 * q = clamp(round(x / s) + z) counts as x / s + z inside the range of q, as a constant outside, so that
 *     dx = dy s'/s inside, 0 outside      ds' = sum dy (q - z')      ds = -sum dx x/s
 * Between the two passes dq s, the gradient in units of x, always in float. */
#include "ops/quant/linear_grad.h"

#include "base/narrow.h"
#include "ops/build.h"

#include <string.h>

static int64_t attr_or(const nc_node *n, const char *name, int64_t absent) {
    const nc_attr *a = nc_node_attr(n, name);
    return a != NULL ? a->i : absent;
}

/* (q - z) * s with the axis and the blocks of n. */
static nc_value *decode(nc_builder *b, const nc_node *n, nc_value *q, nc_value *s, nc_value *z) {
    nc_value *in[3] = {q, s, z};
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = attr_or(n, "axis", 1)},
                        {.name = "block_size", .kind = NC_A_INT, .i = attr_or(n, "block_size", 0)}};
    return nc_build_attr1(b, "", "DequantizeLinear", in, z != NULL ? 3 : 2, attrs, attrs[1].i > 0 ? 2 : 1);
}

/* A scale or zero point of n as floats that broadcast with x: it is what ones are decoded to by it. */
static nc_value *spread(nc_builder *b, const nc_node *n, nc_value *v, nc_value *x) {
    v = nc_build_cast(b, v, NC_FLOAT);
    if (b->code != NC_OK || (v->type != NULL && v->type->rank == 0)) return v;
    return decode(b, n, nc_build_expand_like(b, nc_build_scalar(b, NC_INT8, 1), x), v, NULL);
}

/* ---- sums over what one scale serves ---- */

static nc_value *sum_over(nc_builder *b, nc_value *v, int skip) {
    int64_t axes[NC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < v->type->rank; i++)
        if (i != skip) axes[n++] = i;
    return nc_build_reduce_sum(b, v, axes, n, false);
}

/* The axis filled up to whole blocks, cut into (blocks, block), and summed over the block. */
static nc_value *sum_blocks(nc_builder *b, nc_value *v, int axis, int64_t size, int64_t block) {
    int rank = v->type->rank;
    int64_t pads[2 * NC_MAX_RANK] = {0}, from[1] = {0}, at[1] = {axis}, behind[1] = {axis + 1}, end[1] = {INT64_MAX};
    int64_t blocks = (size + block - 1) / block, cut[2] = {blocks, block};
    pads[rank + axis] = blocks * block - size;
    if (pads[rank + axis] > 0) v = nc_build1(b, "Pad", 2, v, nc_build_ints(b, pads, 2 * rank));
    nc_value *shape = nc_build_shape(b, v), *parts[3];
    parts[0] = nc_build1(b, "Slice", 3, shape, nc_build_ints(b, from, 1), nc_build_ints(b, at, 1));
    parts[1] = nc_build_ints(b, cut, 2);
    parts[2] = nc_build1(b, "Slice", 3, shape, nc_build_ints(b, behind, 1), nc_build_ints(b, end, 1));
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0}, zero = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    nc_value *in[2] = {v, nc_build_attr1(b, "", "Concat", parts, 3, &first, 1)};
    return nc_build_reduce_sum(b, nc_build_attr1(b, "", "Reshape", in, 2, &zero, 1), behind, 1, false);
}

/* v, of the dims of x, summed to the dims of n's scale, in its type. */
static nc_value *sum_to_scale(nc_builder *b, const nc_node *n, nc_value *v) {
    const nc_type *s = n->in[1]->type;
    int64_t size = 0, block = attr_or(n, "block_size", 0), axis = attr_or(n, "axis", 1);
    if (b->code != NC_OK) return NULL;
    bool known = s != NULL && s->rank >= 0 && v->type != NULL && v->type->rank >= 0;
    if (!known) {
        b->code =
            nc_fail(b->w, NC_E_UNSUPPORTED, "the gradient of the scale needs ranks that are known before the run");
        return NULL;
    }
    if (s->rank == 0) return nc_build_cast(b, sum_over(b, v, -1), s->elem);
    if (axis < 0) axis += v->type->rank;
    const nc_dim *along = axis < v->type->rank ? v->type->dims[axis] : NULL;
    int64_t one[1] = {1};
    nc_value *sum = NULL;
    if (block > 0 && along != NULL && nc_dim_is_const(along, &size))
        sum = sum_blocks(b, v, (int)axis, size, block);
    else if (block == 0 && nc_dim_is_const(s->dims[0], &size) && size == 1)
        sum = nc_build1(b, "Reshape", 2, sum_over(b, v, -1), nc_build_ints(b, one, 1));
    else if (block == 0 && along == s->dims[0])
        sum = sum_over(b, v, (int)axis);
    else
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED,
                          "the gradient of the scale needs its size, and that of the axis, before the run");
    return nc_build_cast(b, sum, s->elem);
}

/* ---- DequantizeLinear ---- */

/* The scale of the op that made the codes. */
static nc_value *coded_by(const nc_node *coder) { return coder->n_in > 1 ? coder->in[1] : coder->out[1]; }

static bool same_constant(const nc_literal *a, const nc_literal *b) {
    return a != NULL && b != NULL && a->dtype == b->dtype && a->n == b->n && a->bytes == b->bytes &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

static bool same_scale(const nc_node *n, const nc_node *coder) {
    const nc_value *a = n->in[1], *b = coded_by(coder);
    if (b == NULL || (a != b && !same_constant(a->lit, b->lit))) return false;
    bool one = a->type != NULL && a->type->rank == 0;
    return one || (attr_or(n, "axis", 1) == attr_or(coder, "axis", 1) &&
                   attr_or(n, "block_size", 0) == attr_or(coder, "block_size", 0));
}

static nc_value *to_codes(nc_grad *g, nc_value *dy) {
    const nc_node *n = g->node, *coder = n->in[0]->def;
    nc_value *theirs = coded_by(coder);
    if (same_scale(n, coder)) return dy;
    if (theirs == NULL) {
        g->b->code = nc_fail(g->b->w, NC_E_UNSUPPORTED, "%s '%s' leaves its scale out, which the gradient needs",
                             coder->card->name, coder->name);
        return NULL;
    }
    nc_value *up = nc_build1(g->b, "Mul", 2, dy, spread(g->b, n, nc_grad_x(g, 1), dy));
    nc_value *s = g->b->code == NC_OK ? g->forward(g, theirs) : NULL;
    return s != NULL ? nc_build1(g->b, "Div", 2, up, spread(g->b, coder, s, dy)) : NULL;
}

nc_code nc_dequantize_grad(nc_grad *g) {
    nc_builder *b = g->b;
    if (nc_grad_dy(g, 0) == NULL) return NC_OK;
    nc_value *dy = nc_build_cast(b, nc_grad_dy(g, 0), NC_FLOAT);
    if (g->wants[0]) nc_grad_set(g, 0, to_codes(g, dy));
    if (g->wants[1]) {
        nc_value *ones = nc_build_expand_like(b, nc_build_scalar(b, NC_FLOAT, 1), nc_grad_like(g, 1));
        nc_value *steps = decode(b, g->node, nc_grad_x(g, 0), ones, nc_grad_x(g, 2));
        nc_grad_set(g, 1, sum_to_scale(b, g->node, nc_build1(b, "Mul", 2, dy, steps)));
    }
    return nc_grad_end(g);
}

/* ---- QuantizeLinear ---- */

static bool is_whole(nc_dtype t) { return nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U'; }

static void range_of(nc_dtype t, double *low, double *high) {
    double span = (double)((uint64_t)1 << nc_dtype_bits(t));
    nc_narrowing saturating = {.saturate = true};
    if (nc_dtype_class(t) == 'U')
        *low = 0, *high = span - 1;
    else if (nc_dtype_class(t) == 'I')
        *low = -span / 2, *high = span / 2 - 1;
    else
        *high = (double)nc_narrow_to_f32(t, nc_f64_to_narrow(t, 1e30, saturating)), *low = -*high;
}

/* The type in which the kernel divides. */
static nc_dtype divides_in(const nc_node *n) {
    nc_dtype precision = (nc_dtype)attr_or(n, "precision", 0), scale = n->in[1]->type->elem;
    if (precision != NC_UNDEFINED) return precision;
    return nc_dtype_is_float(scale) ? scale : scale == NC_INT32 ? NC_DOUBLE : NC_FLOAT;
}

/* True where x / s + z, rounded as it is, needs no clamping. */
static nc_value *inside(nc_grad *g, nc_value *x, nc_value *s) {
    nc_builder *b = g->b;
    nc_dtype code = g->node->out[0]->type->elem, wide = divides_in(g->node);
    double low, high;
    range_of(code, &low, &high);
    nc_value *r = nc_build1(b, "Div", 2, nc_build_cast(b, x, wide), nc_build_cast(b, s, wide));
    if (is_whole(code)) r = nc_build1(b, "Round", 1, r);
    r = nc_build_cast(b, r, NC_FLOAT);
    nc_value *z = nc_grad_x(g, 2);
    if (z != NULL) r = nc_build1(b, "Add", 2, r, spread(b, g->node, z, x));
    nc_value *above = nc_build1(b, "GreaterOrEqual", 2, r, nc_build_scalar(b, NC_FLOAT, low));
    return nc_build1(b, "And", 2, above, nc_build1(b, "LessOrEqual", 2, r, nc_build_scalar(b, NC_FLOAT, high)));
}

nc_code nc_quantize_grad(nc_grad *g) {
    nc_builder *b = g->b;
    nc_value *dq = nc_grad_dy(g, 0), *x = nc_grad_x(g, 0);
    if (dq == NULL) return NC_OK;
    nc_value *s = spread(b, g->node, nc_grad_x(g, 1), x);
    NC_TRY(b->code);
    nc_value *dx = nc_build1(b, "Where", 3, inside(g, x, s), dq, nc_build_scalar(b, NC_FLOAT, 0));
    if (g->wants[0]) nc_grad_set(g, 0, nc_build_cast(b, dx, x->type->elem));
    if (g->wants[1]) {
        nc_value *steps = nc_build1(b, "Div", 2, nc_build_cast(b, x, NC_FLOAT), s);
        nc_value *ds = sum_to_scale(b, g->node, nc_build1(b, "Mul", 2, dx, steps));
        nc_grad_set(g, 1, nc_build1(b, "Neg", 1, ds));
    }
    return nc_grad_end(g);
}

/* The range is that of x itself, so nothing is clamped; for the codes the scale counts as a constant. */
nc_code nc_dynamic_quantize_grad(nc_grad *g) {
    if (nc_grad_dy(g, 0) == NULL && nc_grad_dy(g, 1) != NULL)
        NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "y_scale is used without y: a scale found from x has no gradient");
    nc_grad_set(g, 0, nc_grad_dy(g, 0));
    return nc_grad_end(g);
}
