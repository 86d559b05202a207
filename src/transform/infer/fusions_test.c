/* transform/infer/fusions_test.c: the matcher of pattern.h and what is made by it: activations, normalizations, Gemm;
 * and scales and shifts that go into weights. With the near misses that stay as they are. */
#include "tests/passes.h"

#include "transform/pattern.h"

/* ---- the matcher ---- */

static bool matches(const char *graph, const char *pattern) {
    bench b;
    char text[400];
    bool is = false;
    snprintf(text, sizeof text, "<opset: \"\" 21> g (float[n] x, float[n] z) => (y) %s", graph);
    if (bench_init(&b, text)) {
        nc_match m;
        b.m->infers_only = true;
        is = nc_pattern_match(pattern, b.m->main->last, &m);
    }
    bench_release(&b);
    return is;
}

TEST(patterns_are_read_along_the_graph) {
    CHECK(matches("{ y = Neg(x) }", "Neg(a)"));
    CHECK(!matches("{ y = Neg(x) }", "Abs(a)"));
    CHECK(!matches("{ y = Neg(x) }", "Ne(a)") && !matches("{ y = Neg(x) }", "Nega(a)"));
    CHECK(matches("{ y = Add(x, z) }", "Add(a, b)") && !matches("{ y = Add(x, z) }", "Add(a, a)"));
    CHECK(matches("{ y = Sub(x, x) }", "Sub(a, a)") && !matches("{ y = Sub(x, z) }", "Sub(a, a)"));
    CHECK(!matches("{ y = Max(x, z, x) }", "Max(a, b)") && matches("{ y = Max(x, z, x) }", "Max(a, b, ..)"));
    CHECK(matches("{ a = Neg(x); y = Mul(x, a) }", "Mul(Neg(v), v)"));
    CHECK(matches("{ a = Neg(x); y = Sub(x, a) }", "Sub(v, Neg(v))"));
    CHECK(!matches("{ a = Neg(x); y = Sub(x, a) }", "Sub(Neg(v), v)"));
}

TEST(patterns_know_constants) {
    const char *half = "<const float[] c = {0.5}> { y = Mul(c, x) }";
    CHECK(matches(half, "Mul(a, 0.5)") && matches(half, "Mul(a, #c)") && matches(half, "Mul(a, b)"));
    CHECK(!matches(half, "Mul(a, 0.50001)") && !matches(half, "Mul(a, -0.5)"));
    CHECK(!matches("{ y = Mul(z, x) }", "Mul(a, #c)"));
    CHECK(matches("<const float[2] c = {2, 2}> { y = Mul(c, x) }", "Mul(a, 2)"));
    CHECK(!matches("<const float[2] c = {2, 3}> { y = Mul(c, x) }", "Mul(a, 2)"));
    CHECK(!matches("<const float[] c = {nan}> { y = Mul(c, x) }", "Mul(a, 2)"));
    CHECK(!matches("<const float[0] c = {}> { y = Mul(c, x) }", "Mul(a, 2)"));
    CHECK(!matches("<var float[] c = {0.5}> { y = Mul(c, x) }", "Mul(a, 0.5)"));
}

TEST(patterns_are_whole) {
    CHECK(matches("{ d = Neg(x); e = Abs(d); y = Div(d, e) }", "Div(d=Neg(v), Abs(d))"));
    CHECK(!matches("{ d = Neg(x); f = Neg(x); e = Abs(f); y = Div(d, e) }", "Div(d=Neg(v), Abs(d))"));
    /* What is inside is also used outside. */
    CHECK(!matches("{ d = Neg(x); e = Exp(d); y = Abs(d) }", "Abs(Neg(v))"));
    CHECK(!matches("{ d = Neg(x); y = Abs(d) @stage=1 }", "Abs(Neg(v))"));
    CHECK(!matches("{ d = Neg(x) @recompute; y = Abs(d) }", "Abs(Neg(v))"));
}

/* ---- activations ---- */

#define ERF "a = Div(x, r); b = Erf(a); c = Add(b, o); d = Mul(x, h); y = Mul(d, c)"
#define GELU_CONSTS(r) "<const float[] r = {" r "}, const float[] o = {1}, const float[] h = {0.5}>"

TEST(gelu_is_found) {
    BECOMES_AT("20", "(float[n,4] x) => (y) " GELU_CONSTS("1.4142135") " { " ERF " }", "activations dead_code",
               "=> (float[n,4] y)\n{\n  y = Gelu(x)\n}\n");
    BECOMES_AT(
        "20",
        "(float[n,4] x) => (y) <const float[] t = {3}, const float[] k = {0.044715}, const float[] r = {0.7978846}, "
        "const float[] o = {1}, const float[] h = {0.5}> { a = Pow(x, t); float[n,4] b = Mul(k, a); c = Add(x, b); d = "
        "Mul(c, r); "
        "e = Tanh(d); float[n,4] f = Add(o, e); g = Mul(x, f); float[n,4] y = Mul(h, g) }",
        "activations dead_code", "=> (float[n,4] y)\n{\n  y = Gelu<approximate = \"tanh\">(x)\n}\n");
    BECOMES_AT("20",
               "(float[n,4] x) => (y) <const float[] k = {0.044715}, const float[] r = {0.7978846}, const float[] o = "
               "{1}, const float[] h = {0.5}> { float[n,4] a = Mul(k, x); b = Mul(x, a); c = Mul(x, b); d = Add(x, c); "
               "float[n,4] e = Mul(r, d); f = Tanh(e); float[n,4] i = Add(o, f); float[n,4] j = Mul(h, i); y = Mul(x, "
               "j) }",
               "activations dead_code", "=> (float[n,4] y)\n{\n  y = Gelu<approximate = \"tanh\">(x)\n}\n");
}

/* Opsets without Gelu get that of com.microsoft. */
TEST(gelu_is_found_before_the_opset_has_it) {
    BECOMES_AT("17", "(float[n,4] x) => (y) " GELU_CONSTS("1.4142135") " { " ERF " }", "activations dead_code",
               "=> (float[n,4] y)\n{\n  y = com.microsoft.Gelu(x)\n}\n");
    BECOMES_AT(
        "17",
        "(float[n,4] x) => (y) <const float[] t = {3}, const float[] k = {0.044715}, const float[] r = {0.7978846}, "
        "const float[] o = {1}, const float[] h = {0.5}> { a = Pow(x, t); float[n,4] b = Mul(k, a); c = Add(x, b); d = "
        "Mul(c, r); "
        "e = Tanh(d); float[n,4] f = Add(o, e); g = Mul(x, f); float[n,4] y = Mul(h, g) }",
        "activations dead_code", "=> (float[n,4] y)\n{\n  y = com.microsoft.FastGelu(x)\n}\n");
}

TEST(gelu_near_misses_stay) {
    static const struct {
        const char *opset, *head, *body;
    } rows[] = {
        {"19", GELU_CONSTS("1.4"), ERF},
        {"20", GELU_CONSTS("1.4"), ERF},
        {"20", GELU_CONSTS("1.4142135"), ERF "; z = Neg(c)"}, /* a part is used elsewhere */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        char text[400];
        snprintf(text, sizeof text, "<opset: \"\" %s> g (float[n,4] x) => (y%s) %s { %s }", rows[i].opset,
                 i == 2 ? ", z" : "", rows[i].head, rows[i].body);
        if (bench_init(&b, text)) {
            int n = b.m->main->n_nodes;
            b.m->infers_only = true;
            CHECK_INT(run_passes(&b, "activations dead_code", 3), NC_OK);
            if (b.m->main->n_nodes != n) nc_test_failed(__FILE__, __LINE__, "fused: %s", text);
        }
        bench_release(&b);
    }
    /* Training may still move the constants; and basic is a level below. */
    bench b;
    if (bench_init(&b, "<opset: \"\" 20> g (float[n,4] x) => (y) " GELU_CONSTS("1.4142135") " { " ERF " }")) {
        CHECK_INT(run_passes(&b, "activations", 3), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 5);
        b.m->infers_only = true;
        CHECK_INT(run_passes(&b, "activations", 1), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 5);
        CHECK_INT(run_passes(&b, "activations dead_code", 2), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 1);
    }
    bench_release(&b);
}

TEST(other_activations_are_found) {
    BECOMES_AT("24", "(float[n] x) => (y) { a = Sigmoid(x); y = Mul(a, x) }", "activations dead_code",
               "=> (float[n] y)\n{\n  y = Swish(x)\n}\n");
    BECOMES_AT("24", "(float[n] x) => (y) <const float[] c = {1.5}> { s = Mul(c, x); a = Sigmoid(s); y = Mul(x, a) }",
               "activations dead_code", "=> (float[n] y)\n{\n  y = Swish<alpha = 1.5>(x)\n}\n");
    BECOMES_AT("14", "(float[n] x) => (y) { a = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x); y = Mul(x, a) }",
               "activations dead_code", "=> (float[n] y)\n{\n  y = HardSwish(x)\n}\n");
    BECOMES_AT("14", "(float[n] x) => (y) { a = HardSigmoid(x); y = Mul(x, a) }", "activations dead_code",
               "=> (float[n] y)\n{\n  a = HardSigmoid(x)\n  y = Mul(x, a)\n}\n");
    BECOMES_AT(
        "14",
        "(float[n] x) => (y) <const float[] t = {3}, const float[] o = {0}, const float[] s = {6}> { a = Add(x, t); "
        "b = Clip(a, o, s); c = Mul(x, b); y = Div(c, s) }",
        "activations dead_code", "=> (float[n] y)\n{\n  y = HardSwish(x)\n}\n");
    BECOMES_AT("18", "(float[n] x) => (y) { a = Softplus(x); b = Tanh(a); y = Mul(x, b) }", "activations dead_code",
               "=> (float[n] y)\n{\n  y = Mish(x)\n}\n");
}

TEST(clip_is_found) {
    BECOMES("(float[n] x) => (y) <const float[] a = {-1}, const float[] b = {2}> { m = Max(x, a); y = Min(m, b) }",
            "activations dead_code",
            "=> (float[n] y)\n<const float[] a = {-1},\n const float[] b = {2}>\n{\n  y = Clip(x, a, b)\n}\n");
    /* Bounds the other way round: the last one wins. */
    BECOMES(
        "(float[n] x) => (y) <const float[] a = {2}, const float[] b = {-1}> { m = Max(x, a); y = Min(m, b) }",
        "activations dead_code",
        "=> (float[n] y)\n<const float[] a = {2},\n const float[] b = {-1}>\n{\n  m = Max(x, a)\n  y = Min(m, b)\n}\n");
    BECOMES("(float[2] x) => (y) <const float[] a = {0}, const float[2] b = {1, 2}> { m = Max(x, a); y = Min(m, b) }",
            "activations dead_code",
            "=> (float[2] y)\n<const float[] a = {0},\n const float[2] b = {1, 2}>\n{\n  m = Max(x, a)\n  y = Min(m, "
            "b)\n}\n");
    bench b;
    REQUIRE(bench_init(
        &b, "<opset: \"\" 17> g (float[n] x) => (y) <const float[1] s = {6}> { r = Relu(x); y = Min(s, r) }"));
    nc_graph_find(b.m->main, "y")->type = nc_graph_find(b.m->main, "x")->type;
    b.m->infers_only = true;
    CHECK_INT(run_passes(&b, "activations dead_code", 3), NC_OK);
    const nc_node *clip = b.m->main->first;
    double lo, hi;
    CHECK(b.m->main->n_nodes == 1 && nc_rewrite_is(clip, "Clip") && clip->n_in == 3);
    CHECK(clip->in[1]->lit->rank == 0 && nc_rewrite_number(clip->in[1]->lit, 0, &lo) && lo == 0);
    CHECK(clip->in[2]->lit->rank == 0 && nc_rewrite_number(clip->in[2]->lit, 0, &hi) && hi == 6);
    bench_release(&b);
}

/* ---- normalizations ---- */

#define LN_HEAD "<const float[] t = {2}, const float[] e = {0.25}>"
#define LN(axes) LN_OF("float", axes)
#define LN_OF(type, axes)                                                                \
    type "[n,1] m = ReduceMean<axes = " axes ">(x); d = Sub(x, m); p = Pow(d, t); " type \
         "[n,1] v = ReduceMean<axes = " axes ">(p); w = Add(v, e); r = Sqrt(w); q = Div(d, r); g = Mul(q, s)"

TEST(layer_normalization_is_found) {
    BECOMES("(float[n,4] x, float[4] s, float[4] b) => (y) " LN_HEAD " { " LN("[-1]") "; y = Add(g, b) }",
            "normalizations dead_code",
            "=> (float[n,4] y)\n{\n  y = LayerNormalization<axis = -1, epsilon = 0.25>(x, s, b)\n}\n");
    BECOMES("(float[n,4] x, float[4] s) => (y) " LN_HEAD " { " LN("[1]") "; y = Neg(g) }", "normalizations dead_code",
            "=> (float[n,4] y)\n{\n  g = LayerNormalization<axis = -1, epsilon = 0.25>(x, s)\n  y = Neg(g)\n}\n");
    BECOMES_AT("23",
               "(float[n,4] x, float[4] s) => (y) <const float[] e = {0.25}, const int64[1] k = {-1}> { p = Mul(x, x); "
               "float[n,1] v = ReduceMean(p, k); w = Add(v, e); r = Sqrt(w); q = Div(x, r); float[n,4] y = Mul(s, q) }",
               "normalizations dead_code",
               "=> (float[n,4] y)\n{\n  y = RMSNormalization<axis = -1, epsilon = 0.25>(x, s)\n}\n");
}

TEST(normalizations_near_misses_stay) {
    static const char *const rows[] = {
        "(float[n,4] x, float[4] s) => (g) " LN_HEAD " { " LN("[0]") " }",   /* not the last axis */
        "(float[n,4] x, float[n,1] s) => (g) " LN_HEAD " { " LN("[1]") " }", /* scale has other dims */
        "(float[n,4] x, float[1] s) => (g) " LN_HEAD " { " LN("[1]") " }",
        "(double[n,4] x, double[4] s) => (g) <const double[] t = {2}, const double[] e = {0.25}> { " LN_OF("double",
                                                                                                           "[1]") " }",
        "(float[n,4] x, float[4] s) => (g) <const float[] t = {3}, const float[] e = {0.25}> { " LN("[1]") " }",
        "(float[n,4] x, float[4] s, float[] e) => (g) <const float[] t = {2}> { " LN("[1]") " }",
        "(float[n,4] x, float[4] s) => (g, m) " LN_HEAD " { " LN("[1]") " }", /* the mean is an output */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        LEAVES("<opset: \"\" 17> g", rows[i], "normalizations dead_code", 3, 8);
    /* before opset 17 the op is ONNX Runtime's alone */
    LEAVES("<opset: \"\" 16> g", "(float[n,4] x, float[4] s) => (g) " LN_HEAD " { " LN("[1]") " }",
           "normalizations dead_code", 3, 8);
}

TEST(activations_are_newer_than_the_opset) {
    bench b;
    if (bench_init(&b, "<opset: \"\" 13> g (float[n,4] x) => (y) { s = Sigmoid(x)  y = Mul(s, x) }")) {
        b.m->infers_only = true;
        CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 3}), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 2); /* a file of opset 13 has no Swish */
        CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 1);
        CHECK_STR(b.m->main->first->card->name, "Swish");
    }
    bench_release(&b);
}

/* A session, which saves nothing any more, makes it nevertheless. */
TEST(normalizations_are_newer_than_the_opset) {
    bench b;
    if (bench_init(&b, "<opset: \"\" 13> g (float[n,4] x, float[4] s) => (g) " LN_HEAD " { " LN("[1]") " }")) {
        b.m->infers_only = true;
        CHECK_INT(nc_transform(&b.w, b.m, &(nc_transform_options){.level = 3, .newer = true}), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 1);
        CHECK_STR(b.m->main->first->card->name, "LayerNormalization");
        CHECK_INT(b.m->main->first->version->since, 17);
    }
    bench_release(&b);
}

/* ---- powers ---- */

#define POWER(type, e) "(" type "[n] x) => (y) <const " type "[] e = {" e "}> { y = Pow(x, e) }"

TEST(powers_are_products_and_roots) {
    BECOMES(POWER("float", "2"), "powers dead_code", "=> (float[n] y)\n{\n  y = Mul(x, x)\n}\n");
    BECOMES(POWER("float16", "2"), "powers dead_code", "=> (float16[n] y)\n{\n  y = Mul(x, x)\n}\n");
    BECOMES(POWER("double", "3"), "powers dead_code",
            "=> (double[n] y)\n{\n  Mul_4_out = Mul(x, x)\n  y = Mul(Mul_4_out, x)\n}\n");
    BECOMES(POWER("float", "0.5"), "powers dead_code", "=> (float[n] y)\n{\n  y = Sqrt(x)\n}\n");
    BECOMES(POWER("bfloat16", "-1"), "powers dead_code", "=> (bfloat16[n] y)\n{\n  y = Reciprocal(x)\n}\n");
    BECOMES(POWER("float", "-0.5"), "powers dead_code",
            "=> (float[n] y)\n{\n  Sqrt_4_out = Sqrt(x)\n  y = Reciprocal(Sqrt_4_out)\n}\n");
}

TEST(powers_near_misses_stay) {
    static const char *const rows[] = {
        "(float[n] x, float[] e) => (y) { y = Pow(x, e) }",                              /* no constant */
        "(float[n] x) => (y) <const float[] e = {2.000001}> { y = Pow(x, e) }",          /* near, not the same */
        "(float[n] x) => (y) <const float[2] e = {2, 3}> { y = Pow(x, e) }",             /* two of them */
        "(int32[n] x) => (y) <const int32[] e = {2}> { y = Pow(x, e) }",                 /* whole numbers */
        "(float[1] x) => (y) <const float[3] e = {2, 2, 2}> { float[3] y = Pow(x, e) }", /* more elements than x has */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) LEAVES("<opset: \"\" 17> g", rows[i], "powers", 3, 1);
}

/* ---- gemms ---- */

TEST(gemms_take_in_what_stands_around) {
    BECOMES("(float[n,4] x, float[4,3] w, float[3] b) => (y) { float[n,3] m = MatMul(x, w); float[n,3] y = Add(m, b) }",
            "gemms dead_code", "=> (float[n,3] y)\n{\n  y = Gemm(x, w, b)\n}\n");
    BECOMES("(float[n,4] x, float[3,4] w, float[3] b) => (y) { float[n,3] m = Gemm<transB = 1, beta = 2>(x, w); "
            "float[n,3] y = Add(b, m) }",
            "gemms dead_code", "=> (float[n,3] y)\n{\n  y = Gemm<transB = 1>(x, w, b)\n}\n");
    BECOMES("(float[4,n] x, float[3,4] w) => (y) { float[n,4] a = Transpose(x); float[4,3] b = Transpose<perm = [1, "
            "0]>(w); "
            "float[n,3] y = MatMul(a, b) }",
            "gemms dead_code", "=> (float[n,3] y)\n{\n  y = Gemm<transA = 1, transB = 1>(x, w)\n}\n");
    /* More dims; an addend that widens. */
    BECOMES("(float[k,n,4] x, float[4,3] w, float[3] b) => (y) { float[k,n,3] m = MatMul(x, w); float[k,n,3] y = "
            "Add(m, b) }",
            "gemms dead_code", "=> (float[k,n,3] y)\n{\n  m = MatMul(x, w)\n  y = Add(m, b)\n}\n");
    BECOMES(
        "(float[1,4] x, float[4,3] w, float[n,3] b) => (y) { float[1,3] m = MatMul(x, w); float[n,3] y = Add(m, b) }",
        "gemms dead_code", "=> (float[n,3] y)\n{\n  m = MatMul(x, w)\n  y = Add(m, b)\n}\n");
}

/* ---- weights ---- */

TEST(batch_normalization_goes_into_conv) {
    BECOMES(
        "(float[n,1,h,w] x) => (y) <const float[2,1,1,1] k = {2, 4}, const float[2] b = {1, 3}, "
        "const float[2] s = {3, 1}, const float[2] t = {5, 7}, const float[2] m = {1, 2}, const float[2] v = {9, 4}> { "
        "float[n,2,h,w] c = Conv(x, k, b); float[n,2,h,w] z = BatchNormalization<epsilon = 0.0>(c, s, t, m, v); y = "
        "Exp(z) }",
        "weights dead_code",
        "=> (float[n,2,h,w] y)\n<const float[2,1,1,1] Conv_7_weight = {2, 2},\n const float[2] Conv_7_bias = {5, "
        "7.5}>\n"
        "{\n  c = Conv(x, Conv_7_weight, Conv_7_bias)\n  y = Exp(c)\n}\n");
}

/* ---- scales ---- */

TEST(batch_normalization_becomes_a_product_and_a_sum) {
    BECOMES(
        "(float[n,2,h,w] x) => (y) <const float[2] s = {3, 1}, const float[2] t = {5, 7}, const float[2] m = {1, 2}, "
        "const float[2] v = {9, 4}> { float[n,2,h,w] z = BatchNormalization<epsilon = 0.0>(x, s, t, m, v); y = "
        "Relu(z) }",
        "scales dead_code",
        "=> (float[n,2,h,w] y)\n<const float[2,1,1] BatchNormalization_5_scale = {1, 0.5},\n const float[2,1,1] "
        "BatchNormalization_5_shift = {4, 6}>\n{\n  Mul_11_out = Mul(x, BatchNormalization_5_scale)\n  z = "
        "Add(Mul_11_out, BatchNormalization_5_shift)\n  y = Relu(z)\n}\n");
    static const char *const rows[] = {
        /* statistics of the batch, or such that change */
        "<const float[2] s = {1, 2}> { float[n,2,h] d, e, f = BatchNormalization<training_mode = 1>(x, s, s, s, s) }",
        "<const float[2] s = {1, 2}, var float[2] m = {1, 2}> { float[n,2,h] d = BatchNormalization(x, s, s, m, s) }",
        /* scales of other types, and those that would leave a number's range */
        "<const float[2] s = {1, 2}, const double[2] t = {1, 2}> { d = BatchNormalization(x, s, s, t, t) }",
        "<const float[2] s = {1, 1e30}> { float[n,2,h] d = BatchNormalization(x, s, s, s, s) }",
        /* a mean that is taken away first, or its bits are lost */
        "<const float[2] s = {1, 2}, const float[2] m = {1, 1e5}> { d = BatchNormalization(x, s, s, m, s) }",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        LEAVES("<opset: \"\" 17> g (float[n,2,h] x) => (d)", rows[i], "scales dead_code", 3, 1);
}

#define BATCHED                                                                                                       \
    "<const float[1,2] k = {2, 4}, const float[2] s = {3, 1}, const float[2] t = {5, 7}, const float[2] m = {1, 2}, " \
    "const float[2] v = {9, 4}, const int64[2] r = {-1, 2}> { "

TEST(batch_normalization_goes_into_rows_of_a_product) {
    BECOMES("(float[n,5,1] x) => (y) " BATCHED "float[n,5,2] c = MatMul(x, k); float[q,2] f = Reshape(c, r); "
            "float[q,2] z = BatchNormalization<epsilon = 0.0>(f, s, t, m, v); y = Exp(z) }",
            "weights dead_code",
            "=> (float[q,2] y)\n<const int64[2] r = {-1, 2},\n const float[1,2] MatMul_7_weight = {2, 2},\n const "
            "float[2] MatMul_7_bias = {4, 6}>\n{\n  c = MatMul(x, MatMul_7_weight)\n  Add_17_out = Add(c, "
            "MatMul_7_bias)\n  f = Reshape(Add_17_out, r)\n  y = Exp(f)\n}\n");
    /* channels that are no columns, rows that somebody else reads */
    LEAVES("<opset: \"\" 17> g (float[n,5,1] x) => (z)",
           BATCHED "float[n,5,2] c = MatMul(x, k); float[2,p] f = Reshape(c, r); "
                   "float[2,p] z = BatchNormalization(f, s, t, m, v) }",
           "weights dead_code", 3, 3);
    LEAVES("<opset: \"\" 17> g (float[q,1] x) => (z, c)",
           BATCHED "float[q,2] c = MatMul(x, k); float[q,2] z = BatchNormalization(c, s, t, m, v) }",
           "weights dead_code", 3, 2);
}

TEST(scales_and_shifts_go_into_weights) {
    BECOMES("(float[n,1,h,w] x) => (y) <const float[2,1,1,1] k = {2, 4}, const float[2,1,1] s = {0.5, 2}, "
            "const float[] t = {1}> { float[n,2,h,w] c = Conv(x, k); d = Mul(c, s); e = Sub(d, t); y = Exp(e) }",
            "weights dead_code",
            "=> (float[n,2,h,w] y)\n<const float[2,1,1,1] Conv_4_weight = {1, 8},\n const float[2] Conv_4_bias = {-1, "
            "-1}>\n"
            "{\n  c = Conv(x, Conv_4_weight, Conv_4_bias)\n  y = Exp(c)\n}\n");
    BECOMES("(float[n,2] x) => (y) <const float[2,2] k = {1, 2, 3, 4}, const float[2] s = {10, 100}> { "
            "float[n,2] c = Gemm(x, k); float[n,2] d = Mul(s, c); y = Exp(d) }",
            "weights dead_code",
            "=> (float[n,2] y)\n<const float[2,2] Gemm_3_weight = {10, 200, 30, 400},\n"
            " const float[2] Gemm_3_bias = {0, 0}>\n{\n  c = Gemm(x, Gemm_3_weight, Gemm_3_bias)\n  y = Exp(c)\n}\n");
    BECOMES("(float[n,2] x) => (y) <const float[2,2] k = {1, 2, 3, 4}, const float[1,2] b = {1, 2}, const float[2] s = "
            "{2, 4}> "
            "{ float[n,2] c = Gemm<transB = 1>(x, k, b); float[n,2] d = Div(c, s); y = Exp(d) }",
            "weights dead_code",
            "=> (float[n,2] y)\n<const float[2,2] Gemm_4_weight = {0.5, 1, 0.75, 1},\n"
            " const float[2] Gemm_4_bias = {0.5, 0.5}>\n{\n  c = Gemm<transB = 1>(x, Gemm_4_weight, Gemm_4_bias)\n"
            "  y = Exp(c)\n}\n");
}

/* (C, K, k): every K-th row belongs to the channel. */
TEST(scales_and_shifts_go_into_conv_transpose) {
    BECOMES("(float[n,2,h] x) => (y) <const float[2,3,1] k = {1, 2, 3, 4, 5, 6}, const float[3,1] s = {10, 100, 1000}, "
            "const float[3,1] t = {1, 2, 3}> { float[n,3,h] c = ConvTranspose(x, k); d = Mul(c, s); e = Add(d, t); "
            "y = Exp(e) }",
            "weights dead_code",
            "=> (float[n,3,h] y)\n<const float[2,3,1] ConvTranspose_4_weight = {10, 200, 3000, 40, 500, 6000},\n"
            " const float[3] ConvTranspose_4_bias = {1, 2, 3}>\n"
            "{\n  c = ConvTranspose(x, ConvTranspose_4_weight, ConvTranspose_4_bias)\n  y = Exp(c)\n}\n");
}

TEST(weights_near_misses_stay) {
    static const char *const rows[] = {
        /* channels of several groups are not side by side */
        "<const float[1,2,1,1] k = {2, 4}, const float[] s = {2}> "
        "{ float[n,2,h,2] c = ConvTranspose<group = 2>(x, k); d = Mul(c, s) }",
        /* along another axis than the channels */
        "<const float[2,1,1,1] k = {2, 4}, const float[2] s = {1, 2}> { float[n,2,h,2] c = Conv(x, k); d = Mul(c, s) }",
        /* the weights, or the scale, are no constants */
        "<var float[2,1,1,1] k = {2, 4}, const float[] s = {2}> { float[n,2,h,2] c = Conv(x, k); d = Mul(c, s) }",
        "<const float[2,1,1,1] k = {2, 4}, var float[] s = {2}> { float[n,2,h,2] c = Conv(x, k); d = Mul(c, s) }",
        /* a number divided by what comes out */
        "<const float[2,1,1,1] k = {2, 4}, const float[] s = {2}> { float[n,2,h,2] c = Conv(x, k); float[n,2,h,2] d = "
        "Div(s, c) }",
        /* factors that would take the weights out of their range */
        "<const float[2,1,1,1] k = {1, 2}, const float[] s = {0}> { float[n,2,h,2] c = Conv(x, k); float[n,2,h,2] d = "
        "Div(c, s) }",
        "<const float[2,1,1,1] k = {1, 2}, const float[] s = {1e30}> { float[n,2,h,2] c = Conv(x, k); float[n,2,h,2] d "
        "= "
        "Mul(c, s) }",
        /* statistics of the batch */
        "<const float[2,1,1,1] k = {2, 4}, const float[2] s = {1, 2}> { float[n,2,h,2] c = Conv(x, k); float[n,2,h,2] "
        "d, "
        "float[2] e, float[2] f = BatchNormalization<training_mode = 1>(c, s, s, s, s) }",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        LEAVES("<opset: \"\" 17> g (float[n,1,h,2] x) => (d)", rows[i], "weights dead_code", 3, 2);
}
