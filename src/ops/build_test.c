/* ops/build_test.c: what the builder emits, as expressions. */
#include "tests/graph_testing.h"
#include "ops/lane.h"

typedef struct bench {
    nc_work w;
    nc_model *m;
    nc_builder b;
} bench;

static bool bench_init(bench *t, const char *text) {
    *t = (bench){0};
    nc_work_init(&t->w);
    t->m = test_model(&t->w, nc_ops_registry(), text);
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
    t.b.code = NC_OK;
    CHECK(nc_build_newest1(&t.b, "NoSuchOp", &x, 1, NULL, 0) == NULL);
    CHECK_INT(t.b.code, NC_E_UNSUPPORTED);
    bench_release(&t);
}
