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
    CHECK_INT(model_dump_count(m, "lowered", "nacre.PhiloxDropout"), 2);
    CHECK_INT(model_dump_count(m, "lowered", "@random=7"), 2);
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

TEST(random_in_a_loop_is_refused) {
    model m;
    model_init(&m, "cpu", 1);
    const char *loop = "<opset: \"\" 17>\ng (float[3] x, int64[] n) => (float[3] y)\n<const float[] r = {0.5}, const "
                       "bool[] yes = {1}>\n"
                       "{ y = Loop(n, , x)<body = { (int64[] i, bool[] c, float[3] s) => (c1, s1) { c1 = Identity(c)\n "
                       "s1 = Dropout(s, ^r, ^yes) \"drop\" } }> }\n";
    CHECK_INT(model_try_open(&m, loop), NACRE_UNSUPPORTED);
    CHECK_STR(m.err.node, "drop");
    model_close(&m);
}
