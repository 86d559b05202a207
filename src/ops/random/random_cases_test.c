/* ops/random/random_cases_test.c: the cases of the random family (ops/cases.h), and that draws follow seed, node and
 * step. */
#include "ops/cases_testing.h"

#include "kernels/cpu/random/philox.h"
#include "tests/graph_testing.h"

extern const nc_case nc_random_cases[];

#define DROPOUT(attrs, x, t)                                                                                          \
    "<opset: \"\" 22, \"nacre\" 1> g (" x " x, int64[2] s) => (y, m) <const float[] r = {0.25}, const bool[] t = {" t \
    "}> { y, m = nacre.PhiloxDropout" attrs "(x, r, t, s) @random=7 }"

#define S "<opset: \"\" 22, \"nacre\" 1> g (int64[2] s) => (y) "
#define DRAWN {{0, 1000}}, NC_CASE_NO_GRAD | NC_CASE_EXACT
#define LIKE "<opset: \"\" 22, \"nacre\" 1> g (float[3,n] x, int64[2] s) => (y) "

const nc_case nc_random_cases[] = {
    {"dropout", DROPOUT("", "float[3,n]", "1"), {{-2, 2}, {0, 1000}}, NC_CASE_NO_GRAD},
    {"dropout_off", DROPOUT("", "float[3,n]", "0"), {{-2, 2}, {0, 1000}}, NC_CASE_NO_GRAD},
    {"dropout_seed", DROPOUT("<seed = 5>", "float[301,67]", "1"), {{-2, 2}, {0, 1000}}, NC_CASE_NO_GRAD},
    {"dropout_empty", DROPOUT("", "float[0,3]", "1"), {{-2, 2}, {0, 1000}}, NC_CASE_NO_GRAD},
    {"dropout_half", DROPOUT("", "float16[3,n]", "1"), {{-2, 2}, {0, 1000}}, NC_CASE_NO_GRAD},
    {"random_step",
     "<opset: \"\" 22, \"nacre\" 1> g (int64[2] s) => (y) { y = nacre.RandomStep(s) }",
     {{0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"uniform",
     S "{ y = nacre.PhiloxUniform<shape = [3, 701], low = -2.0, high = 3.0>(s) @random=3 }",
     {{0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"uniform_empty",
     S "{ y = nacre.PhiloxUniform<shape = [0, 7]>(s) @random=3 }",
     {{0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"normal",
     S "{ y = nacre.PhiloxNormal<shape = [9001], mean = 1.0, scale = 0.5, seed = 4.0>(s) @random=3 }",
     {{0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"normal_half",
     S "{ y = nacre.PhiloxNormal<shape = [7], dtype = 10>(s) @random=3 }",
     {{0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"uniform_like",
     LIKE "{ y = nacre.PhiloxUniformLike(x, s) @random=3 }",
     {{0, 1}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"normal_like",
     LIKE "{ y = nacre.PhiloxNormalLike(x, s) @random=3 }",
     {{0, 1}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"bernoulli",
     LIKE "{ y = nacre.PhiloxBernoulli<dtype = 7>(x, s) @random=3 }",
     {{0, 1}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"multinomial",
     LIKE "{ y = nacre.PhiloxMultinomial<sample_size = 5>(x, s) @random=3 }",
     {{-3, 3}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"uniform_double", S "{ y = nacre.PhiloxUniform<shape = [30], dtype = 11, high = 5.5>(s) @random=3 }", DRAWN},
    {"uniform_half", S "{ y = nacre.PhiloxUniform<shape = [31], dtype = 16, low = -5.5>(s) @random=3 }", DRAWN},
    {"normal_double", S "{ y = nacre.PhiloxNormal<shape = [2000], dtype = 11>(s) @random=9 }", DRAWN},
    {"bernoulli_bool",
     "<opset: \"\" 22, \"nacre\" 1> g (bfloat16[3,n] x, int64[2] s) => (y) "
     "{ y = nacre.PhiloxBernoulli<dtype = 9, seed = 2.0>(x, s) @random=3 }",
     {{0, 1}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {"multinomial_pieces",
     "<opset: \"\" 22, \"nacre\" 1> g (double[3,1000] x, int64[2] s) => (y) "
     "{ y = nacre.PhiloxMultinomial<sample_size = 300, dtype = 7>(x, s) @random=3 }",
     {{-3, 3}, {0, 1000}},
     NC_CASE_NO_GRAD | NC_CASE_EXACT},
    {0}};

TEST(random_values) { nc_cases_check_values(nc_random_cases); }
TEST(random_isas) { nc_cases_check_isas(nc_random_cases); }

enum { N = 4096 };

/* The mask of a PhiloxDropout node with these ids; returns how many are kept, -1 on failure. */
static int64_t draw(const char *attrs, int64_t id, int64_t seed, int64_t step, float ratio, uint8_t *mask,
                    nc_code *code) {
    char text[256];
    float x[N], y[N];
    int64_t state[2] = {seed, step}, kept = -1;
    bool training = true;
    nc_work w;
    nc_work_init(&w);
    snprintf(text, sizeof text,
             "<opset: \"\" 22, \"nacre\" 1> g (float[4096] x, float[] r, bool[] t, int64[2] s) => (y, m) "
             "{ y, m = nacre.PhiloxDropout%s(x, r, t, s) @random=%lld }",
             attrs, (long long)id);
    for (int i = 0; i < N; i++) x[i] = 1;
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    char why[128];
    const nc_binding *b = m != NULL ? nc_binding_find(m->main->first, "cpu", why, sizeof why) : NULL;
    nc_prep prep = {.w = &w, .arena = &w.scratch, .node = m != NULL ? m->main->first : NULL};
    nc_tensor in[4] = {{.data = x, .dtype = NC_FLOAT, .rank = 1, .dims = {N}, .strides = {1}},
                       {.data = &ratio, .dtype = NC_FLOAT},
                       {.data = &training, .dtype = NC_BOOL},
                       {.data = state, .dtype = NC_INT64, .rank = 1, .dims = {2}, .strides = {1}}};
    nc_tensor out[2] = {in[0], in[0]};
    out[0].data = y;
    out[1].data = mask;
    out[1].dtype = NC_BOOL;
    if (b != NULL && nc_binding_prepare(b, &prep) == NC_OK) {
        nc_call c = {.state = prep.state,
                     .in = NC_OPERANDS(in, 4),
                     .out = NC_OPERANDS(out, 2),
                     .n_in = 4,
                     .n_out = 2,
                     .diag = &w.diag,
                     .node = "d",
                     .op = "PhiloxDropout"};
        *code = b->run(&c);
        kept = 0;
        for (int i = 0; i < N; i++) kept += mask[i];
    }
    if (m != NULL) nc_model_destroy(m);
    nc_work_release(&w);
    return kept;
}

TEST(random_dropout_follows_seed_node_and_step) {
    static uint8_t a[N], b[N];
    nc_code code = NC_E_FAIL;
    int64_t kept = draw("", 3, 11, 5, 0.25f, a, &code);
    CHECK_INT(code, NC_OK);
    CHECK(kept > N * 7 / 10 && kept < N * 8 / 10);
    CHECK_INT(draw("", 3, 11, 5, 0.25f, b, &code), kept);
    CHECK(memcmp(a, b, N) == 0);
    draw("", 4, 11, 5, 0.25f, b, &code);
    CHECK(memcmp(a, b, N) != 0);
    draw("", 3, 12, 5, 0.25f, b, &code);
    CHECK(memcmp(a, b, N) != 0);
    draw("", 3, 11, 6, 0.25f, b, &code);
    CHECK(memcmp(a, b, N) != 0);
    draw("<seed = 11>", 3, 99, 5, 0.25f, b, &code);
    CHECK(memcmp(a, b, N) == 0);
    CHECK_INT(draw("", 3, 11, 5, 1.0f, b, &code), 0);
    draw("", 3, 11, 5, 1.5f, b, &code);
    CHECK_INT(code, NC_E_DATA);
}

/* Mean, deviation, and that a tensor drawn in pieces has the bits of one drawn at once. */
TEST(random_normal_numbers) {
    static float whole[N], part[N];
    double sum = 0, squares = 0;
    nck_rng rng = {.seed = 5, .node_id = 2, .step = 9};
    nck_random_normal(NC_FLOAT, N, rng, 2, 3, whole, NULL);
    for (int i = 0; i < N; i++) {
        sum += (double)whole[i];
        squares += ((double)whole[i] - 2) * ((double)whole[i] - 2);
    }
    CHECK_CLOSE(sum / N, 2, nc_tol_draws);
    CHECK_CLOSE(sqrt(squares / N), 3, nc_tol_draws);
    rng.first = 1001;
    nck_random_normal(NC_FLOAT, N - 1001, rng, 2, 3, part, NULL);
    CHECK(memcmp(whole + 1001, part, (N - 1001) * sizeof(float)) == 0);
}

TEST(random_classes_follow_their_probabilities) {
    double logits[6] = {0, 0, -INFINITY, 3, 4, -INFINITY}, sums[3];
    static int64_t y[2 * N];
    int64_t n[2][3] = {{0}};
    nck_random_classes(2, 3, N, (nck_rng){.seed = 8, .node_id = 1}, logits, sums, y);
    for (int64_t i = 0; i < 2 * N; i++) n[i / N][y[i]]++;
    CHECK(n[0][0] > N * 45 / 100 && n[0][1] > N * 45 / 100 && n[0][2] == 0);
    CHECK(n[1][1] > N * 69 / 100 && n[1][1] < N * 77 / 100 && n[1][2] == 0);
}
