/* Products of one value with several constant matrices on a GPU (plan/lower_group.c): one launch for one row, beside
 * the CPU's results for one row, several and none. */
#include "base/dtype.h"
#include "base/text.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

enum { K = 600, PARTS = 3, MOST_ROWS = 3 };

/* (K, columns) numbers that halves hold. */
static void add_matrix(nc_text *out, const char *type, const char *name, int columns, int seed) {
    nc_text_addf(out, "%sconst %s[%d,%d] %s = {", seed ? ", " : "", type, K, columns, name);
    for (int i = 0; i < K * columns; i++)
        nc_text_addf(out, "%s%g", i ? ", " : "", (i * 7 + seed * 5) % 17 / 16.0 - 0.5);
    nc_text_add(out, "}");
}

/* What is done to x, and to the products. */
typedef struct works {
    const char *text;
    int n_out, launches; /* launches: of one row */
} works;
static const works plain = {"e = MatMul(x, a) f = MatMul(x, b) h = MatMul(x, c) q = Neg(e) r = Tanh(f) s = Neg(h)", 3,
                            4},
                   normed = {"n = RMSNormalization<epsilon = 0.01>(x, v) e = MatMul(n, a) f = MatMul(n, b) "
                             "h = MatMul(n, c) q = Neg(e) r = Tanh(f) s = Neg(h)",
                             3, 4},
                   gated = {"e = MatMul(x, a) f = MatMul(x, b) g = Sigmoid(e) h = Mul(e, g) q = Mul(h, f)", 1, 1},
                   both_of_them = {"n = RMSNormalization(x, v) e = MatMul(n, a) f = MatMul(n, b) g = Sigmoid(e) "
                                   "h = Mul(e, g) q = Mul(h, f)",
                                   1, 1};

static void add_model(nc_text *out, const char *type, const works *does, const int *columns) {
    static const char *const names[PARTS] = {"a", "b", "c"};
    nc_text_addf(out, "<opset: \"\" 23> g (%s[m,%d] x) => (q%s) <", type, K, does->n_out > 1 ? ", r, s" : "");
    for (int i = 0; i < PARTS; i++) add_matrix(out, type, names[i], columns[i], i);
    nc_text_addf(out, ", const %s[%d] v = {", type, K);
    for (int i = 0; i < K; i++) nc_text_addf(out, "%s%g", i ? ", " : "", i % 8 / 8.0 + 0.25);
    nc_text_addf(out, "}> { %s }", does->text);
}

static void feed(model *m, nacre_type type, int64_t rows) {
    static float floats[MOST_ROWS * K];
    static uint16_t halves[MOST_ROWS * K];
    const int64_t dims[2] = {rows, K};
    random_floats(floats, rows * K, 3);
    for (int64_t i = 0; i < rows * K; i++)
        halves[i] = type == NACRE_FLOAT16 ? nc_f32_to_f16(floats[i]) : nc_f32_to_bf16(floats[i]);
    model_input(m, "x", type, 2, dims, type == NACRE_FLOAT ? (void *)floats : (void *)halves);
}

static double number(nacre_type type, const void *p, int64_t i) {
    if (type == NACRE_FLOAT) return (double)((const float *)p)[i];
    uint16_t bits = ((const uint16_t *)p)[i];
    return (double)(type == NACRE_FLOAT16 ? nc_f16_to_f32(bits) : nc_bf16_to_f32(bits));
}

static void compare(nacre_type type, model *cpu, model *cuda, int n_out, nc_tolerance tolerance) {
    for (int k = 0; k < n_out; k++) {
        CHECK_INT(nacre_value_count(cpu->out[k]), nacre_value_count(cuda->out[k]));
        for (int64_t i = 0; i < nacre_value_count(cpu->out[k]); i++) {
            double want = number(type, nacre_value_data(cpu->out[k]), i);
            double got = number(type, nacre_value_data(cuda->out[k]), i);
            if (nc_close(got, want, tolerance)) continue;
            nc_test_failed(__FILE__, __LINE__, "output %d, element %lld is %.6g, on the CPU %.6g", k, (long long)i, got,
                           want);
            return;
        }
    }
}

static void check_launches(const works *does, int64_t rows) {
    const standin_control *c = standin_find();
    if (c != NULL && rows == 1)
        CHECK_INT(c->calls("cuLaunchKernelEx") + c->calls("cuLaunchKernel"), (uint64_t)does->launches);
}

static void on_both(const works *does, const char *type_name, nacre_type type, const int *columns,
                    nc_tolerance tolerance) {
    nc_text text = {0};
    model both[2];
    char why[256];
    add_model(&text, type_name, does, columns);
    for (int k = 0; k < 2; k++) model_init(&both[k], k ? "cuda" : "cpu", 1);
    bool there = nacre_env_describe_device(both[1].env, "cuda", why, sizeof why, &both[1].err) == NACRE_OK;
    if (!there) nc_test_not_run("no GPU");
    for (int k = 0; k < 2 && there; k++) model_open(&both[k], text.s);
    for (int64_t rows = 0; rows <= MOST_ROWS && there && !both[0].failed && !both[1].failed; rows++) {
        for (int k = 0; k < 2; k++) {
            feed(&both[k], type, rows);
            if (k && standin_find() != NULL) standin_find()->reset_calls();
            model_run(&both[k]);
        }
        check_launches(does, rows);
        if (!both[0].failed && !both[1].failed) compare(type, &both[0], &both[1], does->n_out, tolerance);
    }
    model_close(&both[0]), model_close(&both[1]);
    nc_text_release(&text);
}

TEST(cuda_group_of_products) {
    on_both(&plain, "float", NACRE_FLOAT, (int[]){36, 4, 60}, nc_tol_device_product_f32);
    on_both(&plain, "float16", NACRE_FLOAT16, (int[]){40, 8, 72}, nc_tol_device_f16);
    on_both(&plain, "bfloat16", NACRE_BFLOAT16, (int[]){8, 32, 33 * 8}, nc_tol_device_bf16);
}

TEST(cuda_group_of_products_with_a_norm) {
    on_both(&normed, "float", NACRE_FLOAT, (int[]){36, 4, 60}, nc_tol_device_product_f32);
    on_both(&normed, "float16", NACRE_FLOAT16, (int[]){40, 8, 72}, nc_tol_device_f16);
}

TEST(cuda_group_of_products_with_a_body) {
    on_both(&gated, "float", NACRE_FLOAT, (int[]){36, 36, 4}, nc_tol_device_product_f32);
    on_both(&both_of_them, "float", NACRE_FLOAT, (int[]){132, 132, 4}, nc_tol_device_product_f32);
    on_both(&both_of_them, "float16", NACRE_FLOAT16, (int[]){40, 40, 8}, nc_tol_device_f16);
    on_both(&gated, "float", NACRE_FLOAT, (int[]){3, 3, 4}, nc_tol_device_product_f32);
}
