/* Workspaces of cuBLASLt's and cuDNN's kernels. On the stand-ins, where long sums want a word for each element of the
 * result, and convolutions one for each weight: what plans book is counted with the session and held to its limit,
 * what they do not is the stream's; a step that was taken before allocates nothing. */
#include "tests/cuda/standin.h"
#include "tests/model.h"

enum { ROWS = 64, COLUMNS = 1000, WORKSPACE = ROWS * COLUMNS * 4, MAX_K = 32 };

static const standin_control *standins(void) {
    const standin_control *c = standin_find();
    if (c == NULL) nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
    return c;
}

static void feed(model *m, int64_t rows, int64_t K) {
    static float x[ROWS * MAX_K], w[MAX_K * COLUMNS];
    random_floats(x, rows * K, 3);
    random_floats(w, K * COLUMNS, 4);
    model_input(m, "x", NACRE_FLOAT, 2, D(rows, K), x);
    model_input(m, "w", NACRE_FLOAT, 2, D(K, COLUMNS), w);
}

#define PRODUCT(K) "<opset: \"\" 22> g (float[n," K "] x, float[" K ",1000] w) => (y) { p = MatMul(x, w) y = Relu(p) }"

static nacre_stats stats_of(const char *text, int64_t K) {
    model m;
    nacre_stats s = {0};
    model_init(&m, "cuda", 1);
    model_open(&m, text);
    feed(&m, ROWS, K);
    if (!m.failed) model_run(&m);
    if (!m.failed) s = model_stats(&m);
    model_close(&m);
    return s;
}

/* Sums of 16 need no workspace, sums of 32 do. */
static void of_a_plan(model *unused) {
    (void)unused;
    if (standins() == NULL) return;
    nacre_stats without = stats_of(PRODUCT("16"), 16), with = stats_of(PRODUCT("32"), 32);
    uint64_t more = with.bytes_frames - without.bytes_frames;
    const uint64_t inputs = (ROWS + COLUMNS) * 16 * sizeof(float), small = NC_CUDA_PARTIALS + 4 * NC_CUDA_COUNTERS;
    CHECK(more + 256 >= WORKSPACE + inputs && more < WORKSPACE + inputs + 512);
    CHECK_INT(with.bytes_session - without.bytes_session, more);
    /* What is not in frames: a stream's room for its own kernels. */
    CHECK_INT(without.device_bytes - without.bytes_frames, small);
    CHECK_INT(with.device_bytes - with.bytes_frames, small);
}

/* A turned operand is a view, which is known as such before the run. */
static void of_a_view(model *m) {
    if (standins() == NULL) return;
    static float x[MAX_K * ROWS];
    model_option(m, "level", "off"); /* else Gemm turns it */
    model_open(m, "<opset: \"\" 22> g (float[32,64] x, float[32,1000] w) => (y) {"
                  " t = Transpose(x) p = MatMul(t, w) y = Relu(p) }");
    feed(m, ROWS, 32);
    random_floats(x, MAX_K * ROWS, 5);
    model_input(m, "x", NACRE_FLOAT, 2, D(32, ROWS), x);
    if (!m->failed) model_run(m);
    if (m->failed) return;
    nacre_stats s = model_stats(m);
    CHECK(s.bytes_frames >= 2 * WORKSPACE);
    CHECK_INT(s.device_bytes - s.bytes_frames, NC_CUDA_PARTIALS + 4 * NC_CUDA_COUNTERS);
}

static nacre_code run_within(const char *limit) {
    model m;
    model_init(&m, "cuda", 1);
    model_option(&m, "memory_limit", limit);
    nacre_code code = model_try_open(&m, PRODUCT("32"));
    feed(&m, ROWS, 32);
    if (code == NACRE_OK) code = model_try_run(&m);
    model_close(&m);
    return code;
}

/* Operands, product, result and workspace are 904,192 bytes. */
static void of_a_limit(model *unused) {
    (void)unused;
    if (standins() == NULL) return;
    CHECK_INT(run_within("910000"), NACRE_OK);
    CHECK_INT(run_within("900000"), NACRE_LIMIT);
}

static void feed_all(model *m, int64_t rows) {
    static float v[4][8 * 8 * 96];
    for (int i = 0; i < 4; i++) random_floats(v[i], 8 * 8 * 96, 7 + (unsigned)i);
    feed(m, rows, 32);
    model_input(m, "s", NACRE_FLOAT, 3, D(rows, 1, 32), v[0]);
    model_input(m, "i", NACRE_FLOAT, 3, D(1, 72, 32), v[1]);
    model_input(m, "r", NACRE_FLOAT, 3, D(1, 72, 24), v[2]);
    model_input(m, "p", NACRE_FLOAT, 4, D(4, 8, 6, 6), v[3]);
    model_input(m, "f", NACRE_FLOAT, 4, D(8, 8, 3, 3), v[1]);
}

/* Rows of a varying number, so that the plan's memory is that of more rows; a layer whose products the plan books no
 * workspace for; a convolution that cuDNN does, in the place of the columns of another way. */
static void run_steps(model *m) {
    const standin_control *c = standin_find();
    nacre_stats before = {0};
    model_option(m, "capture", "on");
    model_open(m, "<opset: \"\" 22> g (float[n,32] x, float[32,1000] w, float[n,1,32] s, float[1,72,32] i,"
                  " float[1,72,24] r, float[4,8,6,6] p, float[8,8,3,3] f) => (y, h, z) {"
                  " y = MatMul(x, w) h = GRU<hidden_size = 24>(s, i, r) z = Conv(p, f) }");
    for (int i = 0; i < 12 && !m->failed; i++) {
        feed_all(m, i % 2 ? ROWS : ROWS - 7);
        if (i == 8) before = model_stats(m);
        if (i == 8 && c != NULL) c->reset_calls();
        model_run(m);
        if (i >= 10) model_collect_all(m);
    }
    if (m->failed || c == NULL || strcmp(m->device, "cuda") != 0) return;
    CHECK_INT(c->calls("cuMemAlloc_v2"), 0);
    CHECK_INT(model_stats(m).device_bytes, before.device_bytes);
    CHECK_INT(model_stats(m).captures, before.captures);
}

static void of_steps(model *m) {
    model cpu;
    model_init(&cpu, "cpu", 1);
    run_steps(&cpu);
    run_steps(m);
    REQUIRE(cpu.n_bytes == m->n_bytes && cpu.n_bytes > 0);
    const float *a = (const float *)cpu.bytes, *b = (const float *)m->bytes;
    for (size_t i = 0; i < cpu.n_bytes / sizeof *a; i++) CHECK_CLOSE(b[i], a[i], nc_tol_device_product_f32);
    model_close(&cpu);
}

TEST(cuda_rooms_are_planned) { model_on_cuda(of_a_plan); }
TEST(cuda_rooms_of_views_are_planned) { model_on_cuda(of_a_view); }
TEST(cuda_rooms_count_for_the_limit) { model_on_cuda(of_a_limit); }
TEST(cuda_rooms_grow_in_no_steady_step) { model_on_cuda(of_steps); }
