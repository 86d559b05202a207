/* ops/training/elements.c: gradients of activations as ONNX Runtime names them, by lanes of the house; DivGrad, and
 * DropoutGrad from its mask. Those of Relu and LeakyRelu choose, so that no infinity meets a zero. */
#include "ops/training/training.h"

/* dY where S is above 0, else alpha * dY. */
static nc_value *above_zero(nc_builder *b, const nc_node *n, nc_value *otherwise) {
    nc_value *zero = nc_build_scalar(b, nc_training_elem(n->in[0]), 0);
    return nc_build1(b, "Where", 3, nc_training_op2(b, "Greater", n->in[1], zero), n->in[0],
                     otherwise != NULL ? otherwise : zero);
}

static nc_code relu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = above_zero(b, n, NULL);
    return b->code;
}

static nc_code leaky_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = above_zero(b, n, nc_training_scaled(b, nc_attr_float(n, "alpha"), n->in[0]));
    return b->code;
}

/* The card's own: the gradient op of a lane that X plus the bias went through. */
static nc_code bias_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[2] = {n->in[0], nc_contrib_add(b, n->in[1], n->in[2])};
    return nc_training_as(b, n, n->card->own, in, 2, NULL, 0, out);
}

/* ---- Div ---- */

static nc_code div_infer(nc_infer *c) {
    NC_TRY(nc_out_like(c, 0, 1));
    return nc_out_like(c, 1, 2);
}

static nc_code div_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *x = n->in[1], *y = n->in[2];
    nc_value *da = nc_training_op2(b, "Div", dy, y);
    if (nc_contrib_wants(n, 0)) out[0] = nc_build_sum_to(b, da, x);
    if (nc_contrib_wants(n, 1)) {
        nc_value *ratio = nc_training_op2(b, "Div", x, y);
        out[1] = nc_build_sum_to(b, nc_build1(b, "Neg", 1, nc_training_op2(b, "Mul", da, ratio)), y);
    }
    return b->code;
}

/* ---- Dropout ---- */

static nc_code dropout_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_contrib_dropout_grad(b, n, n->in[0], n->in[1], 2);
    return b->code;
}

/* ---- quantization while training ---- */

static nc_code fake_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_out_like(c, 0, 0));
    if (x == NULL) return NC_OK;
    return x->rank < 0 ? nc_out_unknown(c, 1, NC_BOOL, -1) : nc_out(c, 1, NC_BOOL, x->rank, x->dims);
}

/* q = round(x / scale) + zero_point; the output is (q held in range - zero_point) * scale, the mask whether it was in
 * range. */
static nc_code fake_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = nc_training_elem(n->in[0]);
    nc_value *scale = nc_training_rank0(b, n->in[1]), *zero = nc_training_rank0(b, n->in[2]);
    nc_value *lo = nc_build_scalar(b, t, (double)nc_attr_int(n, "quant_min"));
    nc_value *hi = nc_build_scalar(b, t, (double)nc_attr_int(n, "quant_max"));
    nc_value *q = nc_build1(b, "Round", 1, nc_training_op2(b, "Div", n->in[0], scale));
    q = nc_training_op2(b, "Add", q, zero);
    nc_value *held = nc_build1(b, "Clip", 3, q, lo, hi);
    out[0] = nc_training_op2(b, "Mul", nc_training_op2(b, "Sub", held, zero), scale);
    if (nc_contrib_wants(n, 1))
        out[1] = nc_training_op2(b, "And", nc_training_op2(b, "LessOrEqual", lo, q),
                                 nc_training_op2(b, "LessOrEqual", q, hi));
    return b->code;
}

static nc_code masked_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build1(b, "Where", 3, n->in[1], n->in[0], nc_build_scalar(b, nc_training_elem(n->in[0]), 0));
    return b->code;
}

/* ---- cards ---- */

#define DY_S(s) IN({"dY", T_FLOAT_ALL}, {s, SAME(0)}), OUT({"dX", SAME(0)})
#define DY_X_B IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"B", SAME(0)}), OUT({"dX", SAME(0)})
static const nc_op_version of_x[] = {{.since = 1, DY_S("X"), NO_ATTR}, {0}};
static const nc_op_version of_y[] = {{.since = 1, DY_S("Y"), NO_ATTR}, {0}};
static const nc_op_version leaky_versions[] = {{.since = 1, DY_S("Y"), ATTR(A_FLOAT("alpha", 0.01f))}, {0}};
static const nc_op_version quick_versions[] = {{.since = 1, DY_S("X"), ATTR(A_FLOAT("alpha", 1.702f))}, {0}};
static const nc_op_version bias_versions[] = {{.since = 1, DY_X_B, NO_ATTR}, {0}};
static const nc_op_version div_versions[] = {{.since = 1,
                                              IN({"dY", T_FLOAT_ALL}, {"A", SAME(0)}, {"B", SAME(0)}),
                                              OUT({"dA", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
                                              NO_ATTR},
                                             {0}};
static const nc_op_version dropout_versions[] = {
    {.since = 1,
     IN({"dy", T_FLOAT_ALL}, {"mask", T_BOOL}, {"ratio", T_FLOAT_ALL, SINGLE_OPTIONAL},
        {"training_mode", T_BOOL, SINGLE_OPTIONAL}),
     OUT({"dx", SAME(0)}),
     ATTR(A_INT_OPT("seed"))},
    {0}};
static const nc_op_version fake_versions[] = {{.since = 1,
                                               IN({"input", T_FLOAT}, {"scale", SAME(0)}, {"zero_point", SAME(0)}),
                                               OUT({"output", SAME(0)}, {"mask", T_BOOL}),
                                               ATTR(A_INT("quant_min", 0), A_INT("quant_max", 255))},
                                              {0}};
static const nc_op_version masked_versions[] = {
    {.since = 1, IN({"dY", T_FLOAT_ALL}, {"gradient_mask", T_BOOL}), OUT({"dX", SAME(0)}), NO_ATTR}, {0}};

#define LIKE_DY .infer = nc_training_like_pair
#define BY_LANE(name) .own = name, LIKE_DY, .decompose = nc_training_renamed
NC_TRAINING_CARD(relu_grad, "ReluGrad", "dY where X is above 0, else 0.", of_x, LIKE_DY, .decompose = relu_decompose);
NC_TRAINING_CARD(leaky_relu_grad, "LeakyReluGrad", "dY where Y is above 0, else alpha times it.", leaky_versions,
                 LIKE_DY, .decompose = leaky_decompose);
NC_TRAINING_CARD(sigmoid_grad, "SigmoidGrad", "dY * Y * (1 - Y).", of_y, BY_LANE("SigmoidGrad"));
NC_TRAINING_CARD(tanh_grad, "TanhGrad", "dY * (1 - Y * Y).", of_y, BY_LANE("TanhGrad"));
NC_TRAINING_CARD(gelu_grad, "GeluGrad", "Gradient of Gelu.", of_x, BY_LANE("GeluErfGrad"));
NC_TRAINING_CARD(fast_gelu_grad, "FastGeluGrad", "Gradient of Gelu by a formula of tanh.", of_x,
                 BY_LANE("GeluTanhGrad"));
NC_TRAINING_CARD(quick_gelu_grad, "QuickGeluGrad", "Gradient of X * sigmoid(alpha * X).", quick_versions,
                 BY_LANE("QuickGeluGrad"));
NC_TRAINING_CARD(bias_gelu_grad, "BiasGeluGrad_dX", "Gradient of Gelu of X + B by X.", bias_versions,
                 .own = "GeluErfGrad", LIKE_DY, .decompose = bias_decompose);
NC_TRAINING_CARD(bias_fast_gelu_grad, "BiasFastGeluGrad_dX", "Gradient of Gelu of X + B, by tanh, by X.", bias_versions,
                 .own = "GeluTanhGrad", LIKE_DY, .decompose = bias_decompose);
NC_TRAINING_CARD(div_grad, "DivGrad", "Gradients of A / B by both.", div_versions, .infer = div_infer,
                 .decompose = div_decompose);
NC_TRAINING_CARD(dropout_grad, "DropoutGrad", "Gradient of Dropout from its mask.", dropout_versions, LIKE_DY,
                 .host_in = 3u << 2, .no_grad_in = 7u << 1, .decompose = dropout_decompose);
NC_TRAINING_CARD(fake_quant, "FakeQuant", "The input as its codes in a range say it, and which codes were in range.",
                 fake_versions, .infer = fake_infer, .decompose = fake_decompose);
NC_TRAINING_CARD(fake_quant_grad, "FakeQuantGrad", "dY where the mask holds, else 0.", masked_versions, LIKE_DY,
                 .no_grad_in = 2, .decompose = masked_decompose);
