/* ops/quant/linear.c: cards of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. Scale and zero point are
 * one number, one per index of an axis, or (block_size) a tensor like x with the axis cut into blocks. What the actual
 * sizes must fulfil is checked by the kernels, linear_cpu.c. Gradients are in linear_grad.c. */
#include "ops/contrib.h"
#include "ops/quant/linear_grad.h"
#include "ops/quant/quant.h"

static nc_code type_attr(nc_infer *c, const char *name, nc_dtype *t) {
    const nc_attr *a = nc_node_attr(c->node, name);
    if (a == NULL || a->i == 0) return NC_OK;
    if (a->i < 0 || a->i >= NC_N_DTYPES) NC_FAIL(c->w, NC_E_TYPE, "%s is %lld, no type", name, (long long)a->i);
    *t = (nc_dtype)a->i;
    return NC_OK;
}

/* Scale and zero point against x, as far as ranks are known. */
static nc_code check_ranks(nc_infer *c) {
    int rx, rs, rz, axis;
    const nc_attr *block = nc_node_attr(c->node, "block_size"), *at = nc_node_attr(c->node, "axis");
    if (!nc_in_rank(c, 0, &rx) || !nc_in_rank(c, 1, &rs)) return NC_OK;
    if (block != NULL && block->i < 0) NC_FAIL(c->w, NC_E_BAD_GRAPH, "block_size is %lld", (long long)block->i);
    bool blocked = block != NULL && block->i > 0;
    if (blocked && rs != rx)
        NC_FAIL(c->w, NC_E_SHAPE, "the scale has %d dims, blocks of x with %d need as many", rs, rx);
    if (!blocked && rs > 1) NC_FAIL(c->w, NC_E_SHAPE, "the scale has %d dims, 0 or 1 are expected", rs);
    if (nc_in_rank(c, 2, &rz) && rz != rs && (rz > 1 || rs > 1))
        NC_FAIL(c->w, NC_E_SHAPE, "the zero point has %d dims, the scale %d", rz, rs);
    int64_t n = 0;
    bool one = rs == 0 || (rs == 1 && nc_dim_is_const(nc_in_dim(c, 1, 0), &n) && n == 1);
    if (one || (rs == 1 && n == 0)) return NC_OK;
    NC_TRY(nc_axis(c, at != NULL ? at->i : 1, rx, &axis));
    return blocked ? NC_OK : nc_in_expect(c, 1, 0, nc_in_dim(c, 0, axis));
}

static nc_code out_as_x(nc_infer *c, int i, nc_dtype t) {
    const nc_type *x = nc_in(c, 0);
    return x == NULL || x->rank < 0 ? nc_out_unknown(c, i, t, -1) : nc_out(c, i, t, x->rank, x->dims);
}

static nc_code quantize_infer(nc_infer *c) {
    const nc_type *zero = nc_in(c, 2);
    nc_dtype asked = NC_UNDEFINED, precision = NC_FLOAT;
    NC_TRY(type_attr(c, "output_dtype", &asked));
    NC_TRY(type_attr(c, "precision", &precision));
    if (precision != NC_FLOAT && precision != NC_FLOAT16 && precision != NC_BFLOAT16 && precision != NC_DOUBLE)
        NC_FAIL(c->w, NC_E_TYPE, "precision is %s, a float type is expected", nc_dtype_name(precision));
    nc_dtype t = zero != NULL ? zero->elem : asked != NC_UNDEFINED ? asked : NC_UINT8;
    if (asked != NC_UNDEFINED && asked != t)
        NC_FAIL(c->w, NC_E_TYPE, "output_dtype is %s, the zero point is %s", nc_dtype_name(asked), nc_dtype_name(t));
    if (!(c->node->version->out[0].types & NC_BIT(t)))
        NC_FAIL(c->w, NC_E_TYPE, "cannot quantize to %s", nc_dtype_name(t));
    NC_TRY(check_ranks(c));
    return out_as_x(c, 0, t);
}

static nc_code dequantize_infer(nc_infer *c) {
    const nc_type *scale = nc_in(c, 1);
    if (scale == NULL) return NC_OK;
    nc_dtype t = scale->elem;
    NC_TRY(type_attr(c, "output_dtype", &t));
    nc_types may = c->node->version->out[0].types; /* 0: that of the scale */
    if (may != 0 && !(may & NC_BIT(t))) NC_FAIL(c->w, NC_E_TYPE, "cannot dequantize to %s", nc_dtype_name(t));
    NC_TRY(check_ranks(c));
    return out_as_x(c, 0, t);
}

static nc_code dynamic_infer(nc_infer *c) {
    NC_TRY(out_as_x(c, 0, NC_UINT8));
    NC_TRY(nc_out(c, 1, NC_FLOAT, 0, NULL));
    return nc_out(c, 2, NC_UINT8, 0, NULL);
}

#define T_REAL (T_F32 | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
#define T_E8M0 NC_BIT(NC_FLOAT8E8M0)
#define T_Q19 (T_BYTE | T_F8)
#define T_Q21 (T_Q19 | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16) | T_INT4)
#define T_Q23 (T_Q21 | T_F4)
#define T_Q25 (T_Q23 | T_INT2)
#define T_Q28 (T_Q25 | T_F6)
#define AXIS A_INT("axis", 1)
#define SATURATE A_INT("saturate", 1)
#define Q(x, scale, y) IN({"x", x}, {"y_scale", scale}, {"y_zero_point", y, OPTIONAL}), OUT({"y", y})
#define Q_SAME(y) IN({"x", T_REAL | T_I32}, {"y_scale", SAME(0)}, {"y_zero_point", y, OPTIONAL}), OUT({"y", y})
#define Q_ATTR_21 AXIS, SATURATE, A_INT("block_size", 0), A_INT("output_dtype", 0)
#define Q_ATTR_23 ATTR(Q_ATTR_21, A_INT("precision", 0))
#define Q_SCALE (T_REAL | T_I32)
static const nc_op_version quantize_versions[] = {{.since = 28, Q(T_REAL | T_I32, Q_SCALE | T_E8M0, T_Q28), Q_ATTR_23},
                                                  {.since = 25, Q(T_REAL | T_I32, Q_SCALE | T_E8M0, T_Q25), Q_ATTR_23},
                                                  {.since = 24, Q(T_REAL | T_I32, Q_SCALE | T_E8M0, T_Q23), Q_ATTR_23},
                                                  {.since = 23, Q(T_REAL | T_I32, Q_SCALE, T_Q23), Q_ATTR_23},
                                                  {.since = 21, Q_SAME(T_Q21), ATTR(Q_ATTR_21)},
                                                  {.since = 19, Q_SAME(T_Q19), ATTR(AXIS, SATURATE)},
                                                  {.since = 13, Q(T_F32 | T_I32, T_F32, T_BYTE), ATTR(AXIS)},
                                                  {.since = 10, Q(T_F32 | T_I32, T_F32, T_BYTE), NO_ATTR},
                                                  {0}};

const nc_card nc_card_quantize_linear = {.name = "QuantizeLinear",
                                         .doc = "x / y_scale + y_zero_point, rounded to a narrower type.",
                                         .versions = quantize_versions,
                                         .traits = NC_ENCODES,
                                         .infer = quantize_infer,
                                         .decompose = nc_quantize_decompose,
                                         .grad = nc_quantize_grad,
                                         .no_grad_in = 1u << 2};

#define DQ(x, scale, y) IN({"x", x}, {"x_scale", scale}, {"x_zero_point", SAME(0), OPTIONAL}), OUT({"y", y})
#define DQ_ATTR_21 AXIS, A_INT("block_size", 0)
#define DQ_ATTR_23 ATTR(DQ_ATTR_21, A_INT("output_dtype", 0))
static const nc_op_version dequantize_versions[] = {
    {.since = 28, DQ(T_Q28 | T_I32, T_REAL | T_E8M0, T_REAL), DQ_ATTR_23},
    {.since = 25, DQ(T_Q25 | T_I32, T_REAL | T_E8M0, T_REAL), DQ_ATTR_23},
    {.since = 24, DQ(T_Q23 | T_I32, T_REAL | T_E8M0, T_REAL), DQ_ATTR_23},
    {.since = 23, DQ(T_Q23 | T_I32, T_REAL, T_REAL), DQ_ATTR_23},
    {.since = 21, DQ(T_Q21 | T_I32, T_REAL, T_REAL), ATTR(DQ_ATTR_21)},
    {.since = 19, DQ(T_Q19 | T_I32, T_REAL, T_REAL), ATTR(AXIS)},
    {.since = 13, DQ(T_BYTE | T_I32, T_F32, T_F32), ATTR(AXIS)},
    {.since = 10, DQ(T_BYTE | T_I32, T_F32, T_F32), NO_ATTR},
    {0}};

const nc_card nc_card_dequantize_linear = {.name = "DequantizeLinear",
                                           .doc = "(x - x_zero_point) * x_scale.",
                                           .versions = dequantize_versions,
                                           .traits = NC_DECODES,
                                           .infer = dequantize_infer,
                                           .decompose = nc_dequantize_decompose,
                                           .grad = nc_dequantize_grad,
                                           .no_grad_in = 1u << 2};

/* ---- the same of domain com.microsoft, which had 16 and 4 bits and float16 before ai.onnx ---- */

/* The card's own: the op of ai.onnx. */
static nc_code ms_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->out[0]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_attr attrs[2] = {{.name = "output_dtype", .kind = NC_A_INT, .i = n->out[0]->type->elem},
                        {.name = "axis", .kind = NC_A_INT, .i = nc_contrib_int(n, "axis", 1)}};
    out[0] = nc_build_newest1(b, n->card->own, n->in, n->n_in, attrs, 2);
    return b->code;
}

#define T_MS (T_BYTE | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16) | T_INT4)
#define T_MS_SCALE (T_F32 | NC_BIT(NC_FLOAT16))
static const nc_op_version ms_quantize_versions[] = {
    {.since = 1,
     IN({"x", T_MS_SCALE}, {"y_scale", SAME(0)}, {"y_zero_point", T_MS, OPTIONAL}),
     OUT({"y", T_MS}),
     ATTR(A_INT_OPT("axis"))},
    {0}};
static const nc_op_version ms_dequantize_versions[] = {
    {.since = 1,
     IN({"x", T_MS | T_I32}, {"x_scale", T_MS_SCALE}, {"x_zero_point", SAME(0), OPTIONAL}),
     OUT({"y", SAME(1)}),
     ATTR(A_INT_OPT("axis"))},
    {0}};

const nc_card nc_card_ms_quantize_linear = {.name = "QuantizeLinear",
                                            .domain = NC_MICROSOFT,
                                            .doc = "x / y_scale + y_zero_point, rounded to a narrower type.",
                                            .versions = ms_quantize_versions,
                                            .traits = NC_ENCODES,
                                            .own = "QuantizeLinear",
                                            .infer = quantize_infer,
                                            .decompose = ms_decompose,
                                            .no_grad_in = 1u << 2};
const nc_card nc_card_ms_dequantize_linear = {.name = "DequantizeLinear",
                                              .domain = NC_MICROSOFT,
                                              .doc = "(x - x_zero_point) * x_scale.",
                                              .versions = ms_dequantize_versions,
                                              .traits = NC_DECODES,
                                              .own = "DequantizeLinear",
                                              .infer = dequantize_infer,
                                              .decompose = ms_decompose,
                                              .no_grad_in = 1u << 2};

static const nc_op_version dynamic_versions[] = {
    {.since = 11,
     IN({"x", T_F32}),
     OUT({"y", NC_BIT(NC_UINT8)}, {"y_scale", T_F32}, {"y_zero_point", NC_BIT(NC_UINT8)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_dynamic_quantize_linear = {.name = "DynamicQuantizeLinear",
                                                 .doc = "x as uint8, with the scale and zero point of its own range.",
                                                 .versions = dynamic_versions,
                                                 .traits = NC_ENCODES,
                                                 .infer = dynamic_infer,
                                                 .decompose = nc_dynamic_quantize_decompose,
                                                 .grad = nc_dynamic_quantize_grad};
