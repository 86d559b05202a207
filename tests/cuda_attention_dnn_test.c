/* Attention of half types and its gradient on a GPU, as long as cuDNN is asked for, beside the CPU's results. On the
 * stand-ins also: that cuDNN was asked, or not where its graphs cannot say what is meant, and that a failure of any of
 * its calls leaves the results as they are. */
#include "base/dtype.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

#include <math.h>
#include <string.h>

enum { MAX_INPUT = 1 << 18, MAX_INS = 5 };

typedef struct row {
    const char *name, *type;
    const char *body;
    const char *outs;
    const char *ins[MAX_INS]; /* names; those of f32 end in _f, of bools in _b */
    int64_t dims[MAX_INS][4];
    bool served; /* by cuDNN */
} row;

#define QKVD \
    { "q", "k", "v", "d" }
#define ALL(b, h, s, t, c)                                       \
    {                                                            \
        {b, h, s, c}, {b, h, t, c}, {b, h, t, c}, { b, h, s, c } \
    }
static const row rows[] = {
    {"plain_causal",
     "float16",
     "y = Attention<is_causal = 1>(q, k, v)",
     "y",
     {"q", "k", "v"},
     ALL(1, 1, 260, 256, 8),
     true},
    {"plain_groups",
     "bfloat16",
     "y = Attention<scale = 0.5>(q, k, v)",
     "y",
     {"q", "k", "v"},
     {{1, 2, 256, 16}, {1, 1, 260, 16}, {1, 1, 260, 8}},
     true},
    {"plain_turned",
     "float16",
     "a = Transpose<perm = [0, 2, 1, 3]>(q) b = Transpose<perm = [0, 2, 1, 3]>(k) c = Transpose<perm = [0, 2, 1, 3]>(v)"
     " y = Attention(a, b, c)",
     "y",
     {"q", "k", "v"},
     {{1, 256, 2, 8}, {1, 256, 2, 8}, {1, 256, 2, 8}},
     true},
    {"plain_mask",
     "float16",
     "y = Attention(q, k, v, m)",
     "y",
     {"q", "k", "v", "m"},
     {{1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 256, 256}},
     true},
    {"plain_wide_mask",
     "float16",
     "y = Attention<is_causal = 1>(q, k, v, m_f)",
     "y",
     {"q", "k", "v", "m_f"},
     {{2, 1, 256, 8}, {2, 1, 256, 8}, {2, 1, 256, 8}, {2, 1, 1, 256}},
     true},
    {"back", "float16", "a, b, c = nacre.AttentionGrad(q, k, v, , , , , d)", "a, b, c", QKVD, ALL(1, 1, 256, 256, 8),
     true},
    {"back_causal",
     "bfloat16",
     "a, b, c = nacre.AttentionGrad<is_causal = 1, scale = 0.3>(q, k, v, , , , , d)",
     "a, b, c",
     QKVD,
     {{1, 2, 260, 16}, {1, 1, 256, 16}, {1, 1, 256, 8}, {1, 2, 260, 8}},
     true},
    {"masked_back_mask",
     "float16",
     "a, b, c = nacre.AttentionGrad(q, k, v, m_f, , , , d)",
     "a, b, c",
     {"q", "k", "v", "m_f", "d"},
     {{1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 256, 256}, {1, 1, 256, 8}},
     true},
    {"masked_back_wide_mask",
     "bfloat16",
     "a, b, c = nacre.AttentionGrad(q, k, v, m_f, , , , d)",
     "a, b, c",
     {"q", "k", "v", "m_f", "d"},
     {{2, 2, 256, 16}, {2, 2, 256, 16}, {2, 2, 256, 16}, {2, 1, 1, 256}, {2, 2, 256, 16}},
     true},
    {"dropout",
     "bfloat16",
     "y = nacre.AttentionDropout<ratio = 0.2>(q, k, v, m_f, , , , z) @random=3",
     "y",
     {"q", "k", "v", "m_f"},
     {{1, 2, 256, 16}, {1, 1, 260, 16}, {1, 1, 260, 8}, {1, 1, 1, 260}},
     true},
    {"drops_back",
     "float16",
     "a, b, c = nacre.AttentionDropoutGrad<is_causal = 1, ratio = 0.2>(q, k, v, , , , , d, , , z) @random=3",
     "a, b, c",
     QKVD,
     {{1, 2, 260, 16}, {1, 1, 256, 16}, {1, 1, 256, 8}, {1, 2, 260, 8}},
     true},
    {"drops_back_mask",
     "bfloat16",
     "y = nacre.AttentionDropout<ratio = 0.1>(q, k, v, m_f, , , , z) @random=3"
     " a, b, c = nacre.AttentionDropoutGrad<ratio = 0.1>(q, k, v, m_f, , , , d, , , z) @random=3",
     "y, a, b, c",
     {"q", "k", "v", "m_f", "d"},
     {{2, 2, 256, 16}, {2, 2, 256, 16}, {2, 2, 256, 16}, {2, 1, 1, 256}, {2, 2, 256, 16}},
     true},
    {"drops_back_kept", "float16",
     "y = nacre.AttentionDropout<ratio = 0.2>(q, k, v, , , , , z) @random=3"
     " a, b, c = nacre.AttentionDropoutGrad<ratio = 0.2>(q, k, v, , , , , d, , , z) @random=3",
     "y, a, b, c", QKVD, ALL(1, 1, 256, 256, 8), true},
    {"plain_capped",
     "float16",
     "y = Attention<softcap = 0.5>(q, k, v)",
     "y",
     {"q", "k", "v"},
     ALL(1, 1, 256, 256, 8),
     true},
    {"lengths", "float16", "y = Attention(q, k, v, , , , n)", "y", {"q", "k", "v"}, ALL(2, 1, 256, 256, 8), true},
    {"lengths_causal",
     "bfloat16",
     "y = Attention<is_causal = 1>(q, k, v, , , , n)",
     "y",
     {"q", "k", "v"},
     {{2, 2, 256, 16}, {2, 1, 260, 16}, {2, 1, 260, 16}},
     true},
    {"lengths_capped_window",
     "float16",
     "y = Attention<is_causal = 1, left_window_size = 30, softcap = 2.0>(q, k, v, , , , n)",
     "y",
     {"q", "k", "v"},
     ALL(2, 1, 200, 400, 8),
     true},
    {"window",
     "float16",
     "y = Attention<left_window_size = 20, right_window_size = 9>(q, k, v)",
     "y",
     {"q", "k", "v"},
     ALL(1, 1, 260, 256, 8),
     true},
    {"window_beyond",
     "float16",
     "y = Attention<is_causal = 1, left_window_size = 20>(q, k, v)",
     "y",
     {"q", "k", "v"},
     ALL(1, 1, 300, 256, 8),
     true},
    {"window_past",
     "bfloat16",
     "y, r, t = Attention<is_causal = 1, left_window_size = 70>(q, k, v, , d, e)",
     "y",
     {"q", "k", "v", "d", "e"},
     {{1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 256, 8}, {1, 1, 40, 8}, {1, 1, 40, 8}},
     true},
    {"seen",
     "float16",
     "y = Attention(q, k, v, m_b)",
     "y",
     {"q", "k", "v", "m_b"},
     {{1, 4, 256, 8}, {1, 4, 256, 8}, {1, 4, 256, 8}, {1, 1, 256, 256}},
     true},
    {"seen_of_batch",
     "bfloat16",
     "y = Attention<is_causal = 1>(q, k, v, m_b)",
     "y",
     {"q", "k", "v", "m_b"},
     {{2, 2, 256, 16}, {2, 1, 256, 16}, {2, 1, 256, 16}, {2, 1, 1, 256}},
     true},
    {"seen_lengths",
     "float16",
     "y = Attention(q, k, v, m_b, , , n)",
     "y",
     {"q", "k", "v", "m_b"},
     {{2, 1, 256, 8}, {2, 1, 256, 8}, {2, 1, 256, 8}, {1, 1, 1, 200}},
     true},
    {"seen_by_heads",
     "float16",
     "y = Attention(q, k, v, m_b)",
     "y",
     {"q", "k", "v", "m_b"},
     {{1, 2, 256, 8}, {1, 2, 256, 8}, {1, 2, 256, 8}, {1, 2, 256, 256}},
     false},
    {"masked_back_seen",
     "bfloat16",
     "a, b, c = nacre.AttentionGrad<is_causal = 1>(q, k, v, m_b, , , , d)",
     "a, b, c",
     {"q", "k", "v", "m_b", "d"},
     {{2, 2, 256, 16}, {2, 2, 256, 16}, {2, 2, 256, 16}, {2, 1, 1, 256}, {2, 2, 256, 16}},
     true},
    {"masked_back_seen_kept",
     "float16",
     "y = Attention(q, k, v, m_b) a, b, c = nacre.AttentionGrad(q, k, v, m_b, , , , d)",
     "y, a, b, c",
     {"q", "k", "v", "m_b", "d"},
     {{1, 4, 256, 8}, {1, 4, 256, 8}, {1, 4, 256, 8}, {1, 1, 256, 256}, {1, 4, 256, 8}},
     true},
    {"back_window", "float16",
     "a, b, c = nacre.AttentionGrad<is_causal = 1, left_window_size = 30>(q, k, v, , , , , d)", "a, b, c", QKVD,
     ALL(1, 1, 256, 256, 8), true},
    {"plain_odd", "float16", "y = Attention(q, k, v)", "y", {"q", "k", "v"}, ALL(1, 1, 256, 256, 12), false},
    {"plain_short", "float16", "y = Attention(q, k, v)", "y", {"q", "k", "v"}, ALL(1, 1, 64, 64, 8), false},
};

static const char *text_of(const row *r) {
    static char text[4096];
    int at = snprintf(text, sizeof text, "<opset: \"\" 25, \"nacre\" 1> g (");
    for (int i = 0; i < MAX_INS && r->ins[i] != NULL; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s[%d,%d,%d,%d] %s", i > 0 ? ", " : "",
                       strstr(r->ins[i], "_f") != NULL   ? "float"
                       : strstr(r->ins[i], "_b") != NULL ? "bool"
                                                         : r->type,
                       (int)r->dims[i][0], (int)r->dims[i][1], (int)r->dims[i][2], (int)r->dims[i][3], r->ins[i]);
    snprintf(text + at, sizeof text - (size_t)at,
             ") => (%s) <const int64[2] z = {5, 9}, const int64[2] n = {180, 0}> { %s }", r->outs, r->body);
    return text;
}

/* Of eight rows of a mask one sees nobody, and another no key before the 150th. */
static bool seen_at(int64_t line, int64_t column, float draw) {
    return line % 8 == 1 ? false : line % 8 == 0 ? column >= 150 : draw > -0.5f;
}

static void feed(model *m, const row *r) {
    static uint16_t halves[MAX_INS][MAX_INPUT];
    static float floats[MAX_INS][MAX_INPUT];
    static bool bools[MAX_INPUT];
    bool bf16 = r->type[0] == 'b';
    for (int i = 0; i < MAX_INS && r->ins[i] != NULL; i++) {
        int64_t n = 1;
        for (int d = 0; d < 4; d++) n *= r->dims[i][d];
        CHECK(n <= MAX_INPUT);
        random_floats(floats[i], n, 7 + (unsigned)i);
        for (int64_t k = 0; k < n; k++)
            halves[i][k] = bf16 ? nc_f32_to_bf16(floats[i][k]) : nc_f32_to_f16(floats[i][k]);
        bool wide = strstr(r->ins[i], "_f") != NULL;
        if (strstr(r->ins[i], "_b") != NULL) {
            for (int64_t k = 0; k < n; k++) bools[k] = seen_at(k / r->dims[i][3], k % r->dims[i][3], floats[i][k]);
            model_input(m, r->ins[i], NACRE_BOOL, 4, r->dims[i], bools);
            continue;
        }
        model_input(m, r->ins[i],
                    wide   ? NACRE_FLOAT
                    : bf16 ? NACRE_BFLOAT16
                           : NACRE_FLOAT16,
                    4, r->dims[i], wide ? (const void *)floats[i] : halves[i]);
    }
}

static const standin_control *standins(void) {
    nc_cuda_api_get();
    return standin_find();
}

static bool has_gpu(void) {
    char text[256];
    model m;
    model_init(&m, "cuda", 1);
    bool there = nacre_env_describe_device(m.env, "cuda", text, sizeof text, &m.err) == NACRE_OK;
    if (there)
        nc_test_ran_on(text);
    else
        nc_test_not_run("no GPU");
    model_close(&m);
    return there;
}

static double value_at(nacre_value *v, int64_t i) {
    const uint16_t *p = nacre_value_data(v);
    return (double)(nacre_value_type(v) == NACRE_FLOAT16 ? nc_f16_to_f32(p[i]) : nc_bf16_to_f32(p[i]));
}

static void compare(const row *r, nacre_value *a, nacre_value *b) {
    nc_tolerance tol = nacre_value_type(a) == NACRE_FLOAT16 ? nc_tol_device_f16 : nc_tol_device_bf16;
    CHECK_INT(nacre_value_count(a), nacre_value_count(b));
    for (int64_t i = 0; i < nacre_value_count(a) && i < nacre_value_count(b); i++) {
        if (nc_close(value_at(b, i), value_at(a, i), tol)) continue;
        nc_test_failed(__FILE__, __LINE__, "%s: element %lld is %.6g, on the CPU %.6g", r->name, (long long)i,
                       value_at(b, i), value_at(a, i));
        return;
    }
}

static int n_outs(const row *r) {
    int n = 1;
    for (const char *s = r->outs; *s; s++) n += *s == ',';
    return n;
}

/* Three runs: by instruction, recorded, replayed. dnn_draws: on, off. */
static void check_row_with(const row *r, const char *dnn_draws) {
    model cpu, cuda;
    model_init(&cpu, "cpu", 1);
    model_init(&cuda, "cuda", 1);
    model_option(&cuda, "capture", "on");
    model_option(&cuda, "cudnn_dropout", dnn_draws);
    model_open(&cpu, text_of(r));
    model_open(&cuda, text_of(r));
    if (!cpu.failed && !cuda.failed) {
        feed(&cpu, r), feed(&cuda, r);
        model_run(&cpu);
        for (int i = 0; i < 3 && !cuda.failed && !cpu.failed; i++) {
            model_run(&cuda);
            for (int k = 0; k < n_outs(r) && !cuda.failed; k++) compare(r, cpu.out[k], cuda.out[k]);
        }
    }
    model_close(&cpu);
    model_close(&cuda);
}

static void check_row(const row *r) { check_row_with(r, "off"); }

/* Rows with names that begin so; several tests, since cuDNN takes a second to make a plan. */
static void check_rows(const char *begin) {
    if (!has_gpu()) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(rows[i].name, begin, strlen(begin)) != 0) continue;
        if (standins() != NULL) standins()->reset_calls();
        check_row(&rows[i]);
        if (standins() != NULL && (standins()->calls("cudnnBackendExecute") > 0) != rows[i].served)
            nc_test_failed(__FILE__, __LINE__, "%s: cuDNN was called %llu times", rows[i].name,
                           (unsigned long long)standins()->calls("cudnnBackendExecute"));
    }
}
TEST(cuda_dnn_attention) { check_rows("plain"); }
TEST(cuda_dnn_attention_by_lengths) { check_rows("lengths"); }
TEST(cuda_dnn_attention_by_windows) { check_rows("window"); }
TEST(cuda_dnn_attention_by_bools) { check_rows("seen"); }
TEST(cuda_dnn_attention_drops) { check_rows("dropout"); }
TEST(cuda_dnn_attention_back) { check_rows("back"); }
TEST(cuda_dnn_attention_masked_back) { check_rows("masked_back"); }
TEST(cuda_dnn_attention_drops_back) { check_rows("drops_back"); }

/* Whatever call of cuDNN fails, the results are those of the own kernels. */
TEST(cuda_dnn_failures_leave_attention) {
    static const char *const calls[] = {"cudnnBackendCreateDescriptor", "cudnnBackendFinalize",
                                        "cudnnBackendSetAttribute", "cudnnBackendGetAttribute", "cudnnBackendExecute"};
    if (!has_gpu()) return;
    if (standins() == NULL) {
        nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        standins()->fail(calls[i], 1, 2000, false);
        check_row(&rows[5]);
        if (standins()->failed() == NULL) nc_test_failed(__FILE__, __LINE__, "%s was not called", calls[i]);
        standins()->fail(NULL, 0, 0, false);
    }
}

/* ---- cuDNN's own draws ---- */

#define DRAWS(outs, n)                                                                                        \
    {                                                                                                         \
        "cudnn_dropout", "float16",                                                                           \
            "y = nacre.AttentionDropout<is_causal = 1, ratio = 0.2>(q, k, v, , , , , z) @random=3 " outs      \
            " = nacre.AttentionDropoutGrad<is_causal = 1, ratio = 0.2>(q, k, v, , , , , d, , , z) @random=3", \
            "y, " outs, QKVD, ALL(1, 1, n, n, 8), true                                                        \
    }
static const row drawn = DRAWS("a, b, c", 256), odd = DRAWS("a, b, c", 260);

static bool opens(model *m, const row *r, const char *text) {
    model_init(m, "cuda", 1);
    model_option(m, "capture", "on");
    model_option(m, "cudnn_dropout", "on");
    model_open(m, text);
    if (!m->failed) feed(m, r);
    return !m->failed;
}

/* What the formulas give for shares that stay where `stays` says so: Y and the gradients, causal. */
enum { ROWS = 256, COLS = 8 };
typedef struct drawn_case {
    float x[4][ROWS * COLS]; /* q, k, v, dY as float16 holds them */
    bool stays[ROWS][ROWS];
    double y[4][ROWS * COLS]; /* Y, dQ, dK, dV */
} drawn_case;

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int i = 0; i < COLS; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Query i: its shares, what they are multiplied by and the gradient of its scores go out to the results. */
static void expect_query(drawn_case *c, int i, double by) {
    const float *q = c->x[0] + i * COLS, *dy = c->x[3] + i * COLS;
    double share[ROWS], sum = 0, delta = 0, scale = 1 / sqrt((double)COLS);
    for (int j = 0; j <= i; j++) sum += share[j] = exp(scale * dot(q, c->x[1] + j * COLS));
    for (int j = 0; j <= i; j++) {
        double left = (share[j] /= sum) * (c->stays[i][j] ? by : 0);
        for (int k = 0; k < COLS; k++) {
            c->y[0][i * COLS + k] += left * (double)c->x[2][j * COLS + k];
            c->y[3][j * COLS + k] += left * (double)dy[k];
        }
    }
    for (int k = 0; k < COLS; k++) delta += c->y[0][i * COLS + k] * (double)dy[k];
    for (int j = 0; j <= i; j++) {
        double ds = share[j] * ((c->stays[i][j] ? by : 0) * dot(dy, c->x[2] + j * COLS) - delta) * scale;
        for (int k = 0; k < COLS; k++) {
            c->y[1][i * COLS + k] += ds * (double)c->x[1][j * COLS + k];
            c->y[2][j * COLS + k] += ds * (double)q[k];
        }
    }
}

/* Who stays shows where a column of V is 1 for one key and 0 for the others. */
static void find_who_stays(model *m, drawn_case *c) {
    static uint16_t v[ROWS * COLS];
    const int64_t dims[4] = {1, 1, ROWS, COLS};
    for (int first = 0; first < ROWS && !m->failed; first += COLS) {
        memset(v, 0, sizeof v);
        for (int k = 0; k < COLS; k++) v[(first + k) * COLS + k] = nc_f32_to_f16(1);
        model_input(m, "v", NACRE_FLOAT16, 4, dims, v);
        model_run(m);
        for (int i = 0; i < ROWS * COLS && !m->failed; i++)
            c->stays[i / COLS][first + i % COLS] = value_at(m->out[0], i) > 0;
    }
}

static void expect_drawn(drawn_case *c, double ratio) {
    memset(c->y, 0, sizeof c->y);
    for (int i = 0; i < 4; i++) {
        random_floats(c->x[i], ROWS * COLS, 7 + (unsigned)i);
        for (int k = 0; k < ROWS * COLS; k++) c->x[i][k] = nc_f16_to_f32(nc_f32_to_f16(c->x[i][k]));
    }
    for (int i = 0; i < ROWS; i++) expect_query(c, i, 1 / (1 - ratio));
}

static void check_drawn(const model *m, const drawn_case *c) {
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < ROWS * COLS; i++)
            if (!nc_close(value_at(m->out[k], i), c->y[k][i], nc_tol_device_f16)) {
                nc_test_failed(__FILE__, __LINE__, "result %d: element %lld is %.6g, expected %.6g", k, (long long)i,
                               value_at(m->out[k], i), c->y[k][i]);
                break;
            }
}

TEST(cuda_dnn_draws_by_itself) {
    static drawn_case c;
    model cpu, cuda;
    if (!has_gpu()) return;
    model_init(&cpu, "cpu", 1);
    model_open(&cpu, text_of(&drawn));
    feed(&cpu, &drawn);
    model_run(&cpu);
    if (opens(&cuda, &drawn, text_of(&drawn))) find_who_stays(&cuda, &c);
    expect_drawn(&c, 0.2);
    if (!cuda.failed) feed(&cuda, &drawn);
    for (int run = 0; run < 3 && !cuda.failed; run++) {
        int64_t others = 0;
        model_run(&cuda);
        if (cuda.failed) break;
        check_drawn(&cuda, &c);
        for (int64_t i = 0; i < ROWS * COLS; i++)
            others += !nc_close(value_at(cuda.out[0], i), value_at(cpu.out[0], i), nc_tol_device_f16);
        CHECK(standins() == NULL || others > 1000);
    }
    model_close(&cpu);
    model_close(&cuda);
    check_row_with(&odd, "on"); /* without a way back the draws are those of the CPU */
}

/* Nobody else knows what cuDNN dropped. */
TEST(cuda_dnn_draws_have_a_gradient_or_say_so) {
    model m;
    if (!has_gpu()) return;
    if (standins() == NULL) {
        nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
        return;
    }
    static const row some = DRAWS("a", 256);
    if (opens(&m, &some, text_of(&some))) {
        CHECK_INT(model_try_run(&m), NACRE_UNSUPPORTED);
        CHECK(strstr(m.err.text, "cuDNN dropped shares, and has no gradient") != NULL);
    }
    model_close(&m);
}

/* Which kernel served the last run, and why not cuDNN's. */
static void check_way(model *m, const char *attributes, int64_t n, const char *before, const char *after) {
    static uint16_t x[MAX_INPUT];
    char text[512], *said = NULL;
    const int64_t dims[4] = {1, 1, n, 8};
    snprintf(text, sizeof text,
             "<opset: \"\" 24> g (float16[1,1,n,8] q, float16[1,1,n,8] k, float16[1,1,n,8] v) => (y) {"
             " y = Attention%s(q, k, v) }",
             attributes);
    model_open(m, text);
    for (int run = 0; run < 2 && !m->failed; run++) {
        REQUIRE(nacre_session_explain(m->session, "y", &said, &m->err) == NACRE_OK);
        CHECK(strstr(said, run ? after : before) != NULL);
        nacre_free(said);
        if (run) break;
        model_input(m, "q", NACRE_FLOAT16, 4, dims, x);
        model_input(m, "k", NACRE_FLOAT16, 4, dims, x);
        model_input(m, "v", NACRE_FLOAT16, 4, dims, x);
        model_run(m);
    }
}

static void explains_dnn(model *m) {
    bool standins = standin_find() != NULL;
    check_way(m, "<is_causal = 1>", 256, "way: chosen by the sizes of a run",
              standins ? "way: cuDNN's kernel\n" : "way: ");
}
static void explains_own(model *m) {
    check_way(m, "<is_causal = 1>", 64, "way: chosen by the sizes of a run",
              "way: Nacre's own kernel by tiles; not cuDNN's: few scores");
}
TEST(cuda_attention_explains_that_cudnn_was_taken) { model_on_cuda(explains_dnn); }
TEST(cuda_attention_explains_why_cudnn_was_not_taken) { model_on_cuda(explains_own); }
