/* ops/quant/linear_parts.c: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear in simple ops, for devices
 * without a kernel for them. Codes of 8, 16 and 32 bits with scales of f32, one for all or one for each index of an
 * axis, count in float and integers; all others (blocks, narrow codes, other scales) in double, as the CPU's kernel.
 * A zero point of float8 must be 0: where that is not known, nacre.AtZero looks at it, whose card is here. */
#include "ops/build.h"
#include "ops/contrib.h"
#include "ops/quant/quant.h"

#define T_SHORT (T_BYTE | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16))

static int64_t axis_of(const nc_node *n) {
    int64_t axis = nc_contrib_int(n, "axis", 1);
    return axis < 0 ? axis + n->in[0]->type->rank : axis;
}

/* What scales and zero points along the axis are reshaped to. */
static nc_code along(nc_builder *b, const nc_node *n, int64_t shape[NC_MAX_RANK]) {
    const nc_type *x = n->in[0]->type, *scale = n->in[1]->type;
    if (x == NULL || x->rank < 0 || scale == NULL || scale->rank < 0 || n->out[0]->type == NULL)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis_of(n) ? -1 : 1;
    return NC_OK;
}

static bool is_zero(const nc_value *v) {
    const nc_literal *l = v->origin == NC_FROM_CONST && !v->var ? v->lit : NULL;
    for (size_t i = 0; l != NULL && i < l->bytes; i++)
        if (((const unsigned char *)l->data)[i] != 0) return false;
    return l != NULL;
}

/* The scale, and the zero point, where there is one to reckon with. */
static nc_code scale_and_zero(nc_builder *b, const nc_node *n, nc_value **scale, nc_value **zero) {
    nc_value *v = nc_contrib_in(n, 2);
    nc_dtype t = v != NULL && v->type != NULL ? v->type->elem : NC_UNDEFINED;
    bool float8 = nc_dtype_class(t) == 'N' && nc_dtype_bits(t) == 8;
    *scale = n->in[1];
    if (float8 && !is_zero(v)) *scale = nc_build_attr1(b, "nacre", "AtZero", (nc_value *[]){n->in[1], v}, 2, NULL, 0);
    *zero = float8 ? NULL : v;
    return b->code;
}

/* Scales of float that are not in blocks. */
static bool is_plain(const nc_node *n) {
    const nc_type *scale = n->in[1]->type;
    return scale->elem == NC_FLOAT && scale->rank <= 1 && nc_contrib_int(n, "block_size", 0) == 0;
}

/* Scales or zero points v as doubles that lie along x. */
static nc_value *wide_along(nc_builder *b, const nc_node *n, nc_value *v, const int64_t *shape) {
    int64_t block = nc_contrib_int(n, "block_size", 0), axis = axis_of(n);
    nc_attr at = {.name = "axis", .kind = NC_A_INT, .i = axis};
    nc_value *wide = nc_build_cast(b, v, NC_DOUBLE), *x = n->in[0];
    if (block == 0) return nc_quant_spread(b, wide, shape, x->type->rank);
    nc_value *size = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, axis));
    nc_value *i = nc_build1(b, "Range", 3, nc_build_int(b, 0), size, nc_build_int(b, 1));
    nc_value *in[2] = {wide, nc_build1(b, "Div", 2, i, nc_build_int(b, block))};
    return nc_build_attr1(b, "", "Gather", in, 2, &at, 1);
}

static nc_code dequantize_wide(nc_builder *b, const nc_node *n, const int64_t *shape, nc_value *scale, nc_value *zero,
                               nc_value **out) {
    nc_value *x = nc_build_cast(b, n->in[0], NC_DOUBLE);
    if (zero != NULL) x = nc_build1(b, "Sub", 2, x, wide_along(b, n, zero, shape));
    scale = nc_build_cast(b, wide_along(b, n, scale, shape), NC_FLOAT);
    out[0] = nc_build_cast(b, nc_build1(b, "Mul", 2, nc_build_cast(b, x, NC_FLOAT), scale), n->out[0]->type->elem);
    return b->code;
}

nc_code nc_dequantize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t shape[NC_MAX_RANK];
    nc_value *x = n->in[0], *scale, *zero;
    NC_TRY(along(b, n, shape));
    NC_TRY(scale_and_zero(b, n, &scale, &zero));
    int rank = x->type->rank;
    if (!is_plain(n) || !(NC_BIT(x->type->elem) & (T_SHORT | NC_BIT(NC_INT32))) || n->out[0]->type->elem != NC_FLOAT)
        return dequantize_wide(b, n, shape, scale, zero, out);
    x = nc_build_cast(b, x, NC_INT32);
    if (zero != NULL) x = nc_build1(b, "Sub", 2, x, nc_build_cast(b, nc_quant_spread(b, zero, shape, rank), NC_INT32));
    if (b->code != NC_OK) return b->code;
    out[0] = nc_build1(b, "Mul", 2, nc_build_cast(b, x, NC_FLOAT), nc_quant_spread(b, scale, shape, rank));
    return b->code;
}

/* The ends of a code's type. */
static nc_value *end_of(nc_builder *b, nc_dtype wide, nc_dtype t, bool most) {
    bool is_signed = nc_dtype_class(t) == 'I';
    double codes = (double)((int64_t)1 << nc_dtype_bits(t));
    double low = is_signed ? -codes / 2 : 0;
    return nc_build_scalar(b, wide, most ? low + codes - 1 : low);
}

/* The quotient has the type of the scale, unless `precision` says otherwise; scales that are integers or powers of two
 * have no type to divide in. bfloat16 is rounded from float. */
static nc_value *in_precision(nc_builder *b, const nc_node *n, nc_value *q) {
    nc_dtype scale = n->in[1]->type->elem, t = (nc_dtype)nc_contrib_int(n, "precision", 0);
    if (t == NC_UNDEFINED) t = nc_dtype_is_float(scale) ? scale : scale == NC_INT32 ? NC_DOUBLE : NC_FLOAT;
    if (t == NC_BFLOAT16) q = nc_build_cast(b, q, NC_FLOAT);
    return nc_build_cast(b, nc_build_cast(b, q, t), NC_DOUBLE);
}

/* The nearest whole number; 0 for NaN, as the CPU's kernel has it. */
static nc_value *whole_of(nc_builder *b, nc_value *q, nc_dtype t) {
    nc_value *round = nc_build_newest1(b, "Round", &q, 1, NULL, 0), *nan = nc_build_newest1(b, "IsNaN", &q, 1, NULL, 0);
    return nc_build1(b, "Where", 3, nan, nc_build_scalar(b, t, 0), round);
}

static nc_code quantize_wide(nc_builder *b, const nc_node *n, const int64_t *shape, nc_value *scale, nc_value *zero,
                             nc_value **out) {
    nc_dtype t = n->out[0]->type->elem;
    bool whole = nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U';
    nc_value *x = nc_build_cast(b, n->in[0], NC_DOUBLE);
    nc_value *q = in_precision(b, n, nc_build1(b, "Div", 2, x, wide_along(b, n, scale, shape)));
    if (whole) q = whole_of(b, q, NC_DOUBLE);
    if (zero != NULL) q = nc_build1(b, "Add", 2, q, wide_along(b, n, zero, shape));
    if (whole)
        q = nc_build1(b, "Min", 2, nc_build1(b, "Max", 2, q, end_of(b, NC_DOUBLE, t, false)),
                      end_of(b, NC_DOUBLE, t, true));
    nc_attr attrs[2] = {{.name = "to", .kind = NC_A_INT, .i = t},
                        {.name = "saturate", .kind = NC_A_INT, .i = nc_contrib_int(n, "saturate", 1)}};
    out[0] = nc_build_newest1(b, "Cast", &q, 1, attrs, 2);
    return b->code;
}

nc_code nc_quantize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t shape[NC_MAX_RANK], precision = nc_contrib_int(n, "precision", 0);
    nc_value *x = n->in[0], *scale, *zero;
    NC_TRY(along(b, n, shape));
    NC_TRY(scale_and_zero(b, n, &scale, &zero));
    int rank = x->type->rank;
    nc_dtype t = n->out[0]->type->elem;
    if (!is_plain(n) || x->type->elem != NC_FLOAT || !(NC_BIT(t) & T_SHORT) ||
        (precision != 0 && precision != NC_FLOAT))
        return quantize_wide(b, n, shape, scale, zero, out);
    nc_value *y = nc_build1(b, "Div", 2, x, nc_quant_spread(b, scale, shape, rank));
    y = whole_of(b, y, NC_FLOAT);
    if (zero != NULL) y = nc_build1(b, "Add", 2, y, nc_build_cast(b, nc_quant_spread(b, zero, shape, rank), NC_FLOAT));
    y = nc_build1(b, "Min", 2, nc_build1(b, "Max", 2, y, end_of(b, NC_FLOAT, t, false)), end_of(b, NC_FLOAT, t, true));
    if (b->code != NC_OK) return b->code;
    y = nc_build_cast(b, y, NC_INT64); /* whole numbers, and within the type */
    if (b->code == NC_OK) out[0] = nc_build_cast(b, y, t);
    return b->code;
}

/* The smallest or largest element and 0. */
static nc_value *end_with_zero(nc_builder *b, nc_value *x, const char *reduce, const char *join) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    return nc_build1(b, join, 2, nc_build_attr1(b, "", reduce, &x, 1, &keep, 1), nc_build_scalar(b, NC_FLOAT, 0));
}

nc_code nc_dynamic_quantize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *zero = nc_build_scalar(b, NC_FLOAT, 0), *most = nc_build_scalar(b, NC_FLOAT, 255);
    nc_value *low = end_with_zero(b, x, "ReduceMin", "Min"), *high = end_with_zero(b, x, "ReduceMax", "Max");
    nc_value *step = nc_build1(b, "Div", 2, nc_build1(b, "Sub", 2, high, low), most);
    nc_value *scale =
        nc_build1(b, "Where", 3, nc_build1(b, "Equal", 2, low, high), nc_build_scalar(b, NC_FLOAT, 1), step);
    nc_value *at = nc_build1(b, "Sub", 2, zero, nc_build1(b, "Div", 2, low, scale));
    at = nc_build1(b, "Min", 2, nc_build1(b, "Max", 2, at, zero), most);
    nc_value *code = nc_build_cast(b, nc_build1(b, "Round", 1, at), NC_UINT8);
    if (n->n_out > 0 && n->out[0] != NULL) out[0] = nc_build1(b, "QuantizeLinear", 3, x, scale, code);
    if (n->n_out > 1) out[1] = scale;
    if (n->n_out > 2) out[2] = code;
    return b->code;
}

static nc_code at_zero_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static const nc_op_version at_zero_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL | NC_BIT(NC_FLOAT8E8M0)}, {"zero", T_F8}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_at_zero = {.name = "AtZero",
                                 .domain = "nacre",
                                 .doc = "X, if all of zero, as many codes of float8, are 0; else an error.",
                                 .versions = at_zero_versions,
                                 .infer = at_zero_infer,
                                 .zero_grad = true};
