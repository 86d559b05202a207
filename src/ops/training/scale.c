/* ops/training/scale.c: tensors times numbers, as ONNX Runtime's passes put them into training graphs. Half types are
 * multiplied as f32. */
#include "ops/training/training.h"

static nc_value *narrowed(nc_builder *b, nc_value *v, const nc_value *like) {
    return nc_build_cast(b, v, nc_training_elem(like));
}

static nc_code scale_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = nc_contrib_wide(b, n->in[0]);
    nc_value *by = nc_build_cast(b, nc_training_rank0(b, n->in[1]), nc_training_elem(x));
    out[0] = narrowed(b, nc_training_op2(b, nc_attr_int(n, "scale_down") != 0 ? "Div" : "Mul", x, by), n->in[0]);
    return b->code;
}

static const char *const names[3] = {"scale_0", "scale_1", "scale_2"};

static nc_code sum_infer(nc_infer *c) {
    for (int i = 1; i < c->node->n_in; i++) {
        const nc_type *x = nc_in(c, 0);
        for (int k = 0; x != NULL && k < x->rank; k++) NC_TRY(nc_in_expect(c, i, k, x->dims[k]));
    }
    if (c->node->n_in > 2 && c->node->in[2] != NULL && !nc_attr_has(c->node, "scale_2"))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "there is an input_2, scale_2 is expected");
    return nc_out_like(c, 0, 0);
}

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *sum = NULL;
    for (int i = 0; i < 3; i++) {
        nc_value *x = nc_contrib_in(n, i);
        if (x == NULL) continue;
        nc_value *part = nc_training_scaled(b, nc_attr_float(n, names[i]), nc_contrib_wide(b, x));
        sum = sum == NULL ? part : nc_training_op2(b, "Add", sum, part);
    }
    out[0] = narrowed(b, sum, n->in[0]);
    return b->code;
}

static nc_code batch_infer(nc_infer *c) {
    if (c->node->n_out > 2 && !nc_attr_has(c->node, "scale_2"))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "there is an output_2, scale_2 is expected");
    for (int i = 0; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, 0));
    return NC_OK;
}

static nc_code batch_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    for (int i = 0; i < n->n_out; i++) {
        nc_value *x = nc_contrib_wide(b, n->in[0]);
        if (nc_contrib_wants(n, i))
            out[i] = narrowed(b, nc_training_scaled(b, nc_attr_float(n, names[i]), x), n->in[0]);
    }
    return b->code;
}

/* ---- MixedPrecisionScale ---- */

static nc_code mixed_infer(nc_infer *c) {
    int64_t to = nc_attr_int(c->node, "to");
    bool fused = nc_attr_int(c->node, "fuse_outputs") != 0;
    if (to <= 0 || to >= NC_N_DTYPES || !nc_dtype_is_float((nc_dtype)to))
        NC_FAIL(c->w, NC_E_TYPE, "to is %lld, expected a float type", (long long)to);
    if (c->node->n_out != (fused ? 1 : c->node->n_in - 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d outputs of %d tensors", c->node->n_out, c->node->n_in - 1);
    if (fused) return nc_out_unknown(c, 0, (nc_dtype)to, 1);
    for (int i = 0; i < c->node->n_out; i++) {
        const nc_type *x = nc_in(c, i + 1);
        if (x == NULL) continue;
        NC_TRY(x->rank < 0 ? nc_out_unknown(c, i, (nc_dtype)to, -1) : nc_out(c, i, (nc_dtype)to, x->rank, x->dims));
    }
    return NC_OK;
}

static nc_value *mixed(nc_builder *b, const nc_node *n, int i) {
    nc_value *x = nc_contrib_wide(b, n->in[i]);
    nc_value *by = nc_build_cast(b, nc_training_rank0(b, n->in[0]), nc_training_elem(x));
    return nc_build_cast(b, nc_training_op2(b, "Mul", x, by), (nc_dtype)nc_attr_int(n, "to"));
}

static nc_code mixed_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool fused = nc_attr_int(n, "fuse_outputs") != 0;
    nc_value **flat = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof(nc_value *));
    NC_NEED(b->w, flat);
    for (int i = 1; i < n->n_in; i++) {
        nc_value *y = mixed(b, n, i);
        if (!fused)
            out[i - 1] = y;
        else
            flat[i - 1] = nc_build1(b, "Reshape", 2, y, nc_build_ints(b, (const int64_t[]){-1}, 1));
    }
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    if (fused) out[0] = nc_build_attr1(b, "", "Concat", flat, n->n_in - 1, &axis, 1);
    return b->code;
}

/* ---- cards ---- */

#define NUMBER(n) \
    { .name = n, .kind = NC_A_FLOAT, .flags = NC_ATTR_REQUIRED }
#define NUMBERS ATTR(NUMBER("scale_0"), NUMBER("scale_1"), A_FLOAT_OPT("scale_2"))
static const nc_op_version scale_versions[] = {{.since = 1,
                                                IN({"input", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL | T_INDEX}),
                                                OUT({"output", SAME(0)}),
                                                ATTR(A_INT("scale_down", 0))},
                                               {0}};
static const nc_op_version sum_versions[] = {
    {.since = 1,
     IN({"input_0", T_FLOAT_ALL}, {"input_1", SAME(0)}, {"input_2", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}),
     NUMBERS},
    {0}};
static const nc_op_version batch_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}),
     OUT({"output_0", SAME(0)}, {"output_1", SAME(0)}, {"output_2", SAME(0), OPTIONAL}),
     NUMBERS},
    {0}};
static const nc_op_version mixed_versions[] = {{.since = 1,
                                                IN({"S", T_FLOAT}, {"X", T_FLOAT_ALL, VARIADIC}),
                                                OUT({"Y", T_FLOAT_ALL, VARIADIC}),
                                                ATTR(A_INT_REQ("to"), A_INT("fuse_outputs", 0))},
                                               {0}};

NC_TRAINING_CARD(scale, "Scale", "The input times a number, or divided by it.", scale_versions,
                 .infer = nc_training_like_first, .decompose = scale_decompose);
NC_TRAINING_CARD(scaled_sum, "ScaledSum", "The sum of two or three tensors, each times a number.", sum_versions,
                 .infer = sum_infer, .decompose = sum_decompose);
NC_TRAINING_CARD(batch_scale, "BatchScale", "The input times each of two or three numbers.", batch_versions,
                 .infer = batch_infer, .decompose = batch_decompose);
NC_TRAINING_CARD(mixed_precision_scale, "MixedPrecisionScale",
                 "Tensors times a number, in another type, each or behind each other as one.", mixed_versions,
                 .infer = mixed_infer, .decompose = mixed_decompose);
