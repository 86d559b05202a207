/* ops/build_test.c: what the builder emits, as expressions. Shape, Reshape, Expand, ReduceSum, Cast and Transpose
 * are cards of this file, so that the test knows the builder alone. */
#include "tests/graph_testing.h"
#include "ops/lane.h"

static nc_code like_input(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code shape_infer(nc_infer *c) {
    int rank;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_INT64, 1);
    const nc_dim *n = nc_dim_const(c->dims, rank);
    NC_TRY(nc_out(c, 0, NC_INT64, 1, &n));
    return nc_out_elems(c, 0, rank, c->in[0].type->dims);
}

static nc_code to_shape_infer(nc_infer *c) {
    int n;
    const nc_dim *const *dims = nc_in_elems(c, 1, &n);
    return dims != NULL ? nc_out(c, 0, nc_in(c, 0)->elem, n, dims) : nc_out_unknown(c, 0, nc_in(c, 0)->elem, -1);
}

static nc_code reduce_infer(nc_infer *c) {
    int64_t axes[NC_MAX_RANK];
    int n, rank, r = 0;
    const nc_dim *dims[NC_MAX_RANK];
    if (!nc_in_ints(c, 1, axes, NC_MAX_RANK, &n) || !nc_in_rank(c, 0, &rank))
        NC_FAIL(c->w, NC_E_FAIL, "axes and rank wanted");
    for (int i = 0; i < rank; i++) {
        bool summed = false;
        for (int k = 0; k < n; k++) summed |= axes[k] == i;
        if (!summed)
            dims[r++] = nc_in_dim(c, 0, i);
        else if (nc_attr_int(c->node, "keepdims"))
            dims[r++] = nc_dim_const(c->dims, 1);
    }
    return nc_out(c, 0, nc_in(c, 0)->elem, r, dims);
}

#define ROW(...)                         \
    (const nc_op_version[]) {            \
        {.since = 1, __VA_ARGS__}, { 0 } \
    }
static const nc_card fakes[] = {
    {.name = "Shape", .infer = shape_infer, .versions = ROW(IN({"x", T_ANYTHING}), OUT({"y", T_I64}), NO_ATTR)},
    {.name = "Reshape",
     .infer = to_shape_infer,
     .versions = ROW(IN({"x", T_ANYTHING}, {"s", T_I64}), OUT({"y", SAME(0)}), ATTR(A_INT("allowzero", 0)))},
    {.name = "Expand",
     .infer = to_shape_infer,
     .versions = ROW(IN({"x", T_ANYTHING}, {"s", T_I64}), OUT({"y", SAME(0)}), NO_ATTR)},
    {.name = "ReduceSum",
     .infer = reduce_infer,
     .versions = ROW(IN({"x", T_ANYTHING}, {"a", T_I64}), OUT({"y", SAME(0)}),
                     ATTR(A_INT("keepdims", 1), A_INT("noop_with_empty_axes", 0)))},
    {.name = "Cast",
     .infer = like_input,
     .versions = ROW(IN({"x", T_ANYTHING}), OUT({"y", T_ANYTHING}), ATTR(A_INT_REQ("to")))},
    {.name = "Transpose",
     .infer = like_input,
     .versions = ROW(IN({"x", T_ANYTHING}), OUT({"y", SAME(0)}), ATTR(A_INTS_OPT("perm")))},
};

static const nc_card *fake_find(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    for (size_t i = 0; domain[0] == '\0' && i < sizeof fakes / sizeof fakes[0]; i++)
        if (strcmp(fakes[i].name, op) == 0) return &fakes[i];
    return NULL;
}

typedef struct bench {
    nc_work w;
    nc_registry registry;
    nc_model *m;
    nc_builder b;
} bench;

static bool bench_init(bench *t, const char *text) {
    *t = (bench){.registry = {.find = fake_find, .base = nc_ops_registry()}};
    nc_work_init(&t->w);
    t->m = test_model(&t->w, &t->registry, text);
    if (t->m == NULL) return false;
    t->b = (nc_builder){.w = &t->w, .graph = t->m->main, .stage = NC_STAGE_BACKWARD, .infer = nc_infer_node};
    return true;
}

static void bench_release(bench *t) {
    if (t->m != NULL) nc_model_destroy(t->m);
    nc_work_release(&t->w);
}

static nc_value *val(bench *t, const char *name) { return nc_graph_find(t->m->main, name); }

TEST(build_sums_what_broadcasting_added) {
    bench t;
    REQUIRE(bench_init(
        &t, "<opset: \"\" 17> g (float[n,3,4] dy, float[n,3,4] same, float[4] bias, float[n,1,4] row, float[1,4] both, "
            "float[k,3,4] open, float[] scalar, float[1,n] late) => (y) { y = Neg(dy) }"));
    nc_value *dy = val(&t, "dy");
    CHECK(nc_build_sum_to(&t.b, dy, val(&t, "same")) == dy);
    CHECK_EXPR(nc_build_sum_to(&t.b, dy, val(&t, "bias")), "ReduceSum(dy, [0 1], keepdims=0, noop_with_empty_axes=1)");
    CHECK_EXPR(nc_build_sum_to(&t.b, dy, val(&t, "row")), "ReduceSum(dy, [1], keepdims=1, noop_with_empty_axes=1)");
    CHECK_EXPR(nc_build_sum_to(&t.b, dy, val(&t, "scalar")),
               "ReduceSum(dy, [0 1 2], keepdims=0, noop_with_empty_axes=1)");
    nc_value *both = nc_build_sum_to(&t.b, dy, val(&t, "both"));
    REQUIRE(both != NULL);
    CHECK_EXPR(both, "Reshape(ReduceSum(dy, [0 1], keepdims=0, noop_with_empty_axes=1), [1 4], allowzero=1)");
    CHECK_TYPE(both->type, "float[1,4]");
    nc_value *open = nc_build_sum_to(&t.b, dy, val(&t, "open"));
    CHECK_EXPR(open, "nacre.SumTo(dy, Shape(open))");
    CHECK_TYPE(open->type, "float[k,3,4]");
    CHECK_INT(t.b.code, NC_OK);
    CHECK_INT(open->def->stage, NC_STAGE_BACKWARD);
    bench_release(&t);
}

TEST(build_likes_and_casts) {
    bench t;
    REQUIRE(bench_init(&t, "<opset: \"\" 9> g (float[n,3] x, float[2,3] fixed, int64[3] i) => (y) { y = Neg(x) }"));
    nc_value *x = val(&t, "x"), *fixed = val(&t, "fixed");
    CHECK_EXPR(nc_build_zeros_like(&t.b, x), "Expand(0, Shape(x))");
    CHECK_EXPR(nc_build_zeros_like(&t.b, fixed), "Expand(0, [2 3])");
    CHECK(nc_build_reshape_like(&t.b, x, x) == x);
    CHECK(nc_build_cast(&t.b, x, NC_FLOAT) == x);
    CHECK_EXPR(nc_build_cast(&t.b, val(&t, "i"), NC_FLOAT), "Cast(i, to=1)");
    nc_value *swapped = nc_build_swap_last(&t.b, x);
    REQUIRE(swapped != NULL);
    CHECK_INT(swapped->def->attrs[0].ints[0], 1);
    CHECK_INT(swapped->def->attrs[0].ints[1], 0);
    CHECK_INT(nc_build1(&t.b, "Add", 2, x, x)->def->version->since, 14);
    bench_release(&t);
}

TEST(build_errors_stick) {
    bench t;
    REQUIRE(bench_init(&t, "<opset: \"\" 17> g (float[2] x, float[3] z) => (y) { y = Neg(x) }"));
    nc_value *x = val(&t, "x"), *bad = nc_build1(&t.b, "Add", 2, x, val(&t, "z"));
    CHECK(bad == NULL);
    CHECK_INT(t.b.code, NC_E_SHAPE);
    CHECK(nc_build1(&t.b, "Neg", 1, bad) == NULL);
    CHECK(nc_build_scalar(&t.b, NC_FLOAT, 1) == NULL);
    CHECK(nc_build_cast(&t.b, x, NC_FLOAT) == NULL);
    CHECK(nc_build_sum_to(&t.b, NULL, x) == NULL);
    CHECK_INT(t.b.code, NC_E_SHAPE);
    t.b.code = NC_OK;
    CHECK(nc_build1(&t.b, "NoSuchOp", 1, x) == NULL);
    CHECK_INT(t.b.code, NC_E_UNSUPPORTED);
    bench_release(&t);
}
