/* Ops of integers that a GPU computes in pieces of wider types: no node on the host, and the CPU's very numbers, also
 * where sums leave the type. And zero points of float8, which both refuse alike. */
#include "tests/model.h"

enum { N = 24 };

typedef struct row {
    const char *text;
    nacre_type type;
    int64_t dims[2][4];
    int rank[2], n_in, n_out, bytes;
} row;

static const row rows[] = {
    {"<opset: \"\" 22> g (int8[2,3] a, int8[3,4] b) => (y) { y = Einsum<equation = \"ij,jk->ik\">(a, b) }", NACRE_INT8,
     {{2, 3}, {3, 4}}, {2, 2}, 2, 8, 1},
    {"<opset: \"\" 22> g (uint8[2,3] a, uint8[2,3] b) => (y) { y = Einsum<equation = \"ij,ij->j\">(a, b) }",
     NACRE_UINT8, {{2, 3}, {2, 3}}, {2, 2}, 2, 3, 1},
    {"<opset: \"\" 22> g (int16[2,3] a, int16[3,2] b) => (y) { y = Einsum<equation = \"ij,jk\">(a, b) }", NACRE_INT16,
     {{2, 3}, {3, 2}}, {2, 2}, 2, 4, 2},
    {"<opset: \"\" 22> g (uint16[2,3] a, uint16[0,3] b) => (y) { y = Einsum<equation = \"ij,kj->ik\">(a, b) }",
     NACRE_UINT16, {{2, 3}, {0, 3}}, {2, 2}, 2, 0, 2},
    {"<opset: \"\" 22> g (int32[1,1,3,4] a) => (y) <const float[1,2,2,2] p = {-1, -0.5, 0, 0.25, 0.7, 1, 2, -3}>"
     " { y = GridSample<mode = \"linear\">(a, p) }",
     NACRE_INT32, {{1, 1, 3, 4}}, {4}, 1, 4, 4},
    {"<opset: \"\" 22> g (uint8[1,1,3,4] a) => (y) <const float[1,2,2,2] p = {-1, -0.5, 0, 0.25, 0.7, 1, 2, -3}>"
     " { y = GridSample<mode = \"nearest\", padding_mode = \"border\">(a, p) }",
     NACRE_UINT8, {{1, 1, 3, 4}}, {4}, 1, 4, 1},
};

static void run_row(model *m, const row *r) {
    static const char *const names[] = {"a", "b"};
    static const unsigned char bytes[N * 4] = {1, 200, 3, 127, 128, 255, 7, 0, 99, 130, 31, 64, 65, 2, 254, 17};
    model_open(m, r->text);
    for (int i = 0; i < r->n_in && !m->failed; i++)
        model_input(m, names[i], r->type, r->rank[i], r->dims[i], bytes + i);
    model_run(m);
}

static void check_rows(model *gpu) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model m, cpu;
        model_init(&m, gpu->device, 2);
        model_init(&cpu, "cpu", 1);
        model_option(&m, "host_nodes", "off");
        run_row(&m, &rows[i]);
        run_row(&cpu, &rows[i]);
        nacre_value *a = m.failed ? NULL : model_out(&m, "y"), *b = cpu.failed ? NULL : model_out(&cpu, "y");
        size_t bytes = (size_t)(rows[i].n_out * rows[i].bytes);
        CHECK(a && b && nacre_value_bytes(a) == bytes && nacre_value_bytes(b) == bytes);
        if (a && b && bytes) CHECK(memcmp(nacre_value_data(a), nacre_value_data(b), bytes) == 0);
        model_close(&m);
        model_close(&cpu);
    }
}

TEST(cuda_integers_in_pieces) { model_on_cuda(check_rows); }

/* A zero point of float8 other than 0 is the same error everywhere, also where only the run brings it. */
static void refuses_zero_point(model *m) {
    static const char *const texts[] = {
        "<opset: \"\" 22> g (float[2] x, float8e4m3fn[] z) => (y)"
        " <const float[] s = {2}, const float8e4m3fn[] one = {1}>"
        " { q = QuantizeLinear(x, s, one) y = DequantizeLinear(q, s) }",
        "<opset: \"\" 22> g (float[2] x, float8e4m3fn[] z) => (y) <const float[] s = {2}>"
        " { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s) }",
        "<opset: \"\" 22> g (float[2] x, float8e4m3fn[] z) => (y)"
        " <const float[] s = {2}, const float8e4m3fn[] o = {0}>"
        " { q = QuantizeLinear(x, s, o) y = DequantizeLinear(q, s, z) }"};
    for (int i = 0; i < 3; i++) {
        model one;
        model_init(&one, m->device, 2);
        model_open(&one, texts[i]);
        model_input(&one, "x", NACRE_FLOAT, 1, D(2), (const float[]){1, 2});
        model_input(&one, "z", NACRE_FLOAT8E4M3FN, 0, D(1), "\x38");
        CHECK_INT(model_try_run(&one), NACRE_DATA);
        CHECK(strstr(one.err.text, "a zero point of float8e4m3fn is 1, expected 0") != NULL);
        model_close(&one);
    }
}

TEST(quant_float8_zero_point_must_be_zero) {
    model m;
    model_init(&m, "cpu", 1);
    refuses_zero_point(&m);
    model_close(&m);
}
TEST(cuda_quant_float8_zero_point_must_be_zero) { model_on_cuda(refuses_zero_point); }
