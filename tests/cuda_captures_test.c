/* Captures by sizes: a model whose batch changes from run to run records each size once and replays both. By
 * instruction run the first of each size, and one more of the smaller, whose memory moved when the larger came.
 * Decoding with a cache of fixed size, whose length is a number in device memory: one capture for all tokens. Decoding
 * with a past that grows by Concat: a capture for each size of the frame's memory, in which what depends on the length
 * is changed from token to token. */
#include "tests/model.h"
#include "tests/tolerances.h"

static void alternate(model *m) {
    float x[20];
    model_option(m, "capture", "on");
    model_open(m, "<opset: \"\" 22> g (float[n,4] x) => (y) { a = Exp(x) b = ReduceSum(a) c = Mul(a, b) y = Tanh(c) }");
    random_floats(x, 20, 3);
    for (int i = 0; i < 12 && !m->failed; i++) {
        model_input(m, "x", NACRE_FLOAT, 2, D(i % 2 ? 5 : 3, 4), x);
        model_run(m);
    }
    nacre_stats s = model_stats(m);
    CHECK_INT(s.captures, 2);
    CHECK_INT(s.replays, 9);
}

TEST(cuda_alternating_sizes_replay) { model_on_cuda(alternate); }

enum { TOKENS = 500, ROOM = 16, SIZE = 4 };

/* A token: its key and value go into the caches, at a place that comes round after ROOM tokens, and it attends to what
 * they hold by then. The caches come back in the next run. */
#define DECODER                                                                                              \
    "<opset: \"\" 24> g (float[1,2,1,4] q, float[1,2,1,4] k, float[1,2,1,4] v, float[1,2,16,4] ck,"          \
    " float[1,2,16,4] cv, int64[1] at, int64[1] n) => (y, nk, nv) {"                                         \
    " nk = TensorScatter<mode = \"circular\">(ck, k, at) nv = TensorScatter<mode = \"circular\">(cv, v, at)" \
    " y = Attention(q, nk, nv, , , , n) }"

static void decode_token(model *m, int i, float *ck, float *cv) {
    float x[3 * 2 * SIZE];
    int64_t at = i, n = i < ROOM ? i + 1 : ROOM;
    random_floats(x, 3 * 2 * SIZE, (uint64_t)i + 1);
    for (int k = 0; k < 3; k++)
        model_input(m, k == 0 ? "q" : k == 1 ? "k" : "v", NACRE_FLOAT, 4, D(1, 2, 1, SIZE), x + k * 2 * SIZE);
    model_input(m, "ck", NACRE_FLOAT, 4, D(1, 2, ROOM, SIZE), ck);
    model_input(m, "cv", NACRE_FLOAT, 4, D(1, 2, ROOM, SIZE), cv);
    model_input(m, "at", NACRE_INT64, 1, D(1), &at);
    model_input(m, "n", NACRE_INT64, 1, D(1), &n);
    model_run(m);
    if (m->failed) return;
    memcpy(ck, model_floats(m, "nk", 2 * ROOM * SIZE), 2 * ROOM * SIZE * sizeof *ck);
    memcpy(cv, model_floats(m, "nv", 2 * ROOM * SIZE), 2 * ROOM * SIZE * sizeof *cv);
}

static void decode(model *m) {
    static float ck[2][2 * ROOM * SIZE], cv[2][2 * ROOM * SIZE];
    model cpu;
    model_init(&cpu, "cpu", 1);
    memset(ck, 0, sizeof ck);
    memset(cv, 0, sizeof cv);
    model_option(m, "capture", "on");
    model_option(m, "host_nodes", "off");
    model_open(m, DECODER);
    model_open(&cpu, DECODER);
    for (int i = 0; i < TOKENS && !m->failed && !cpu.failed; i++) {
        decode_token(m, i, ck[0], cv[0]);
        decode_token(&cpu, i, ck[1], cv[1]);
        if (m->failed || cpu.failed) break;
        const float *a = model_floats(m, "y", 2 * SIZE), *b = model_floats(&cpu, "y", 2 * SIZE);
        for (int k = 0; k < 2 * SIZE; k++) CHECK_CLOSE((double)a[k], (double)b[k], nc_tol_device_f32);
    }
    CHECK_INT(model_stats(m).captures, 1);
    CHECK_INT(model_stats(m).replays, TOKENS - 1);
    model_close(&cpu);
}

TEST(cuda_decoding_with_lengths_on_the_device_is_one_capture) { model_on_cuda(decode); }

/* A token whose key and value are put behind those of all before it: as tensors of the caller's that grow. */
#define GROWING                                                                                                  \
    "<opset: \"\" 23> g (float[1,2,1,4] q, float[1,2,1,4] k, float[1,2,1,4] v, float[1,2,past,4] pk,"            \
    " float[1,2,past,4] pv, float[4,4] w) => (y, nk, nv) {"                                                      \
    " nk = Concat<axis = 2>(pk, k) nv = Concat<axis = 2>(pv, v) x = MatMul(q, w) s = MatMul(x, w) t = Tanh(s) "  \
    " m = Identity(t) a = Attention(m, nk, nv) y = MatMul(a, w) }"

static void growing_token(model *m, int i, float *pk, float *pv) {
    float x[3 * 2 * SIZE], w[SIZE * SIZE];
    random_floats(x, 3 * 2 * SIZE, (uint64_t)i + 1);
    random_floats(w, SIZE * SIZE, 5);
    for (int k = 0; k < 3; k++)
        model_input(m, k == 0 ? "q" : k == 1 ? "k" : "v", NACRE_FLOAT, 4, D(1, 2, 1, SIZE), x + k * 2 * SIZE);
    model_input(m, "pk", NACRE_FLOAT, 4, D(1, 2, i + 1, SIZE), pk);
    model_input(m, "pv", NACRE_FLOAT, 4, D(1, 2, i + 1, SIZE), pv);
    model_input(m, "w", NACRE_FLOAT, 2, D(SIZE, SIZE), w);
    model_run(m);
    if (m->failed) return;
    int n = 2 * (i + 2) * SIZE;
    memcpy(pk, model_floats(m, "nk", n), (size_t)n * sizeof *pk);
    memcpy(pv, model_floats(m, "nv", n), (size_t)n * sizeof *pv);
}

static void grow(model *m) {
    static float pk[2][2 * (TOKENS + 2) * SIZE], pv[2][2 * (TOKENS + 2) * SIZE];
    model cpu;
    model_init(&cpu, "cpu", 1);
    memset(pk, 0, sizeof pk);
    memset(pv, 0, sizeof pv);
    model_option(m, "capture", "on");
    model_option(m, "host_nodes", "off");
    model_open(m, GROWING);
    model_open(&cpu, GROWING);
    for (int i = 0; i < TOKENS && !m->failed && !cpu.failed; i++) {
        growing_token(m, i, pk[0], pv[0]);
        growing_token(&cpu, i, pk[1], pv[1]);
        if (m->failed || cpu.failed) break;
        const float *a = model_floats(m, "y", 2 * SIZE), *b = model_floats(&cpu, "y", 2 * SIZE);
        for (int k = 0; k < 2 * SIZE; k++) CHECK_CLOSE((double)a[k], (double)b[k], nc_tol_device_f32);
    }
    nacre_stats s = model_stats(m);
    CHECK(s.captures <= 8);
    CHECK(s.replays >= TOKENS - 10);
    model_close(&cpu);
}

TEST(cuda_decoding_with_a_past_that_grows_by_concat_replays) { model_on_cuda(grow); }

/* One size, another after it was recorded, both in turns: the second comes by a change of the first's recording, and
 * each has its own from then on. */
static void settle(model *m) {
    float x[20];
    model_option(m, "capture", "on");
    model_open(m, "<opset: \"\" 22> g (float[n,4] x) => (y) { a = Exp(x) b = ReduceSum(a) c = Mul(a, b) y = Tanh(c) }");
    random_floats(x, 20, 3);
    for (int i = 0; i < 12 && !m->failed; i++) {
        model_input(m, "x", NACRE_FLOAT, 2, D(i > 2 && i % 2 ? 3 : 5, 4), x);
        model_run(m);
    }
    nacre_stats s = model_stats(m);
    CHECK_INT(s.captures, 2);
    CHECK_INT(s.replays, 10);
}

TEST(cuda_sizes_that_come_back_are_recorded) { model_on_cuda(settle); }

/* Where a Slice begins is found on the host in every run: the recording must not keep the first. */
static void slide(model *m) {
    float x[8];
    for (int i = 0; i < 8; i++) x[i] = (float)i;
    model_option(m, "capture", "on");
    model_open(m, "<opset: \"\" 22> g (float[8] x, int64[1] at) => (y) {"
                  " one = Constant<value = int64[1] {1}>() begin = Add(at, one) end = Add(begin, one)"
                  " s = Slice(x, begin, end) y = Neg(s) }");
    for (int64_t i = 0; i < 6 && !m->failed; i++) {
        model_input(m, "x", NACRE_FLOAT, 1, D(8), x);
        model_input(m, "at", NACRE_INT64, 1, D(1), &i);
        model_run(m);
        if (!m->failed) CHECK(model_floats(m, "y", 1)[0] == -(float)(i + 1));
    }
}

TEST(cuda_captures_follow_host_arguments) { model_on_cuda(slide); }
