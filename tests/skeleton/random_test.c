/* Philox dropout: the same bits at any thread count, on any device, and with a region marked for recompute. */
#include "tests/model.h"

static const char text[] = "<opset: \"\" 17>\n"
                           "g (float[n,50] x) => (float[] loss, bool[n,50] mask)\n"
                           "<const float[] ratio = {0.3}, const bool[] yes = {1}, const float[50,4] W = {"
#define ROW "0.1,-0.2,0.3,0.4,"
#define ROWS5 ROW ROW ROW ROW ROW
    ROWS5 ROWS5 ROWS5 ROWS5 ROWS5 ROWS5 ROWS5 ROWS5 ROWS5 ROW ROW ROW ROW "0.1,-0.2,0.3,0.4}>\n"
                           "{\n"
                           "  e = Exp(x) \"region_exp\"\n"
                           "  d, mask = Dropout(e, ratio, yes) @random=7 \"region_dropout\"\n"
                           "  t = Tanh(d) \"region_tanh\"\n"
                           "  h = MatMul(t, W)\n"
                           "  s = Mul(h, h)\n"
                           "  loss = ReduceSum<keepdims = 0>(s)\n"
                           "}\n";

static void run_twice(model *m) {
    float x[100];
    const char *wrt[] = {"x", "W"};
    random_floats(x, 100, 1);
    model_option(m, "seed", "42");
    CHECK(nacre_options_gradients(model_options(m), "loss", wrt, 2, &m->err) == NACRE_OK);
    model_open(m, text);
    unsigned char first[100];
    for (int i = 0; i < 2; i++) {
        model_input(m, "x", NACRE_FLOAT, 2, D(2, 50), x);
        model_run(m);
        nacre_value *mask = model_out(m, "mask");
        if (!mask) return;
        if (i == 0)
            memcpy(first, nacre_value_data(mask), 100);
        else
            CHECK(memcmp(first, nacre_value_data(mask), 100) != 0); /* the step went on */
        int kept = 0;
        for (int k = 0; k < 100; k++) kept += ((unsigned char *)nacre_value_data(mask))[k];
        CHECK(kept > 50 && kept < 90);
        model_collect_all(m);
    }
}

TEST(dropout_has_the_same_bits_everywhere) { model_everywhere(run_twice); }

static void recomputed(model *m) {
    static const char *const names[] = {"region_exp", "region_dropout", "region_tanh"};
    model plain;
    model_init(&plain, m->device, m->threads);
    run_twice(&plain);
    CHECK_INT(model_dump_count(&plain, "lowered", "nacre.PhiloxDropout"), 1);
    for (int i = 0; i < 3; i++) model_option(m, "recompute", names[i]);
    run_twice(m);
    int draws = strcmp(m->device, "cpu") == 0 ? 2 : 3; /* on a device the gradient draws too: lower_dropout.c */
    CHECK_INT(model_dump_count(m, "lowered", "nacre.PhiloxDropout"), draws);
    CHECK_INT(model_dump_count(m, "lowered", "@random=7"), draws);
    CHECK(m->n_bytes == plain.n_bytes && m->n_bytes && memcmp(m->bytes, plain.bytes, m->n_bytes) == 0);
    model_close(&plain);
}

TEST(a_recomputed_region_draws_the_same_numbers) { model_everywhere(recomputed); }

static void reset(model *m) {
    run_twice(m);
    size_t n = m->n_bytes;
    CHECK_INT(nacre_state_reset(m->session, NULL, &m->err), NACRE_OK);
    model_run(m);
    model_collect_all(m);
    CHECK(memcmp(m->bytes, m->bytes + n, n / 2) == 0);
}

TEST(reset_starts_the_random_numbers_again) { model_everywhere(reset); }

/* Each iteration of each loop draws numbers of its own, the same on every device and in every run of the same seed. */
static const char loops_text[] =
    "<opset: \"\" 17>\n"
    "g (int64[] n, bool[] yes) => (float[outer,inner,8] all, float[8] alone)\n"
    "{\n"
    "  all = Loop(n, yes)<body = { (int64[] i, bool[] c) => (c2, rows) {\n"
    "    c2 = Identity(c)\n"
    "    rows = Loop(^n, ^yes)<body = { (int64[] j, bool[] k) => (k2, row) {\n"
    "      k2 = Identity(k)\n"
    "      row = If(^yes)<then_branch = { () => (a) { a = RandomNormal<shape = [8]>() @random=3 } },\n"
    "                     else_branch = { () => (b) { b = RandomNormal<shape = [8]>() @random=4 } }>\n"
    "    } }>\n"
    "  } }>\n"
    "  alone = RandomNormal<shape = [8]>() @random=5\n"
    "}\n";

static void drawn_in_loops(model *m) {
    enum { N = 5, ROWS = N * N + 1 };
    int64_t n = N;
    unsigned char yes = 1;
    float seen[2 * ROWS][8];
    model_option(m, "seed", "7");
    model_open(m, loops_text);
    for (int run = 0; run < 2; run++) {
        model_input(m, "n", NACRE_INT64, 0, D(0), &n);
        model_input(m, "yes", NACRE_BOOL, 0, D(0), &yes);
        model_run(m);
        const float *all = model_floats(m, "all", (ROWS - 1) * 8), *alone = model_floats(m, "alone", 8);
        if (!all || !alone) return;
        memcpy(seen[run * ROWS], all, (ROWS - 1) * sizeof seen[0]);
        memcpy(seen[run * ROWS + ROWS - 1], alone, sizeof seen[0]);
        model_collect_all(m);
    }
    for (int a = 0; a < 2 * ROWS; a++)
        for (int b = 0; b < a; b++) CHECK(memcmp(seen[a], seen[b], sizeof seen[0]) != 0);
}

TEST(every_iteration_of_a_loop_draws_its_own_numbers) { model_everywhere(drawn_in_loops); }
