/* ops/lane_cpu_test.c: lane nodes and chains through find, prepare and run: strides, broadcasting, in place, odd and
 * zero sizes, mixed types, refusals. */
#include "tests/graph_testing.h"
#include "ops/lane.h"

#include <stdlib.h>

typedef struct site {
    nc_work w;
    nc_model *m;
    nc_arena arena;
    nc_prep prep;
    const nc_binding *binding;
    char why[256];
} site;

static bool site_init(site *s, const char *text) {
    *s = (site){0};
    nc_work_init(&s->w);
    s->m = test_model(&s->w, nc_ops_registry(), text);
    if (s->m == NULL) return false;
    const nc_node *n = s->m->main->last;
    s->binding = nc_binding_find(n, "cpu", s->why, sizeof s->why);
    s->prep = (nc_prep){.w = &s->w, .arena = &s->arena, .node = n};
    return s->binding != NULL && nc_binding_prepare(s->binding, &s->prep) == NC_OK;
}

static void site_release(site *s) {
    if (s->m != NULL) nc_model_destroy(s->m);
    nc_arena_release(&s->arena);
    nc_work_release(&s->w);
}

static nc_code site_run(site *s, nc_tensor *in, int n_in, nc_tensor *out, int n_out) {
    nc_call c = {.state = s->prep.state,
                 .in = NC_OPERANDS(in, n_in),
                 .out = NC_OPERANDS(out, n_out),
                 .n_in = n_in,
                 .n_out = n_out};
    return s->binding->run(&c);
}

static nc_tensor vec(nc_dtype t, void *data, int64_t n, int64_t stride) {
    return (nc_tensor){.data = data, .dtype = t, .rank = 1, .dims = {n}, .strides = {stride}};
}

TEST(lane_runs_strided_and_in_place) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[n] a, float[n] b) => (y) { y = Sub(a, b) }"));
    CHECK_INT(s.prep.over[0], UINT32_MAX);
    CHECK_INT(s.prep.strided_in, UINT32_MAX);
    float a[7] = {1, 2, 3, 4, 5, 6, NAN}, b[14];
    for (int i = 0; i < 14; i++) b[i] = (float)i;
    nc_tensor in[2] = {vec(NC_FLOAT, a, 7, 1), vec(NC_FLOAT, &b[12], 7, -2)}, out = in[0];
    CHECK_INT(site_run(&s, in, 2, &out, 1), NC_OK);
    for (int i = 0; i < 6; i++) CHECK_NEAR(a[i], i + 1 - (12 - 2 * i), 0);
    CHECK(isnan(a[6]));
    in[0].dims[0] = in[1].dims[0] = out.dims[0] = 0;
    CHECK_INT(site_run(&s, in, 2, &out, 1), NC_OK);
    site_release(&s);
}

TEST(lane_mixes_types_where_the_op_does) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (int64[3] a, float[3] b) => (y) { y = Pow(a, b) }"));
    int64_t base[3] = {16, 46340, -3}, power[3];
    float exponent[3] = {0.5f, 2, 3};
    nc_tensor in[2] = {vec(NC_INT64, base, 3, 1), vec(NC_FLOAT, exponent, 3, 1)}, out = vec(NC_INT64, power, 3, 1);
    CHECK_INT(site_run(&s, in, 2, &out, 1), NC_OK);
    CHECK(power[0] == 4 && power[1] == 2147395600 && power[2] == -27);
    site_release(&s);

    REQUIRE(site_init(&s, "<opset: \"\" 17> g (bool[1] c, int64[3] a, int64[3] b) => (y) { y = Where(c, a, b) }"));
    bool c[1] = {true};
    int64_t x[3] = {INT64_MAX, -1, 9007199254740993}, z[3] = {0}, y[3];
    nc_tensor sel[3] = {vec(NC_BOOL, c, 1, 1), vec(NC_INT64, x, 3, 1), vec(NC_INT64, z, 3, 1)};
    out = vec(NC_INT64, y, 3, 1);
    CHECK_INT(site_run(&s, sel, 3, &out, 1), NC_OK);
    CHECK(memcmp(x, y, sizeof x) == 0);
    site_release(&s);
}

TEST(lane_folds_variadic_inputs) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[4] a, float[1] b, float[4] c) => (y) { y = Min(a, b, c) }"));
    float a[4] = {1, 5, 3, 7}, b[1] = {4}, c[4] = {9, 2, NAN, 8}, y[4];
    nc_tensor in[3] = {vec(NC_FLOAT, a, 4, 1), vec(NC_FLOAT, b, 1, 1), vec(NC_FLOAT, c, 4, 1)},
              out = vec(NC_FLOAT, y, 4, 1);
    CHECK_INT(site_run(&s, in, 3, &out, 1), NC_OK);
    CHECK(y[0] == 1 && y[1] == 2 && isnan(y[2]) && y[3] == 4);
    site_release(&s);
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[4] a) => (y) { y = Max(a) }"));
    out = vec(NC_FLOAT, y, 4, 1);
    CHECK_INT(site_run(&s, in, 1, &out, 1), NC_OK);
    CHECK(memcmp(a, y, sizeof a) == 0);
    site_release(&s);
}

TEST(lane_reads_parameters) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[2] a) => (y) { y = LeakyRelu<alpha = 0.5>(a) }"));
    float a[2] = {-4, 4}, y[2];
    nc_tensor in = vec(NC_FLOAT, a, 2, 1), out = vec(NC_FLOAT, y, 2, 1);
    CHECK_INT(site_run(&s, &in, 1, &out, 1), NC_OK);
    CHECK(y[0] == -2 && y[1] == 4);
    site_release(&s);
}

#define CHAIN(types, ins, outs, body, args)                                                                          \
    "<opset: \"\" 17, \"nacre\" 1> g (" types ") => (" outs ") { " outs " = nacre.Chain<body = { (" ins ") => " body \
    " }>(" args ") }"

TEST(chain_runs_in_one_pass) {
    site s;
    REQUIRE(site_init(&s, CHAIN("float[n,3] x, float[3] b, float[] k", "p, q, r", "y, c",
                                "(t, u) { s = Add(p, q) e = Mul(s, r) t = Relu(e) u = Less(q, e) }", "x, b, k")));
    float x[6] = {1, -2, 3, -4, 5, -6}, b[3] = {10, 1, -3}, k[1] = {2}, y[6];
    bool c[6];
    nc_tensor in[3] = {{.data = x, .dtype = NC_FLOAT, .rank = 2, .dims = {2, 3}, .strides = {3, 1}},
                       vec(NC_FLOAT, b, 3, 1),
                       {.data = k, .dtype = NC_FLOAT}};
    nc_tensor out[2] = {in[0], in[0]};
    out[0].data = y;
    out[1].data = c;
    out[1].dtype = NC_BOOL;
    CHECK_INT(site_run(&s, in, 3, out, 2), NC_OK);
    for (int i = 0; i < 6; i++) {
        float e = (x[i] + b[i % 3]) * 2;
        CHECK_NEAR(y[i], e > 0 ? e : 0, 0);
        CHECK_INT(c[i], b[i % 3] < e);
    }
    site_release(&s);
}

TEST(chain_reuses_registers) {
    char text[4096] =
        "<opset: \"\" 17, \"nacre\" 1> g (float[n] x) => (y) { y = nacre.Chain<body = { (p) => (t50) { t0 = Add(p, p)";
    for (int i = 1; i <= 50; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " t%d = Sub(t%d, p)", i, i - 1);
    strcat(text, " } }>(x) }");
    site s;
    REQUIRE(site_init(&s, text));
    float x[3] = {1, 2, -1}, y[3];
    nc_tensor in = vec(NC_FLOAT, x, 3, 1), out = vec(NC_FLOAT, y, 3, 1);
    CHECK_INT(site_run(&s, &in, 1, &out, 1), NC_OK);
    for (int i = 0; i < 3; i++) CHECK_NEAR(y[i], -48 * x[i], 0);
    site_release(&s);
}

static void refused(const char *text, const char *part) {
    site s;
    CHECK(!site_init(&s, text));
    CHECK(s.m != NULL);
    if (strstr(s.why, part) == NULL)
        nc_test_failed(__FILE__, __LINE__, "reason is: %s\nexpected in it: %s", s.why, part);
    site_release(&s);
}

TEST(lane_refusals_have_reasons) {
    refused(CHAIN("int64[n] a, float[n] b", "p, q", "y", "(t) { c = Less(p, p) t = Where(c, q, q) }", "a, b"), "mixes");
    refused(CHAIN("int32[n] a", "p", "y", "(t) { c = Mul(p, p) t = Add(c, p) }", "a"), "wrap");
    refused("<opset: \"\" 19> g (int32[n] a, float[n] b) => (y) { y = Pow(a, b) }", "int32 base");
    refused("<opset: \"\" 10> g (int32[n] a) => (y) { y = Erf(a) }", "floats only");
}

TEST(unknown_kernels_are_said) {
    site s;
    REQUIRE(site_init(&s, "<opset: \"\" 17> g (float[2] a) => (y) { y = Neg(a) }"));
    CHECK(nc_binding_find(s.m->main->last, "abacus", s.why, sizeof s.why) == NULL);
    CHECK_STR(s.why, "abacus: no such kernels");
    char tiny[4];
    CHECK(nc_binding_find(s.m->main->last, "abacus", tiny, sizeof tiny) == NULL);
    CHECK_STR(tiny, "aba");
    CHECK(nc_binding_find(s.m->main->last, "abacus", NULL, 0) == NULL);
    site_release(&s);
}
