/* Convolutions of half types on a GPU: whole networks with constant weights, which lowering gives the layout with
 * channels last, beside the CPU's results; through cuDNN where it is there. On the stand-ins also: that cuDNN was
 * asked, and that a refusal or failure of cuDNN leaves the results as they are. */
#include "base/dtype.h"
#include "tests/cuda/standin.h"
#include "tests/model.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_TEXT = 1 << 16, MAX_INPUT = 1 << 16 };

typedef struct row {
    const char *name, *type;
    int64_t dims[4];       /* of x */
    int64_t weights[4][4]; /* of w0, w1, ...; dims of 0: no more */
    const char *body;      /* from x, w0 .. and b0 .., biases of as many channels as the weight puts out, to y */
    int n_blocked;         /* convolutions with channels last */
} row;

static const row rows[] = {
    {"residual",
     "float16",
     {2, 8, 6, 5},
     {{16, 8, 3, 3}, {16, 16, 1, 1}},
     "c = Conv<pads = [1, 1, 1, 1]>(x, w0, b0) r = Relu(c) d = Conv(r, w1, b1) a = Add(d, r) y = Relu(a)",
     2},
    {"stride",
     "bfloat16",
     {1, 3, 9, 7},
     {{8, 3, 3, 3}, {8, 8, 1, 1}},
     "c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w0) y = Conv<strides = [2, 2]>(c, w1, b1)",
     2},
    {"uneven",
     "float16",
     {3, 5, 8, 6},
     {{32, 5, 2, 3}},
     "y = Conv<pads = [1, 0, 0, 2], dilations = [2, 1]>(x, w0, b0)",
     1},
    {"groups",
     "float16",
     {2, 8, 5, 5},
     {{12, 4, 3, 3}, {12, 3, 1, 1}},
     "c = Conv<group = 2>(x, w0, b0) y = Conv<group = 4>(c, w1, b1)",
     2},
    {"depthwise",
     "float16",
     {2, 6, 7, 4},
     {{6, 1, 3, 3}, {12, 1, 1, 3}},
     "c = Conv<group = 6, pads = [1, 1, 1, 1]>(x, w0, b0) y = Conv<group = 6>(c, w1)",
     2},
    {"line", "bfloat16", {2, 16, 11, 0}, {{24, 16, 3, 0}}, "y = Conv<pads = [1, 1]>(x, w0, b0)", 1},
    {"pools",
     "float16",
     {2, 4, 8, 8},
     {{8, 4, 3, 3}, {4, 8, 1, 1}},
     "c = Conv(x, w0) p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(c) q = Conv(p, w1) "
     "a = AveragePool<kernel_shape = [2, 2]>(q) y = GlobalAveragePool(a)",
     2},
    {"concat",
     "float16",
     {1, 4, 5, 5},
     {{3, 4, 1, 1}, {5, 4, 1, 1}, {6, 8, 3, 3}},
     "c = Conv(x, w0) d = Conv(x, w1) e = Concat<axis = 1>(c, d) y = Conv(e, w2, b2)",
     3},
    {"formulas",
     "float16",
     {2, 4, 6, 6},
     {{8, 4, 3, 3}, {8, 8, 1, 1}},
     "c = Conv(x, w0, b0) s = Sigmoid(c) m = Mul(c, s) d = Conv(m, w1) e = Mul(d, m) y = Tanh(e)",
     2},
    {"many",
     "float16",
     {65, 4, 4, 4},
     {{8, 4, 3, 3}, {8, 8, 1, 1}},
     "c = Conv<pads = [1, 1, 1, 1]>(x, w0, b0) r = Relu(c) d = Conv(r, w1, b1) a = Add(r, d) y = Relu(a)",
     2},
    {"one", "float16", {1, 1, 1, 1}, {{1, 1, 1, 1}}, "y = Conv(x, w0, b0)", 0},
    {"none", "float16", {0, 4, 5, 5}, {{32, 4, 3, 3}}, "y = Conv(x, w0, b0)", 1},
    {"floats", "float", {2, 4, 6, 5}, {{6, 4, 3, 3}}, "c = Conv<pads = [1, 1, 1, 1]>(x, w0, b0) y = Relu(c)", 0}};

static int rank_of(const int64_t *dims) { return dims[3] > 0 ? 4 : dims[2] > 0 ? 3 : 0; }

static size_t put_const(char *text, size_t at, const row *r, const char *name, int rank, const int64_t *dims) {
    int64_t n = 1;
    at += (size_t)snprintf(text + at, MAX_TEXT - at, "const %s[", r->type);
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
        at += (size_t)snprintf(text + at, MAX_TEXT - at, "%s%lld", i ? "," : "", (long long)dims[i]);
    }
    at += (size_t)snprintf(text + at, MAX_TEXT - at, "] %s = {", name);
    for (int64_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, MAX_TEXT - at, "%s%.4g", i ? ", " : "",
                               (double)((i * 37 + rank * 11) % 29 - 14) / 32);
    return at + (size_t)snprintf(text + at, MAX_TEXT - at, "}");
}

static const char *text_of(const row *r) {
    static char text[MAX_TEXT];
    int rank = rank_of(r->dims);
    size_t at = (size_t)snprintf(text, MAX_TEXT, "<opset: \"\" 22> g (%s[n,%lld,%lld", r->type, (long long)r->dims[1],
                                 (long long)r->dims[2]);
    if (rank == 4) at += (size_t)snprintf(text + at, MAX_TEXT - at, ",%lld", (long long)r->dims[3]);
    at += (size_t)snprintf(text + at, MAX_TEXT - at, "] x) => (y) <");
    for (int i = 0; i < 4 && r->weights[i][0] > 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        if (i) at += (size_t)snprintf(text + at, MAX_TEXT - at, ", ");
        at = put_const(text, at, r, name, rank, r->weights[i]);
        at += (size_t)snprintf(text + at, MAX_TEXT - at, ", ");
        snprintf(name, sizeof name, "b%d", i);
        at = put_const(text, at, r, name, 1, r->weights[i]);
    }
    snprintf(text + at, MAX_TEXT - at, "> { %s }", r->body);
    return text;
}

static void feed(model *m, const row *r) {
    static uint16_t halves[MAX_INPUT];
    static float floats[MAX_INPUT];
    int64_t n = 1;
    int rank = rank_of(r->dims);
    nacre_type t = r->type[0] == 'b' ? NACRE_BFLOAT16 : r->type[5] == '1' ? NACRE_FLOAT16 : NACRE_FLOAT;
    for (int i = 0; i < rank; i++) n *= r->dims[i];
    CHECK(n <= MAX_INPUT);
    random_floats(floats, n, 7);
    for (int64_t i = 0; i < n; i++)
        halves[i] = t == NACRE_FLOAT16 ? nc_f32_to_f16(floats[i]) : nc_f32_to_bf16(floats[i]);
    model_input(m, "x", t, rank, r->dims, t == NACRE_FLOAT ? (const void *)floats : halves);
}

static double value_at(nacre_value *v, int64_t i) {
    const uint16_t *p = nacre_value_data(v);
    if (nacre_value_type(v) == NACRE_FLOAT) return (double)((const float *)(const void *)p)[i];
    return (double)(nacre_value_type(v) == NACRE_FLOAT16 ? nc_f16_to_f32(p[i]) : nc_bf16_to_f32(p[i]));
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

static void compare(const row *r, model *cpu, model *cuda) {
    nacre_value *a = cpu->out[0], *b = cuda->out[0];
    nc_tolerance tol = nacre_value_type(a) == NACRE_FLOAT     ? nc_tol_device_f32
                       : nacre_value_type(a) == NACRE_FLOAT16 ? nc_tol_device_f16
                                                              : nc_tol_device_bf16;
    CHECK_INT(nacre_value_count(a), nacre_value_count(b));
    for (int64_t i = 0; i < nacre_value_count(a) && i < nacre_value_count(b); i++) {
        if (nc_close(value_at(b, i), value_at(a, i), tol)) continue;
        nc_test_failed(__FILE__, __LINE__, "%s: element %lld is %.6g, on the CPU %.6g", r->name, (long long)i,
                       value_at(b, i), value_at(a, i));
        return;
    }
}

/* Three runs: by instruction, recorded, replayed. */
static void check_row(const row *r, bool packing) {
    model cpu, cuda;
    model_init(&cpu, "cpu", 1);
    model_init(&cuda, "cuda", 1);
    model_option(&cuda, "capture", "on");
    if (!packing) model_option(&cuda, "packing", "off");
    model_open(&cpu, text_of(r));
    model_open(&cuda, text_of(r));
    if (!cpu.failed && !cuda.failed) {
        feed(&cpu, r), feed(&cuda, r);
        model_run(&cpu);
        int n = model_dump_count(&cuda, "lowered", "nacre.ConvBlocked");
        if (n != r->n_blocked)
            nc_test_failed(__FILE__, __LINE__, "%s: %d convolutions with channels last, expected %d", r->name, n,
                           r->n_blocked);
        for (int i = 0; i < 3 && !cuda.failed; i++) {
            model_run(&cuda);
            if (!cuda.failed) compare(r, &cpu, &cuda);
        }
    }
    model_close(&cpu);
    model_close(&cuda);
}

TEST(cuda_dnn_convolutions_with_channels_last) {
    if (!has_gpu()) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (standins() != NULL) standins()->reset_calls();
        check_row(&rows[i], true);
        bool served = rows[i].dims[0] > 0 && rows[i].dims[0] <= 64;
        if (standins() != NULL && (standins()->calls("cudnnBackendExecute") > 0) != served)
            nc_test_failed(__FILE__, __LINE__, "%s: cuDNN was called %llu times", rows[i].name,
                           (unsigned long long)standins()->calls("cudnnBackendExecute"));
        check_row(&rows[i], false);
    }
}

/* Whatever call of cuDNN fails, the results are those of the own kernels. */
TEST(cuda_dnn_failures_leave_the_results) {
    static const char *const calls[] = {
        "cudnnCreate",    "cudnnBackendCreateDescriptor", "cudnnBackendFinalize", "cudnnBackendSetAttribute",
        "cudnnSetStream", "cudnnBackendGetAttribute",     "cudnnBackendExecute"};
    if (!has_gpu()) return;
    if (standins() == NULL) {
        nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        standins()->fail(calls[i], 1, 2000, false);
        check_row(&rows[0], true);
        if (standins()->failed() == NULL) nc_test_failed(__FILE__, __LINE__, "%s was not called", calls[i]);
        standins()->fail(NULL, 0, 0, false);
    }
}
