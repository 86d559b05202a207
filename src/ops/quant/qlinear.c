/* ops/quant/qlinear.c: cards of com.microsoft that do on codes of 8 bits what ops of ai.onnx do on numbers: codes are
 * made numbers, the op is done, its result made codes again. Convolutions and products are in qlinear_sums.c. */
#include "ops/contrib.h"
#include "ops/lane.h"
#include "ops/pool/pool.h"
#include "ops/quant/quant.h"

/* Scales and zero points of these ops are one number each. */
static nc_code check_single(nc_infer *c, int first, int last, int step) {
    for (int i = first; i <= last; i += step) {
        int rank;
        if (!nc_in_rank(c, i, &rank) || rank == 0) continue;
        NC_TRY(nc_contrib_rank(c, i, 1));
        NC_TRY(nc_in_expect(c, i, 0, nc_dim_const(c->dims, 1)));
    }
    return NC_OK;
}

/* A scale or zero point of one number as a scalar. */
static nc_value *scalar(nc_builder *b, nc_value *v) {
    if (b->code != NC_OK || v == NULL || v->type == NULL || v->type->rank == 0) return v;
    return nc_build1(b, "Reshape", 2, v, nc_build_ints(b, NULL, 0));
}

/* Operand i of n with the scale and zero point behind it. */
static nc_value *number(nc_builder *b, const nc_node *n, int i) {
    return nc_contrib_decoded(b, n->in[i], scalar(b, n->in[i + 1]), scalar(b, nc_contrib_in(n, i + 2)));
}

/* y as codes with the scale at i and the zero point behind it. */
static nc_value *code(nc_builder *b, const nc_node *n, nc_value *y, int i, nc_dtype t) {
    return nc_contrib_coded(b, y, scalar(b, n->in[i]), scalar(b, nc_contrib_in(n, i + 1)), t);
}

static nc_dtype type_of(const nc_node *n, int i) {
    return n->in[i]->type != NULL ? n->in[i]->type->elem : NC_UNDEFINED;
}

/* ---- two operands: A, scale, zero, B, scale, zero, C's scale, zero ---- */

static nc_code binary_infer(nc_infer *c) {
    nc_infer_val in[2] = {c->in[0], c->in[3]};
    nc_infer pair = *c;
    const nc_dim *dims[NC_MAX_RANK];
    int rank;
    pair.in = in;
    NC_TRY(check_single(c, 1, 2, 1));
    NC_TRY(check_single(c, 4, 7, 1));
    NC_TRY(nc_broadcast_in(&pair, 0, 2, dims, &rank));
    const nc_type *a = nc_in(c, 0);
    if (a == NULL) return NC_OK;
    return rank < 0 ? nc_out_unknown(c, 0, a->elem, -1) : nc_out(c, 0, a->elem, rank, dims);
}

/* The card's own: the op of ai.onnx. */
static nc_code binary_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = nc_build1(b, n->card->own, 2, number(b, n, 0), number(b, n, 3));
    out[0] = code(b, n, y, 6, type_of(n, 0));
    return b->code;
}

/* Products of codes are exact; what rounds is their scaling, by one factor for all, and the zero point added to it, in
 * float: so ONNX Runtime has it, and a product that lies between two codes goes the same way there. */
static nc_code mul_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *one = nc_build_scalar(b, NC_FLOAT, 1);
    nc_value *x = nc_contrib_decoded(b, n->in[0], one, scalar(b, nc_contrib_in(n, 2)));
    nc_value *y = nc_contrib_decoded(b, n->in[3], one, scalar(b, nc_contrib_in(n, 5)));
    nc_value *scales = nc_build1(b, "Mul", 2, scalar(b, n->in[1]), scalar(b, n->in[4]));
    nc_value *factor = nc_build1(b, "Div", 2, scales, scalar(b, n->in[6]));
    nc_value *product = nc_build1(b, "Mul", 2, nc_build1(b, "Mul", 2, x, y), factor);
    nc_value *zero = nc_contrib_in(n, 7);
    if (zero != NULL) product = nc_build1(b, "Add", 2, product, nc_build_cast(b, scalar(b, zero), NC_FLOAT));
    out[0] = nc_contrib_coded(b, product, one, NULL, type_of(n, 0));
    return b->code;
}

/* ---- one operand: X, scale, zero, Y's scale, zero ---- */

static nc_code unary_infer(nc_infer *c) {
    NC_TRY(check_single(c, 1, 4, 1));
    return nc_out_like(c, 0, 0);
}

/* The card's own: the op of ai.onnx, with the node's attributes. */
static nc_code unary_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = number(b, n, 0);
    out[0] = code(b, n, nc_build_attr1(b, "", n->card->own, &x, 1, n->attrs, n->n_attrs), 3, type_of(n, 0));
    return b->code;
}

static nc_code softmax_infer(nc_infer *c) {
    int rank, axis;
    NC_TRY(check_single(c, 1, 4, 1));
    if (nc_in_rank(c, 0, &rank)) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), rank, &axis));
    return nc_out_like(c, 0, 0);
}

/* Before opset 13 all dims from the axis on are one row. */
static nc_code softmax_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool flat = nc_attr_int(n, "opset") < 13;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *x = number(b, n, 0), *rows = flat ? nc_build_attr1(b, "", "Flatten", &x, 1, &axis, 1) : x;
    nc_value *y = nc_build_attr1(b, "", "Softmax", &rows, 1, flat ? &last : &axis, 1);
    out[0] = code(b, n, flat ? nc_build_reshape_like(b, y, x) : y, 3, type_of(n, 0));
    return b->code;
}

/* ---- pools ---- */

static bool channels_last(const nc_node *n) { return nc_contrib_int(n, "channels_last", 0) != 0; }

static nc_code pool_infer(nc_infer *c) {
    NC_TRY(check_single(c, 1, 4, 1));
    return nc_contrib_infer_turned(c, channels_last(c->node), nc_pool_infer);
}

static nc_code global_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(check_single(c, 1, 4, 1));
    if (x != NULL && x->rank >= 0 && x->rank < 3)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 3 are expected", x->rank);
    return nc_contrib_infer_turned(c, channels_last(c->node), nc_pool_global_infer);
}

static nc_code known_rank(nc_builder *b, const nc_node *n) {
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    return NC_OK;
}

/* The card's own: the pool of ai.onnx. */
static nc_code pool_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const char *const own[] = {"channels_last"};
    nc_attr attrs[16];
    int n_attrs = nc_contrib_attrs(n, own, 1, attrs);
    NC_TRY(known_rank(b, n));
    nc_value *x = number(b, n, 0);
    if (channels_last(n)) x = nc_contrib_turn(b, x, false);
    nc_value *y = nc_build_attr1(b, "", n->card->own, &x, 1, attrs, n_attrs);
    if (channels_last(n)) y = nc_contrib_turn(b, y, true);
    out[0] = code(b, n, y, 3, type_of(n, 0));
    return b->code;
}

static nc_code max_pool_infer(nc_infer *c) { return nc_contrib_infer_turned(c, true, nc_pool_infer); }

static nc_code max_pool_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    NC_TRY(known_rank(b, n));
    nc_value *x = nc_contrib_turn(b, n->in[0], false);
    out[0] = nc_contrib_turn(b, nc_build_attr1(b, "", "MaxPool", &x, 1, n->attrs, n->n_attrs), true);
    return b->code;
}

/* ---- mean ---- */

static nc_code mean_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    bool gone[NC_MAX_RANK] = {false}, keeps = nc_attr_int(c->node, "keepdims") != 0;
    int n, rank = 0, axis;
    const int64_t *axes = nc_attr_ints(c->node, "axes", &n);
    NC_TRY(check_single(c, 1, 4, 1));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    for (int i = 0; i < n; i++) {
        NC_TRY(nc_axis(c, axes[i], x->rank, &axis));
        gone[axis] = true;
    }
    for (int i = 0; i < x->rank; i++)
        if (!gone[i] || keeps) dims[rank++] = gone[i] ? nc_dim_const(c->dims, 1) : x->dims[i];
    return nc_out(c, 0, x->elem, rank, dims);
}

static nc_code mean_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int n_axes;
    const int64_t *axes = nc_attr_ints(n, "axes", &n_axes);
    nc_value *in[2] = {number(b, n, 0), nc_build_ints(b, axes, n_axes)};
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = nc_attr_int(n, "keepdims") != 0};
    out[0] = code(b, n, nc_build_attr1(b, "", "ReduceMean", in, 2, &keep, 1), 3, type_of(n, 0));
    return b->code;
}

/* ---- Where: condition, X, scale, zero, Y, scale, zero, Z's scale, zero ---- */

static nc_code where_infer(nc_infer *c) {
    nc_infer_val in[3] = {c->in[0], c->in[1], c->in[4]};
    nc_infer three = *c;
    const nc_dim *dims[NC_MAX_RANK];
    int rank;
    three.in = in;
    NC_TRY(check_single(c, 2, 3, 1));
    NC_TRY(check_single(c, 5, 8, 1));
    NC_TRY(nc_broadcast_in(&three, 0, 3, dims, &rank));
    const nc_type *x = nc_in(c, 1);
    if (x == NULL) return NC_OK;
    return rank < 0 ? nc_out_unknown(c, 0, x->elem, -1) : nc_out(c, 0, x->elem, rank, dims);
}

static nc_code where_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *y = nc_build1(b, "Where", 3, n->in[0], number(b, n, 1), number(b, n, 4));
    out[0] = code(b, n, y, 7, type_of(n, 1));
    return b->code;
}

/* ---- Concat: Y's scale, zero, then operand, scale, zero of each ---- */

static nc_code concat_infer(nc_infer *c) {
    const nc_type *zero = nc_in(c, 1), *x = nc_in(c, 2);
    const nc_dim *dims[NC_MAX_RANK];
    int axis, n = c->node->n_in - 2;
    if (n < 3 || n % 3 != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs behind Y_zero_point, expected tensor, scale and zero point of each",
                n);
    if (zero == NULL) return NC_OK;
    if (x == NULL || x->rank < 0) return nc_out_unknown(c, 0, zero->elem, -1);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    for (int k = 5; k < c->node->n_in; k += 3) {
        int rank;
        if (!nc_in_rank(c, k, &rank)) return nc_out_unknown(c, 0, zero->elem, x->rank);
        if (rank != x->rank) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected %d", k, rank, x->rank);
        for (int i = 0; i < rank; i++)
            if (i != axis) NC_TRY(nc_in_expect(c, k, i, dims[i]));
        dims[axis] = nc_dim_add(c->dims, dims[axis], nc_in_dim(c, k, axis));
    }
    return nc_out(c, 0, zero->elem, x->rank, dims);
}

static nc_code concat_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int count = (n->n_in - 2) / 3;
    nc_value **parts = nc_arena_array(&b->w->scratch, (size_t)count, sizeof *parts);
    NC_NEED(b->w, parts);
    for (int i = 0; i < count; i++) parts[i] = number(b, n, 2 + 3 * i);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
    out[0] = code(b, n, nc_build_attr1(b, "", "Concat", parts, count, &axis, 1), 0, type_of(n, 1));
    return b->code;
}

/* ---- cards ---- */

#define F32(name) \
    { name, T_F32 }
#define BINARY                                                                                             \
    IN({"A", T_BYTE}, F32("A_scale"), {"A_zero_point", SAME(0), OPTIONAL}, {"B", SAME(0)}, F32("B_scale"), \
       {"B_zero_point", SAME(0), OPTIONAL}, F32("C_scale"), {"C_zero_point", SAME(0), OPTIONAL}),          \
        OUT({"C", SAME(0)}), NO_ATTR
#define UNARY(x, y)                                                                           \
    IN({"X", T_BYTE}, F32(x "_scale"), {x "_zero_point", SAME(0), OPTIONAL}, F32(y "_scale"), \
       {y "_zero_point", SAME(0), OPTIONAL}),                                                 \
        OUT({"Y", SAME(0)})
#define WINDOW                                                                                          \
    A_INTS_REQ("kernel_shape"), A_INTS_OPT("strides"), A_STR("auto_pad", "NOTSET"), A_INTS_OPT("pads"), \
        A_INT("ceil_mode", 0)
static const nc_op_version binary_versions[] = {{.since = 1, BINARY}, {0}};
static const nc_op_version leaky_versions[] = {{.since = 1, UNARY("X", "Y"), ATTR(A_FLOAT("alpha", 0.01f))}, {0}};
static const nc_op_version sigmoid_versions[] = {{.since = 1, UNARY("X", "Y"), NO_ATTR}, {0}};
static const nc_op_version softmax_versions[] = {
    {.since = 1,
     IN({"X", T_BYTE}, F32("X_scale"), {"x_zero_point", SAME(0), OPTIONAL}, F32("y_scale"), {"y_zero_point", SAME(0)}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("axis", -1), A_INT_REQ("opset"))},
    {0}};
static const nc_op_version average_versions[] = {
    {.since = 1, UNARY("x", "y"), ATTR(WINDOW, A_INT("count_include_pad", 0), A_INT("channels_last", 0))}, {0}};
static const nc_op_version global_versions[] = {
    {.since = 1,
     IN({"X", T_BYTE}, F32("x_scale"), {"x_zero_point", SAME(0)}, F32("y_scale"), {"y_zero_point", SAME(0)}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("channels_last", 0))},
    {0}};
static const nc_op_version max_versions[] = {
    {.since = 1, IN({"x", T_BYTE}), OUT({"y", SAME(0)}), ATTR(WINDOW, A_INTS_OPT("dilations"))}, {0}};
static const nc_op_version mean_versions[] = {
    {.since = 1,
     IN({"data", T_BYTE}, F32("data_scale"), {"data_zero_point", SAME(0), OPTIONAL}, F32("reduced_scale"),
        {"reduced_zero_point", SAME(0), OPTIONAL}),
     OUT({"reduced", SAME(0)}),
     ATTR(A_INTS_REQ("axes"), A_INT_REQ("keepdims"))},
    {0}};
static const nc_op_version where_versions[] = {
    {.since = 1,
     IN({"condition", T_BOOL}, {"X", T_BYTE}, F32("x_scale"), {"x_zero_point", SAME(1)}, {"Y", SAME(1)}, F32("y_scale"),
        {"y_zero_point", SAME(1)}, F32("z_scale"), {"z_zero_point", SAME(1)}),
     OUT({"Z", SAME(1)}),
     NO_ATTR},
    {0}};
static const nc_op_version concat_versions[] = {
    {.since = 1,
     IN(F32("Y_scale"), {"Y_zero_point", T_BYTE}, {"inputs", T_BYTE | T_F32, MIXED}),
     OUT({"Y", SAME(1)}),
     ATTR(A_INT_REQ("axis"))},
    {0}};

#define QLINEAR(card, op, text, rows, inner, infers, decomposes) \
    const nc_card nc_card_##card = {.name = op,                  \
                                    .domain = NC_MICROSOFT,      \
                                    .doc = text,                 \
                                    .versions = rows,            \
                                    .own = inner,                \
                                    .zero_grad = true,           \
                                    .infer = infers,             \
                                    .decompose = decomposes}
QLINEAR(qlinear_add, "QLinearAdd", "Add of codes.", binary_versions, "Add", binary_infer, binary_decompose);
QLINEAR(qlinear_mul, "QLinearMul", "Mul of codes.", binary_versions, "Mul", binary_infer, mul_decompose);
QLINEAR(qlinear_leaky_relu, "QLinearLeakyRelu", "LeakyRelu of codes.", leaky_versions, "LeakyRelu", unary_infer,
        unary_decompose);
QLINEAR(qlinear_sigmoid, "QLinearSigmoid", "Sigmoid of codes.", sigmoid_versions, "Sigmoid", unary_infer,
        unary_decompose);
QLINEAR(qlinear_softmax, "QLinearSoftmax", "Softmax of codes.", softmax_versions, NULL, softmax_infer,
        softmax_decompose);
QLINEAR(qlinear_average_pool, "QLinearAveragePool", "AveragePool of codes, channels first or last.", average_versions,
        "AveragePool", pool_infer, pool_decompose);
QLINEAR(qlinear_global_average_pool, "QLinearGlobalAveragePool", "GlobalAveragePool of codes, channels first or last.",
        global_versions, "GlobalAveragePool", global_infer, pool_decompose);
QLINEAR(nhwc_max_pool, "NhwcMaxPool", "MaxPool of codes with channels last.", max_versions, NULL, max_pool_infer,
        max_pool_decompose);
QLINEAR(qlinear_reduce_mean, "QLinearReduceMean", "ReduceMean of codes.", mean_versions, NULL, mean_infer,
        mean_decompose);
QLINEAR(qlinear_where, "QLinearWhere", "Where of codes.", where_versions, NULL, where_infer, where_decompose);
QLINEAR(qlinear_concat, "QLinearConcat", "Concat of codes, each with a scale of its own.", concat_versions, NULL,
        concat_infer, concat_decompose);
