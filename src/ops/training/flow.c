/* ops/training/flow.c: what training graphs of ONNX Runtime have between forward, backward and update: accumulation,
 * signals that something is done, sums and splits with run-time arguments, tests for numbers that are none. Here an
 * accumulator is a plain function of the old sum; a training session makes its result the next version of a variable
 * (train/bind.c). */
#include "ops/training/training.h"

/* ---- accumulation ---- */

static nc_code check_same(nc_infer *c, int i, int j) {
    const nc_type *a = nc_in(c, i), *b = nc_in(c, j);
    if (a == NULL || b == NULL || a->rank < 0 || b->rank < 0) return NC_OK;
    if (a->rank != b->rank) NC_FAIL(c->w, NC_E_SHAPE, "the sum has %d dims, the value %d", a->rank, b->rank);
    for (int k = 0; k < a->rank; k++) NC_TRY(nc_in_expect(c, j, k, a->dims[k]));
    return NC_OK;
}

static nc_code accumulator_infer(nc_infer *c) {
    NC_TRY(check_same(c, 0, 1));
    return nc_out_like(c, 0, 0);
}

static nc_code accumulator_2_infer(nc_infer *c) {
    const nc_dim *one = nc_dim_const(c->dims, 1);
    NC_TRY(check_same(c, 0, 1));
    NC_TRY(nc_out(c, 0, NC_BOOL, 1, &one));
    return nc_out_like(c, 1, 0);
}

static nc_value *added(nc_builder *b, const nc_node *n) {
    return nc_training_op2(b, "Add", n->in[0], nc_build_cast(b, n->in[1], nc_training_elem(n->in[0])));
}

static nc_code accumulator_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *signal = nc_training_rank0(b, nc_contrib_in(n, 2)), *sum = added(b, n);
    out[0] = signal != NULL ? nc_build1(b, "Where", 3, signal, sum, n->in[0]) : sum;
    return b->code;
}

static nc_code accumulator_2_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *overwrite = nc_training_rank0(b, nc_contrib_in(n, 2)), *sum = added(b, n);
    out[0] = nc_training_true(b, 1);
    if (!nc_contrib_wants(n, 1)) return b->code;
    nc_value *value = nc_build_cast(b, n->in[1], nc_training_elem(n->in[0]));
    out[1] = overwrite != NULL ? nc_build1(b, "Where", 3, overwrite, value, sum) : sum;
    return b->code;
}

static nc_code zero_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build_zeros_like(b, n->in[0]);
    return b->code;
}

/* ---- signals ---- */

static nc_code scalar_bool(nc_infer *c) { return nc_out(c, 0, NC_BOOL, 0, NULL); }

static nc_code group_infer(nc_infer *c) {
    const nc_dim *one = nc_dim_const(c->dims, 1);
    return nc_out(c, 0, NC_BOOL, 1, &one);
}

static nc_code group_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    (void)n;
    out[0] = nc_training_true(b, 1);
    return b->code;
}

static nc_code pass_infer(nc_infer *c) {
    if (c->node->n_out > c->node->n_in)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d outputs of %d inputs: expected no more", c->node->n_out, c->node->n_in);
    for (int i = 0; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

static nc_code pass_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    for (int i = 0; i < n->n_out; i++)
        if (nc_contrib_wants(n, i)) out[i] = nc_build1(b, "Identity", 1, n->in[i]);
    return b->code;
}

/* ---- numbers that are none ---- */

static nc_code bool_like(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    return x->rank < 0 ? nc_out_unknown(c, 0, NC_BOOL, -1) : nc_out(c, 0, NC_BOOL, x->rank, x->dims);
}

static nc_value *bad(nc_builder *b, nc_value *x, bool nans, bool infinities) {
    nc_value *nan = nans ? nc_build1(b, "IsNaN", 1, x) : NULL;
    if (!infinities) return nan;
    nc_value *inf = nc_build1(b, "IsInf", 1, nc_contrib_wide(b, x));
    return nan != NULL ? nc_training_op2(b, "Or", nan, inf) : inf;
}

static nc_code finite_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build1(b, "Not", 1, bad(b, n->in[0], true, true));
    return b->code;
}

/* The largest of bools as numbers, with 0 for an empty tensor. */
static nc_value *any(nc_builder *b, nc_value *flags) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    nc_value *count = nc_build_cast(b, flags, NC_INT64);
    return nc_build_attr1(b, "", "ReduceSum", &count, 1, &keep, 1);
}

static nc_code all_finite_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool nans = nc_attr_int(n, "isinf_only") == 0, infinities = nc_attr_int(n, "isnan_only") == 0;
    nc_value *count = nc_build_int(b, 0);
    for (int i = 0; i < n->n_in; i++) {
        nc_value *some = any(b, bad(b, n->in[i], nans, infinities));
        count = i == 0 ? some : nc_training_op2(b, "Add", count, some);
    }
    out[0] = nc_training_op2(b, "Equal", count, nc_build_int(b, 0));
    return b->code;
}

static nc_code all_finite_infer(nc_infer *c) {
    if (nc_attr_int(c->node, "isinf_only") != 0 && nc_attr_int(c->node, "isnan_only") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "isinf_only and isnan_only are set, at most one is expected");
    return scalar_bool(c);
}

static nc_code all_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_training_op2(b, "Equal", any(b, nc_build1(b, "Not", 1, n->in[0])), nc_build_int(b, 0));
    return b->code;
}

/* ---- norms ---- */

static nc_code norm_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *declared = c->node->out[0]->type;
    if (x == NULL) return NC_OK;
    return nc_out(c, 0, declared != NULL && declared->kind == NC_T_TENSOR ? declared->elem : x->elem, 0, NULL);
}

static nc_code norm_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    nc_value *sum = NULL;
    for (int i = 0; i < n->n_in; i++) {
        nc_value *x = nc_contrib_wide(b, n->in[i]);
        nc_value *part = nc_build_attr1(b, "", "ReduceSumSquare", &x, 1, &keep, 1);
        sum = sum == NULL ? part : nc_training_op2(b, "Add", sum, part);
    }
    nc_value *norm = nc_build1(b, "Sqrt", 1, sum);
    out[0] = nc_build_cast(b, norm, n->out[0]->type != NULL ? n->out[0]->type->elem : nc_training_elem(n->in[0]));
    return b->code;
}

/* ---- cards ---- */

#define SIGNAL(name) \
    { name, T_BOOL, OPTIONAL }
static const nc_op_version accumulator_versions[] = {
    {.since = 1,
     IN({"old_sum", T_FLOAT_ALL}, {"value", T_FLOAT_ALL}, SIGNAL("update_signal")),
     OUT({"new_sum", SAME(0)}),
     NO_ATTR},
    {0}};
static const nc_op_version accumulator_2_versions[] = {
    {.since = 1,
     IN({"accumulation_buffer", T_FLOAT_ALL}, {"value", T_FLOAT_ALL}, SIGNAL("overwrite_flag")),
     OUT({"updated_flag", T_BOOL}, {"accumulation_buffer_out", SAME(0), OPTIONAL}),
     NO_ATTR},
    {0}};
static const nc_op_version zero_versions[] = {{.since = 1,
                                               IN({"old_gradient", T_FLOAT_ALL}, {"reset_signal", T_TENSOR_ALL}),
                                               OUT({"zero_gradient", SAME(0)}),
                                               NO_ATTR},
                                              {0}};
static const nc_op_version group_versions[] = {
    {.since = 1, IN({"input_tensors", T_TENSOR_ALL, MIXED}), OUT({"done", T_BOOL}), NO_ATTR}, {0}};
static const nc_op_version pass_versions[] = {
    {.since = 1, IN({"inputs", T_TENSOR_ALL, MIXED}), OUT({"outputs", T_TENSOR_ALL, MIXED}), NO_ATTR}, {0}};
static const nc_op_version finite_versions[] = {{.since = 1, IN({"X", T_FLOAT_ALL}), OUT({"Y", T_BOOL}), NO_ATTR}, {0}};
static const nc_op_version all_finite_versions[] = {{.since = 1,
                                                     IN({"input", T_FLOAT_ALL, VARIADIC}),
                                                     OUT({"output", T_BOOL}),
                                                     ATTR(A_INT("isinf_only", 0), A_INT("isnan_only", 0))},
                                                    {0}};
static const nc_op_version all_versions[] = {{.since = 1, IN({"X", T_BOOL}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version norm_versions[] = {
    {.since = 1, IN({"X", T_FLOAT_ALL, VARIADIC}), OUT({"Y", T_FLOAT_ALL}), NO_ATTR}, {0}};

NC_TRAINING_CARD(in_place_accumulator, "InPlaceAccumulator", "The old sum plus the value, unless the signal is false.",
                 accumulator_versions, .infer = accumulator_infer, .no_grad_in = 4, .decompose = accumulator_decompose);
NC_TRAINING_CARD(in_place_accumulator_2, "InPlaceAccumulatorV2",
                 "The value, or where it shall not overwrite the sum so far plus the value.", accumulator_2_versions,
                 .infer = accumulator_2_infer, .no_grad_in = 4, .decompose = accumulator_2_decompose);
NC_TRAINING_CARD(zero_gradient, "ZeroGradient", "Zeros in the place of a gradient.", zero_versions,
                 .infer = nc_training_like_first, .decompose = zero_decompose, .zero_grad = true);
NC_TRAINING_CARD(group, "Group", "True once all inputs are there.", group_versions, .infer = group_infer,
                 .decompose = group_decompose, .zero_grad = true);
NC_TRAINING_CARD(pass_through, "PassThrough", "The inputs, once all are there.", pass_versions, .infer = pass_infer,
                 .decompose = pass_decompose);
NC_TRAINING_CARD(is_finite, "IsFinite", "Neither NaN nor an infinity.", finite_versions, .infer = bool_like,
                 .decompose = finite_decompose, .zero_grad = true);
NC_TRAINING_CARD(is_all_finite, "IsAllFinite", "No element of any input is NaN or an infinity.", all_finite_versions,
                 .infer = all_finite_infer, .decompose = all_finite_decompose, .zero_grad = true);
NC_TRAINING_CARD(all, "All", "Whether all elements are true.", all_versions, .infer = scalar_bool,
                 .decompose = all_decompose, .zero_grad = true);
NC_TRAINING_CARD(reduce_all_l2, "ReduceAllL2", "The square root of the sum of all squares of all inputs.",
                 norm_versions, .infer = norm_infer, .decompose = norm_decompose);
