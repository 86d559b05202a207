/* Large products of half types on a GPU whose operands or results have lines of odd lengths: they go through copies
 * with longer lines (ops/matmul/matmul_cuda.c), beside the CPU's results. Scores of an odd number of classes and their
 * gradient need no copies: they have longer lines from the start (plan/lower_lines.c). */
#include "base/dtype.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

enum { MOST = 513 * 513 };

static const struct {
    const char *name, *text;
    int64_t a[2], b[2];
} rows[] = {
    {"result", "(float16[256,512] a, float16[512,257] b) => (y) { y = MatMul(a, b) }", {256, 512}, {512, 257}},
    {"left, turned",
     "(float16[513,257] a, float16[513,264] b) => (y) { t = Transpose(a) y = MatMul(t, b) }",
     {513, 257},
     {513, 264}},
};

static void feed(model *m, const char *name, const int64_t *dims, unsigned seed) {
    static float floats[MOST];
    static uint16_t halves[2][MOST];
    int64_t n = dims[0] * dims[1];
    uint16_t *to = halves[seed & 1];
    random_floats(floats, n, seed);
    for (int64_t i = 0; i < n; i++) to[i] = nc_f32_to_f16(floats[i]);
    model_input(m, name, NACRE_FLOAT16, 2, dims, to);
}

static void compare(const char *name, nacre_value *a, nacre_value *b) {
    const uint16_t *x = nacre_value_data(a), *y = nacre_value_data(b);
    CHECK_INT(nacre_value_count(a), nacre_value_count(b));
    for (int64_t i = 0; i < nacre_value_count(a); i++) {
        double want = (double)nc_f16_to_f32(x[i]), got = (double)nc_f16_to_f32(y[i]);
        if (nc_close(got, want, nc_tol_device_f16)) continue;
        nc_test_failed(__FILE__, __LINE__, "%s: element %lld is %.6g, on the CPU %.6g", name, (long long)i, got, want);
        return;
    }
}

/* The graph on the CPU and on the GPU; false: there is none. */
static bool open_both(model *both, const char *graph) {
    char text[1024];
    for (int k = 0; k < 2; k++) {
        model_init(&both[k], k ? "cuda" : "cpu", 1);
        if (k && nacre_env_describe_device(both[k].env, "cuda", text, sizeof text, &both[k].err) != NACRE_OK) {
            nc_test_not_run("no GPU");
            model_close(&both[0]), model_close(&both[1]);
            return false;
        }
        snprintf(text, sizeof text, "<opset: \"\" 22, \"nacre\" 1> g %s", graph);
        model_open(&both[k], text);
    }
    return true;
}

TEST(cuda_products_of_odd_lines) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model both[2];
        if (!open_both(both, rows[i].text)) return;
        for (int k = 0; k < 2; k++) {
            if (both[k].failed) continue;
            feed(&both[k], "a", rows[i].a, 4), feed(&both[k], "b", rows[i].b, 5);
            if (standin_find() != NULL) standin_find()->reset_calls();
            model_run(&both[k]);
        }
        if (standin_find() != NULL && standin_find()->calls("cuLaunchKernel") < 2)
            nc_test_failed(__FILE__, __LINE__, "%s: nothing was copied to longer lines", rows[i].name);
        if (!both[0].failed && !both[1].failed) compare(rows[i].name, both[0].out[0], both[1].out[0]);
        model_close(&both[0]), model_close(&both[1]);
    }
}

#define GRADS                                                                                                        \
    "c = Cast<to = 1>(s) l, p = SoftmaxCrossEntropyLoss<ignore_index = 7>(c, t) f = Constant<value_float = 64.0>() " \
    "e = nacre.SoftmaxCrossEntropyLossGrad<ignore_index = 7>(f, p, t) g = Cast<to = 10>(e) "
static const struct {
    const char *name, *text;
    int64_t b[2];
} scored[] = {
    {"turned",
     "(float16[5,16] a, float16[4101,16] b, int64[5] t) => (l, dx, db) { s = Gemm<transB = 1>(a, b) " GRADS
     "dx = MatMul(g, b) db = Gemm<transA = 1>(g, a) }",
     {4101, 16}},
    {"as it is, and the classes read by others",
     "(float16[5,16] a, float16[16,4101] b, int64[5] t) => (l, dx, db, z, s) { s = MatMul(a, b) " GRADS
     "u = Transpose(b) dx = MatMul(g, u) v = Transpose(a) db = MatMul(v, g) z = Neg(g) }",
     {16, 4101}},
};

static void compare_scored(const char *name, const model *host, const model *gpu) {
    CHECK_CLOSE(*(const float *)nacre_value_data(gpu->out[0]), *(const float *)nacre_value_data(host->out[0]),
                nc_tol_device_f16);
    for (int i = 1; i < MODEL_MAX && host->out[i] != NULL; i++) compare(name, host->out[i], gpu->out[i]);
}

TEST(cuda_scores_of_odd_lines) {
    static const int64_t labels[5] = {4100, 0, 7, 4096, 2000}, rows_of_a[2] = {5, 16}, n_labels = 5;
    for (size_t i = 0; i < sizeof scored / sizeof *scored; i++) {
        model both[2];
        if (!open_both(both, scored[i].text)) return;
        for (int k = 0; k < 2; k++) {
            if (both[k].failed) continue;
            feed(&both[k], "a", rows_of_a, 4), feed(&both[k], "b", scored[i].b, 5);
            model_input(&both[k], "t", NACRE_INT64, 1, &n_labels, labels);
            model_run(&both[k]);
        }
        if (!both[0].failed && !both[1].failed) compare_scored(scored[i].name, &both[0], &both[1]);
        model_close(&both[0]), model_close(&both[1]);
    }
}
