/* Blocks of transformers on the GPU (or its stand-in): the results are the CPU's within tolerance, and nothing but
 * copies at the borders runs on the host, so a whole model stays on the device. A bad index is told as on the CPU. */
#include "tests/model.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "<opset: \"\" 17> g "

/* Hidden 8, two heads. */
#define BERT                                                                                                         \
    HEAD "(int64[1,s] ids, int64[1,s] mask, float[11,8] words, float[1,5,8] places, float[8] one, float[8,8] w, "    \
         "float[8,16] up, float[16,8] down) => (y) "                                                                 \
         "<const int64[4] split = {0, 0, 2, 4}, const int64[3] join = {0, 0, 8}, const float[] scale = {0.5}, "      \
         "const float[] far = {-1000}, const int64[2] ahead = {1, 2}, const float[] root = {1.4142135}, "            \
         "const float[] half = {0.5}, const float[] unit = {1}, const int64[] first = {0}> { "                       \
         "e = Gather(words, ids) e1 = Add(e, places) x = LayerNormalization(e1, one, one) "                          \
         "m = Unsqueeze(mask, ahead) mf = Cast<to = 1>(m) gone = Sub(unit, mf) bias = Mul(gone, far) "               \
         "q = MatMul(x, w) q4 = Reshape(q, split) qt = Transpose<perm = [0,2,1,3]>(q4) "                             \
         "k = MatMul(x, w) k4 = Reshape(k, split) kt = Transpose<perm = [0,2,3,1]>(k4) "                             \
         "v = MatMul(x, w) v4 = Reshape(v, split) vt = Transpose<perm = [0,2,1,3]>(v4) "                             \
         "r = MatMul(qt, kt) rs = Mul(r, scale) rm = Add(rs, bias) p = Softmax<axis = -1>(rm) c = MatMul(p, vt) "    \
         "ct = Transpose<perm = [0,2,1,3]>(c) cr = Reshape(ct, join) o = MatMul(cr, w) o1 = Add(o, x) "              \
         "n = LayerNormalization(o1, one, one) f = MatMul(n, up) fd = Div(f, root) fe = Erf(fd) f1 = Add(fe, unit) " \
         "f2 = Mul(f, f1) f3 = Mul(f2, half) g = MatMul(f3, down) g1 = Add(g, n) z = LayerNormalization(g1, one) "   \
         "t = Gather<axis = 1>(z, first) y = Tanh(t) }"

/* With a past: keys and values grow by Concat; the mask is a slice of a table. */
#define GPT2                                                                                                    \
    HEAD "(int64[1,3] ids, float[1,2,2,4] past_k, float[1,2,2,4] past_v, float[11,8] words, float[8] one, "     \
         "float[8,24] w, float[8,8] out, float[5,5] table) => (y, k, v) "                                       \
         "<const int64[4] split = {0, 0, 2, 4}, const int64[3] join = {0, 0, 8}, const float[] scale = {0.5}, " \
         "const int64[3] thirds = {8, 8, 8}, const int64[1] from = {2}, const int64[1] to = {5}, "              \
         "const int64[1] rows = {0}, const float[] nothing = {0}, const float[] far = {-1000}, "                \
         "const int64[2] turn = {1, 0}> { "                                                                     \
         "x = Gather(words, ids) h = LayerNormalization(x, one, one) qkv = MatMul(h, w) "                       \
         "a, b, c = Split<axis = 2>(qkv, thirds) a4 = Reshape(a, split) q = Transpose<perm = [0,2,1,3]>(a4) "   \
         "b4 = Reshape(b, split) bt = Transpose<perm = [0,2,1,3]>(b4) k = Concat<axis = 2>(past_k, bt) "        \
         "c4 = Reshape(c, split) ct = Transpose<perm = [0,2,1,3]>(c4) v = Concat<axis = 2>(past_v, ct) "        \
         "kt = Transpose<perm = [0,1,3,2]>(k) r = MatMul(q, kt) rs = Mul(r, scale) "                            \
         "tri = Trilu<upper = 0>(table) t = Slice(tri, from, to, rows) seen = Greater(t, nothing) "             \
         "rm = Where(seen, rs, far) p = Softmax<axis = -1>(rm) o = MatMul(p, v) "                               \
         "ot = Transpose<perm = [0,2,1,3]>(o) oj = Reshape(ot, join) u = MatMul(oj, out) x1 = Add(u, x) "       \
         "n = LayerNormalization(x1, one) y = MatMul(n, out) }"

static bool has_cuda(void) {
    char text[256];
    model m;
    model_init(&m, "cuda", 1);
    bool has = nacre_env_describe_device(m.env, "cuda", text, sizeof text, &m.err) == NACRE_OK;
    if (has) nc_test_ran_on(text);
    model_close(&m);
    return has;
}

static void feed(model *m, int64_t s) {
    float data[512];
    int64_t ids[16], on[16];
    for (size_t i = 0; i < nacre_session_n_inputs(m->session); i++) {
        int rank;
        int64_t dims[16], n = 1;
        nacre_type t = nacre_session_input_type(m->session, i, &rank, dims);
        for (int d = 0; d < rank; d++) n *= dims[d] = dims[d] < 0 ? s : dims[d];
        const char *name = nacre_session_input_name(m->session, i);
        random_floats(data, n, i + 1);
        for (int64_t k = 0; k < n && k < 16; k++) ids[k] = k * 7 % 11 - (k == 1 ? 11 : 0), on[k] = k + 1 < n;
        model_input(m, name, t, rank, dims, t == NACRE_FLOAT ? (void *)data : strcmp(name, "ids") == 0 ? ids : on);
    }
}

static void compare(model *cpu, model *gpu) {
    for (size_t i = 0; i < nacre_session_n_outputs(cpu->session); i++) {
        const float *want = nacre_value_data(cpu->out[i]), *got = nacre_value_data(gpu->out[i]);
        for (int64_t k = 0; k < nacre_value_count(cpu->out[i]); k++)
            CHECK_CLOSE((double)got[k], (double)want[k], nc_tol_device_f32);
    }
}

/* Instructions on the host but for the arithmetic of shapes, which belongs there; -1: no program. */
static int n_host_work(model *m) {
    char *text = NULL;
    int n = 0;
    if (m->failed || nacre_session_dump(m->session, "program", &text, &m->err) != NACRE_OK) return -1;
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end) *end++ = 0;
        if (strstr(line, " host  ") && !strstr(line, "= Shape(") && !strstr(line, "= Gather(")) n++;
    }
    nacre_free(text);
    return n;
}

/* Three runs: instruction by instruction, recorded, replayed. */
static void check_block(const char *graph) {
    model cpu, gpu;
    if (!has_cuda()) {
        nc_test_not_run("no GPU here");
        return;
    }
    model_init(&cpu, "cpu", 1);
    model_init(&gpu, "cuda", 1);
    model_option(&gpu, "dumps", "on");
    model_open(&cpu, graph);
    model_open(&gpu, graph);
    for (int i = 0; i < 3 && !cpu.failed && !gpu.failed; i++) {
        feed(&cpu, 5);
        feed(&gpu, 5);
        model_run(&cpu);
        model_run(&gpu);
        if (!cpu.failed && !gpu.failed) compare(&cpu, &gpu);
    }
    CHECK(model_dump_count(&gpu, "program", " compute ") > 0);
    CHECK_INT(n_host_work(&gpu), 0);
    model_close(&cpu);
    model_close(&gpu);
}

#define ROTARY_ATTENTION                                                                                         \
    "<opset: \"\" 23> g (float[1,2,s,4] q, float[1,2,s,4] k, float[1,2,s,4] v, float[9,2] cos, float[9,2] sin, " \
    "int64[1,s] at) => (y) { qr = RotaryEmbedding(q, cos, sin, at) kr = RotaryEmbedding(k, cos, sin, at) "       \
    "y = Attention<is_causal = 1>(qr, kr, v) }"

TEST(cuda_bert_block) { check_block(BERT); }
TEST(cuda_gpt2_block) { check_block(GPT2); }
TEST(cuda_rotary_attention) { check_block(ROTARY_ATTENTION); }

/* How many nodes of that name the lowered graph has on the GPU; -1: no GPU here. */
static int n_lowered(const char *graph, const char *name) {
    if (!has_cuda()) return -1;
    model m;
    model_init(&m, "cuda", 1);
    model_option(&m, "dumps", "on");
    model_open(&m, graph);
    int n = m.failed ? 0 : model_dump_count(&m, "lowered", name);
    model_close(&m);
    return n;
}

#define CHECK_LOWERED(n, graph, name)               \
    do {                                            \
        int n_ = n_lowered(graph, name);            \
        if (n_ >= 0) CHECK_INT(n_, n);              \
        if (n_ < 0) nc_test_not_run("no GPU here"); \
    } while (0)

TEST(cuda_attention_stays_whole) { CHECK_LOWERED(1, ROTARY_ATTENTION, "= Attention<"); }
TEST(cuda_products_take_what_follows) {
    CHECK_LOWERED(1,
                  "<opset: \"\" 22> g (float16[2,s,8] x, float16[8,8] w, float16[8] b, float16[2,s,8] r) => (y) "
                  "{ p = MatMul(x, w) q = Add(p, b) t = Add(q, r) y = Softmax(t) }",
                  "= nacre.MatMulChain<");
}

/* 1 + 2^-11 is no TF32 number. A GPU's library may choose f32 all the same; the stand-in does not. */
static void check_tf32(const char *value, float least, float most) {
    enum { N = 64 };
    static float x[N * N], w[N * N];
    for (int i = 0; i < N * N; i++) x[i] = 1 + 0x1p-11f, w[i] = 1;
    model m;
    model_init(&m, "cuda", 1);
    model_option(&m, "tf32", value);
    model_open(&m, HEAD "(float[64,64] x, float[64,64] w) => (y) { y = MatMul(x, w) }");
    model_input(&m, "x", NACRE_FLOAT, 2, D(N, N), x);
    model_input(&m, "w", NACRE_FLOAT, 2, D(N, N), w);
    model_run(&m);
    const float *y = model_floats(&m, "y", N * N);
    for (int i = 0; y != NULL && i < N * N; i++) CHECK(y[i] >= least && y[i] <= most);
    model_close(&m);
}

TEST(cuda_tf32_is_asked_for) {
    char text[256] = "";
    model m;
    model_init(&m, "cuda", 1);
    bool has = nacre_env_describe_device(m.env, "cuda", text, sizeof text, &m.err) == NACRE_OK;
    model_close(&m);
    if (!has) {
        nc_test_not_run("no GPU here");
        return;
    }
    check_tf32("off", 64.03125f, 64.03125f);
    check_tf32("on", 64, strstr(text, "Stand-in") != NULL ? 64 : 64.03125f);
}

/* On the GPU a bad index is met long after it was queued; the run still fails, and the next one is whole. */
TEST(cuda_bad_index_is_told) {
    static const int64_t good[] = {0, 2, 1}, bad[] = {0, 3, -4};
    static const float x[] = {1, 2, 3};
    if (!has_cuda()) {
        nc_test_not_run("no GPU here");
        return;
    }
    model m;
    model_init(&m, "cuda", 1);
    model_open(&m, HEAD "(float[3] x, int64[3] i) => (y) { t = Gather(x, i) y = Neg(t) }");
    for (int run = 0; run < 6; run++) {
        bool wrong = run % 2 == 1;
        model_input(&m, "x", NACRE_FLOAT, 1, D(3), x);
        model_input(&m, "i", NACRE_INT64, 1, D(3), wrong ? bad : good);
        if (!wrong) {
            model_run(&m);
            const float *y = model_floats(&m, "y", 3);
            CHECK(y != NULL && y[0] == -1 && y[1] == -3 && y[2] == -2);
            continue;
        }
        CHECK_INT(model_try_run(&m), NACRE_DATA);
        CHECK(strstr(m.err.text, "is out of range for an axis of 3") != NULL);
        CHECK(strstr(m.err.op, "Gather") != NULL);
    }
    model_close(&m);
}

/* The same where indices are read in pairs, within a line that a block holds; those below 0 count from the end. */
TEST(cuda_bad_index_within_a_line_is_told) {
    static const int64_t good[] = {0, -1, 3, -4}, bad[] = {0, 4, -5, 3};
    static const float x[] = {1, 2, 3, 4};
    if (!has_cuda()) {
        nc_test_not_run("no GPU here");
        return;
    }
    model m;
    model_init(&m, "cuda", 1);
    model_open(&m, HEAD "(float[1,4] x, int64[1,4] i) => (y) { y = GatherElements<axis = 1>(x, i) }");
    for (int run = 0; run < 4; run++) {
        bool wrong = run % 2 == 1;
        model_input(&m, "x", NACRE_FLOAT, 2, D(1, 4), x);
        model_input(&m, "i", NACRE_INT64, 2, D(1, 4), wrong ? bad : good);
        if (!wrong) {
            model_run(&m);
            const float *y = model_floats(&m, "y", 4);
            CHECK(y != NULL && y[0] == 1 && y[1] == 4 && y[2] == 4 && y[3] == 1);
            continue;
        }
        CHECK_INT(model_try_run(&m), NACRE_DATA);
        CHECK(strstr(m.err.text, "is out of range for an axis of 4") != NULL);
        CHECK(strstr(m.err.op, "GatherElements") != NULL);
    }
    model_close(&m);
}

/* Attention that writes a new row of its caches on the way: one that lies behind them is told, and nothing of it is
 * read or written. */
TEST(cuda_bad_row_of_a_cache_is_told) {
    static const int64_t at[] = {3, 16, 5, (int64_t)1 << 30, -1, 15}, n = 16;
    float new[2 * 4], cache[2 * 16 * 4];
    if (!has_cuda()) {
        nc_test_not_run("no GPU here");
        return;
    }
    random_floats(new, 8, 1), random_floats(cache, 128, 2);
    model m;
    model_init(&m, "cuda", 1);
    model_open(&m, "<opset: \"\" 24> g (float[1,2,1,4] q, float[1,2,16,4] ck, float[1,2,16,4] cv, int64[1] at,"
                   " int64[1] n) => (y, nk, nv) { nk = TensorScatter(ck, q, at) nv = TensorScatter(cv, q, at)"
                   " y = Attention(q, nk, nv, , , , n) }");
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        model_input(&m, "q", NACRE_FLOAT, 4, D(1, 2, 1, 4), new);
        model_input(&m, "ck", NACRE_FLOAT, 4, D(1, 2, 16, 4), cache);
        model_input(&m, "cv", NACRE_FLOAT, 4, D(1, 2, 16, 4), cache);
        model_input(&m, "at", NACRE_INT64, 1, D(1), &at[i]);
        model_input(&m, "n", NACRE_INT64, 1, D(1), &n);
        if (at[i] < 0 || at[i] > 15) {
            CHECK_INT(model_try_run(&m), NACRE_DATA);
            CHECK(strstr(m.err.text, "is out of range") != NULL);
            continue;
        }
        model_run(&m);
        const float *k = model_floats(&m, "nk", 128);
        for (int e = 0; k != NULL && e < 4; e++)
            CHECK(k[at[i] * 4 + e] == new[e] && k[64 + at[i] * 4 + e] == new[4 + e]);
    }
    model_close(&m);
}
