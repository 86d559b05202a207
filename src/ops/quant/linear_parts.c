/* ops/quant/linear_parts.c: QuantizeLinear and DequantizeLinear in simple ops, for devices without a kernel for them:
 * codes of 8, 16 and 32 bits, scales of f32, one for all or one for each index of an axis. Other forms are refused. */
#include "ops/build.h"
#include "ops/contrib.h"
#include "ops/quant/quant.h"

#define T_SHORT (T_BYTE | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16))

/* What scales and zero points along the axis are reshaped to. */
static nc_code along(nc_builder *b, const nc_node *n, int64_t shape[NC_MAX_RANK]) {
    const nc_type *x = n->in[0]->type, *scale = n->in[1]->type;
    if (x == NULL || x->rank < 0 || scale == NULL || scale->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    if (scale->elem != NC_FLOAT || scale->rank > 1 || nc_contrib_int(n, "block_size", 0) != 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for scales of float that are not in blocks");
    int64_t axis = nc_contrib_int(n, "axis", 1);
    axis = axis < 0 ? axis + x->rank : axis;
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? -1 : 1;
    return NC_OK;
}

nc_code nc_dequantize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t shape[NC_MAX_RANK];
    nc_value *x = n->in[0], *zero = nc_contrib_in(n, 2);
    NC_TRY(along(b, n, shape));
    int rank = x->type->rank;
    if (!(NC_BIT(x->type->elem) & (T_SHORT | NC_BIT(NC_INT32))) || n->out[0]->type->elem != NC_FLOAT)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for codes of 8, 16 and 32 bits that become floats");
    x = nc_build_cast(b, x, NC_INT32);
    if (zero != NULL) x = nc_build1(b, "Sub", 2, x, nc_build_cast(b, nc_quant_spread(b, zero, shape, rank), NC_INT32));
    if (b->code != NC_OK) return b->code;
    out[0] = nc_build1(b, "Mul", 2, nc_build_cast(b, x, NC_FLOAT), nc_quant_spread(b, n->in[1], shape, rank));
    return b->code;
}

/* The ends of a code's type. */
static nc_value *end_of(nc_builder *b, nc_dtype t, bool most) {
    bool is_signed = nc_dtype_class(t) == 'I';
    double codes = (double)((int64_t)1 << nc_dtype_bits(t));
    double low = is_signed ? -codes / 2 : 0;
    return nc_build_scalar(b, NC_FLOAT, most ? low + codes - 1 : low);
}

nc_code nc_quantize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t shape[NC_MAX_RANK], precision = nc_contrib_int(n, "precision", 0);
    nc_value *x = n->in[0], *zero = nc_contrib_in(n, 2);
    NC_TRY(along(b, n, shape));
    int rank = x->type->rank;
    nc_dtype t = n->out[0]->type->elem;
    if (x->type->elem != NC_FLOAT || !(NC_BIT(t) & T_SHORT) || (precision != 0 && precision != NC_FLOAT))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for floats that become codes of 8 and 16 bits");
    nc_value *y = nc_build1(b, "Div", 2, x, nc_quant_spread(b, n->in[1], shape, rank));
    y = nc_build_newest1(b, "Round", &y, 1, NULL, 0);
    if (zero != NULL) y = nc_build1(b, "Add", 2, y, nc_build_cast(b, nc_quant_spread(b, zero, shape, rank), NC_FLOAT));
    y = nc_build1(b, "Min", 2, nc_build1(b, "Max", 2, y, end_of(b, t, false)), end_of(b, t, true));
    if (b->code != NC_OK) return b->code;
    y = nc_build_cast(b, y, NC_INT64); /* whole numbers, and within the type */
    if (b->code == NC_OK) out[0] = nc_build_cast(b, y, t);
    return b->code;
}
