/* ops/training/optim_one.c: ONNX Runtime's older optimizers, of one tensor each (SGDOptimizer, AdamOptimizer), and
 * LambOptimizer of up to 1024. They run as element formulas, which chains join. */
#include "ops/training/training.h"

#include <math.h>

static nc_value *mul(nc_builder *b, nc_value *x, nc_value *y) { return nc_training_op2(b, "Mul", x, y); }
static nc_value *add(nc_builder *b, nc_value *x, nc_value *y) { return nc_training_op2(b, "Add", x, y); }
static nc_value *sub(nc_builder *b, nc_value *x, nc_value *y) { return nc_training_op2(b, "Sub", x, y); }
static nc_value *quotient(nc_builder *b, nc_value *x, nc_value *y) { return nc_training_op2(b, "Div", x, y); }

/* ---- SGD ---- */

static nc_code sgd_infer(nc_infer *c) {
    NC_TRY(nc_in_same(c, 2, 1));
    NC_TRY(nc_out_like(c, 0, 1));
    return nc_out_like(c, 1, 2);
}

/* NW = W - ETA * G; NG is what was added. */
static nc_code sgd_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *w = nc_contrib_wide(b, n->in[1]), *g = nc_contrib_wide(b, n->in[2]);
    nc_value *rate = nc_build_cast(b, nc_training_rank0(b, n->in[0]), nc_training_elem(w));
    nc_value *delta = nc_build1(b, "Neg", 1, mul(b, rate, nc_build_cast(b, g, nc_training_elem(w))));
    if (nc_contrib_wants(n, 0)) out[0] = nc_build_cast(b, add(b, w, delta), nc_training_elem(n->in[1]));
    if (nc_contrib_wants(n, 1)) out[1] = nc_build_cast(b, delta, nc_training_elem(n->in[2]));
    return b->code;
}

/* ---- moments ---- */

/* Of one parameter, in the type that its numbers are computed in. */
typedef struct moments {
    nc_dtype t;
    nc_value *w, *m, *v;        /* w as it was, the new moments */
    nc_value *mean, *deviation; /* corrected, the second one as its root */
    nc_value *first, *second;   /* the corrections themselves */
} moments;

typedef struct numbers {
    double alpha, beta, max_norm;
    bool correct;
} numbers;

/* What gradients are divided by: the loss scale, and where their norm is above max_norm that too. */
static nc_value *divisor(nc_builder *b, nc_value *loss_scale, nc_value *norm, double max_norm, nc_dtype t) {
    nc_value *scale =
        loss_scale != NULL ? nc_build_cast(b, nc_training_rank0(b, loss_scale), t) : nc_build_scalar(b, t, 1);
    if (norm == NULL) return scale;
    nc_value *size = nc_build_cast(b, nc_training_rank0(b, norm), t);
    nc_value *most = nc_build_scalar(b, t, max_norm);
    nc_value *above = nc_training_op2(b, "Greater", size, mul(b, scale, most));
    return nc_build1(b, "Where", 3, above, quotient(b, size, most), scale);
}

static nc_value *correction(nc_builder *b, double base, nc_value *step, bool correct, nc_dtype t) {
    nc_value *one = nc_build_scalar(b, t, 1);
    if (!correct || step == NULL) return one;
    nc_value *power = nc_training_op2(b, "Pow", nc_build_scalar(b, t, base), nc_build_cast(b, step, t));
    return sub(b, one, power);
}

static moments new_moments(nc_builder *b, nc_value *const in[4], nc_value *by, nc_value *step, const numbers *k) {
    moments p = {.t = nc_training_elem(in[0])};
    p.w = in[0];
    nc_value *g = quotient(b, nc_build_cast(b, in[1], p.t), by);
    nc_value *m = nc_build_cast(b, in[2], p.t), *v = nc_build_cast(b, in[3], p.t);
    p.m = add(b, nc_training_scaled(b, k->alpha, m), nc_training_scaled(b, 1 - k->alpha, g));
    p.v = add(b, nc_training_scaled(b, k->beta, v), nc_training_scaled(b, 1 - k->beta, mul(b, g, g)));
    p.first = correction(b, k->alpha, step, k->correct, p.t);
    p.second = correction(b, k->beta, step, k->correct, p.t);
    p.mean = quotient(b, p.m, p.first);
    p.deviation = nc_build1(b, "Sqrt", 1, quotient(b, p.v, p.second));
    return p;
}

static nc_value *unless_still(nc_builder *b, nc_value *signal, nc_value *now, nc_value *before) {
    return signal != NULL ? nc_build1(b, "Where", 3, nc_training_rank0(b, signal), now, before) : now;
}

/* ---- Adam ---- */

static nc_code adam_infer(nc_infer *c) {
    static const int like[6] = {1, 4, 5, 2, 3, 6};
    int64_t mode = nc_attr_int(c->node, "weight_decay_mode");
    if (mode != 0 && mode != 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "weight_decay_mode is %lld, expected 0 or 1", (long long)mode);
    for (int i = 0; i < c->node->n_out && i < 6; i++)
        if (like[i] < c->node->n_in) NC_TRY(nc_out_like(c, i, like[i]));
    return NC_OK;
}

/* What is added to the weights. Mode 0 decays with the step, mode 1 after it, epsilon not corrected. */
static nc_value *adam_delta(nc_builder *b, const nc_node *n, const moments *p, nc_value *rate) {
    double decay = nc_attr_float(n, "lambda");
    nc_value *epsilon = nc_build_scalar(b, p->t, nc_attr_float(n, "epsilon"));
    if (nc_attr_int(n, "weight_decay_mode") == 0) {
        nc_value *to = quotient(b, p->mean, add(b, p->deviation, epsilon));
        to = add(b, to, nc_training_scaled(b, decay, p->w));
        return nc_build1(b, "Neg", 1, mul(b, rate, to));
    }
    nc_value *size = quotient(b, mul(b, rate, nc_build1(b, "Sqrt", 1, p->second)), p->first);
    nc_value *down = add(b, nc_build1(b, "Sqrt", 1, p->v), epsilon);
    nc_value *delta = nc_build1(b, "Neg", 1, quotient(b, mul(b, size, p->m), down));
    return sub(b, delta, mul(b, rate, nc_training_scaled(b, decay, add(b, p->w, delta))));
}

static nc_code adam_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = nc_training_elem(n->in[2]);
    numbers k = {nc_attr_float(n, "alpha"), nc_attr_float(n, "beta"), nc_attr_float(n, "max_norm_clip"),
                 nc_attr_int(n, "do_bias_correction") != 0};
    nc_value *rate = nc_build_cast(b, nc_training_rank0(b, n->in[0]), t), *step = nc_training_rank0(b, n->in[1]);
    nc_value *signal = nc_contrib_in(n, 9), *by = divisor(b, nc_contrib_in(n, 7), nc_contrib_in(n, 8), k.max_norm, t);
    moments p = new_moments(b, (nc_value *const[]){n->in[2], n->in[3], n->in[4], n->in[5]}, by, step, &k);
    nc_value *delta = adam_delta(b, n, &p, rate), *w = add(b, n->in[2], delta);
    nc_value *now[6] = {add(b, n->in[1], nc_build_int(b, 1)), p.m, p.v, w, delta, w};
    nc_value *before[6] = {n->in[1], n->in[4], n->in[5], n->in[2], n->in[3], nc_contrib_in(n, 6)};
    for (int i = 0; i < n->n_out && i < 6; i++) {
        if (!nc_contrib_wants(n, i)) continue;
        if (before[i] == NULL) NC_FAIL(b->w, NC_E_BAD_GRAPH, "output %d needs mixed_precision_weights", i);
        out[i] = unless_still(b, signal, nc_build_cast(b, now[i], nc_training_elem(before[i])), before[i]);
    }
    return b->code;
}

/* ---- LAMB ---- */

enum { FIRST = 5, GROUP = 5 }; /* inputs before the groups of tensors; tensors of one */

static nc_code lamb_infer(nc_infer *c) {
    int groups = (c->node->n_in - FIRST + GROUP - 1) / GROUP;
    if (c->node->n_in < FIRST || c->node->n_out > 1 + GROUP * groups)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs and %d outputs do not fit each other", c->node->n_in, c->node->n_out);
    NC_TRY(nc_out_like(c, 0, 4));
    for (int i = 1; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, FIRST + i - 1));
    return NC_OK;
}

/* Number i of a list, or the last one's default. */
static double listed(const nc_node *n, const char *name, int i, double none) {
    const nc_attr *a = nc_node_attr(n, name);
    return a != NULL && i < a->n ? (double)a->floats[i] : none;
}

static nc_value *norm_of(nc_builder *b, nc_value *x) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "ReduceL2", &x, 1, &keep, 1);
}

/* The step's direction times the ratio of the norms of weights and direction, held in its bounds; 1 where one is 0. */
static nc_value *lamb_delta(nc_builder *b, const nc_node *n, const moments *p, int group, nc_value *rate) {
    nc_value *epsilon = nc_build_scalar(b, p->t, listed(n, "epsilon", group, 1e-6));
    nc_value *to = quotient(b, p->mean, add(b, p->deviation, epsilon));
    to = add(b, to, nc_training_scaled(b, listed(n, "lambda", group, 0), p->w));
    nc_value *zero = nc_build_scalar(b, p->t, 0), *one = nc_build_scalar(b, p->t, 1);
    nc_value *a = norm_of(b, p->w), *d = norm_of(b, to);
    nc_value *lo = nc_build_scalar(b, p->t, nc_contrib_float(n, "ratio_min", -INFINITY));
    nc_value *hi = nc_build_scalar(b, p->t, nc_contrib_float(n, "ratio_max", INFINITY));
    nc_value *both =
        nc_training_op2(b, "And", nc_training_op2(b, "Greater", a, zero), nc_training_op2(b, "Greater", d, zero));
    nc_value *ratio = nc_build1(b, "Where", 3, both, nc_build1(b, "Clip", 3, quotient(b, a, d), lo, hi), one);
    return nc_build1(b, "Neg", 1, mul(b, mul(b, rate, ratio), to));
}

static nc_code lamb_group(nc_builder *b, const nc_node *n, int group, nc_value **out) {
    int at = FIRST + GROUP * group;
    nc_value *in[GROUP]; /* weights of 16 bits are computed with as floats */
    for (int i = 0; i < GROUP; i++) in[i] = nc_contrib_in(n, at + i);
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL || in[3] == NULL)
        NC_FAIL(b->w, NC_E_BAD_GRAPH, "group %d lacks weights, gradients or a moment", group);
    in[0] = nc_contrib_wide(b, in[0]);
    nc_dtype t = nc_training_elem(in[0]);
    numbers k = {listed(n, "alpha", group, 0.9), listed(n, "beta", group, 0.999), listed(n, "max_norm_clip", group, 1),
                 nc_attr_int(n, "do_bias_correction") != 0};
    nc_value *by = divisor(b, n->in[1], n->in[2], k.max_norm, t), *step = nc_training_rank0(b, n->in[4]);
    moments p = new_moments(b, in, by, step, &k);
    nc_value *rate = n->in[3] != NULL ? nc_build_cast(b, nc_training_rank0(b, n->in[3]), t) : nc_build_scalar(b, t, 1);
    nc_value *delta = lamb_delta(b, n, &p, group, rate), *w = add(b, in[0], delta);
    nc_value *now[GROUP] = {w, delta, p.m, p.v, w};
    for (int i = 0; i < GROUP; i++) {
        int o = 1 + GROUP * group + i;
        if (!nc_contrib_wants(n, o)) continue;
        if (in[i] == NULL) NC_FAIL(b->w, NC_E_BAD_GRAPH, "output %d needs input %d", o, at + i);
        nc_value *before = n->in[at + i];
        out[o] = unless_still(b, n->in[0], nc_build_cast(b, now[i], nc_training_elem(before)), before);
    }
    return b->code;
}

static nc_code lamb_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int groups = (n->n_in - FIRST) / GROUP + ((n->n_in - FIRST) % GROUP != 0);
    if (nc_contrib_wants(n, 0)) {
        if (n->in[4] == NULL) NC_FAIL(b->w, NC_E_BAD_GRAPH, "new_step needs step");
        out[0] = unless_still(b, n->in[0], add(b, n->in[4], nc_build_int(b, 1)), n->in[4]);
    }
    for (int g = 0; g < groups; g++) NC_TRY(lamb_group(b, n, g, out));
    return b->code;
}

/* ---- cards ---- */

#define MAYBE(name, types) \
    { name, types, OPTIONAL }
#define HOLES .flags = NC_P_VARIADIC | NC_P_HETEROGENEOUS | NC_P_OPTIONAL
#define T_HALF (NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
#define T_WEIGHT (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
static const nc_op_version sgd_versions[] = {{.since = 1,
                                              IN({"ETA", T_F32}, {"W", T_FLOAT_ALL}, {"G", SAME(1)}),
                                              OUT({"NW", SAME(1), OPTIONAL}, {"NG", SAME(1), OPTIONAL}),
                                              NO_ATTR},
                                             {0}};
static const nc_op_version adam_versions[] = {
    {.since = 1,
     IN({"R", T_FLOAT_ALL}, {"T", T_I64}, {"weights", T_WEIGHT}, {"gradients", T_FLOAT_ALL}, {"moment_1", T_FLOAT_ALL},
        {"moment_2", SAME(4)}, MAYBE("mixed_precision_weights", T_HALF), {"loss_scale", SAME(2), OPTIONAL},
        MAYBE("global_gradient_norm", T_FLOAT_ALL), MAYBE("update_signal", T_BOOL)),
     OUT({"new_T", SAME(1)}, {"new_moment_1", SAME(4)}, {"new_moment_2", SAME(4)}, {"new_weights", SAME(2), OPTIONAL},
         {"new_gradients", SAME(3), OPTIONAL}, MAYBE("new_mixed_precision_weights", T_HALF)),
     ATTR(A_FLOAT("alpha", 0.9f), A_FLOAT("beta", 0.999f), A_FLOAT("lambda", 0.0f), A_FLOAT("epsilon", 1e-8f),
          A_FLOAT("max_norm_clip", 1.0f), A_INT("do_bias_correction", 1), A_INT("weight_decay_mode", 0))},
    {0}};
static const nc_op_version lamb_versions[] = {
    {.since = 1,
     IN(MAYBE("update_signal", T_BOOL), MAYBE("loss_scale", T_WEIGHT), MAYBE("gradient_norm", T_FLOAT_ALL),
        MAYBE("R", T_FLOAT_ALL), MAYBE("step", T_I64), {"tensors", T_FLOAT_ALL, HOLES}),
     OUT(MAYBE("new_step", T_I64), {"new_tensors", T_FLOAT_ALL, HOLES}),
     ATTR(A_FLOATS_OPT("alpha"), A_FLOATS_OPT("beta"), A_FLOATS_OPT("lambda"), A_FLOATS_OPT("epsilon"),
          A_FLOATS_OPT("max_norm_clip"), A_FLOAT_OPT("ratio_min"), A_FLOAT_OPT("ratio_max"),
          A_INT("do_bias_correction", 1))},
    {0}};

#define NO_GRAD .no_grad = "it is the step of an optimizer"
NC_TRAINING_CARD(sgd_optimizer, "SGDOptimizer", "W - ETA * G.", sgd_versions, .infer = sgd_infer, NO_GRAD,
                 .decompose = sgd_decompose);
NC_TRAINING_CARD(adam_optimizer, "AdamOptimizer", "A step of Adam for one tensor, with clipping and loss scale.",
                 adam_versions, .infer = adam_infer, NO_GRAD, .decompose = adam_decompose);
NC_TRAINING_CARD(lamb_optimizer, "LambOptimizer", "A step of LAMB: Adam's direction, as long as the weights are.",
                 lamb_versions, .infer = lamb_infer, NO_GRAD, .decompose = lamb_decompose);
