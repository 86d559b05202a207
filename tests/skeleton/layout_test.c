/* Two convolutions in channel-blocked layout with a channel count that is no multiple of the block, and an op between
 * them that does not know the layout. */
#include "tests/model.h"

#include <stdlib.h>

enum { N = 2, C = 3, K = 13, L = 5, H = 9, W = 7 };

static char *with_weights(const char *between) {
    float w1[K * C * 9], w2[L * K * 9], b1[K];
    char *text = malloc(1 << 17);
    size_t n = 0, cap = 1 << 17;
    random_floats(w1, K * C * 9, 1);
    random_floats(w2, L * K * 9, 2);
    random_floats(b1, K, 3);
    n += (size_t)snprintf(text + n, cap - n,
                          "<opset: \"\" 17>\ng (float[n,%d,h,w] x) => (y)\n<const float[%d,%d,3,3] w1 = {", C, K, C);
    for (int i = 0; i < K * C * 9; i++) n += (size_t)snprintf(text + n, cap - n, "%s%.9g", i ? "," : "", (double)w1[i]);
    n += (size_t)snprintf(text + n, cap - n, "}, const float[%d] b1 = {", K);
    for (int i = 0; i < K; i++) n += (size_t)snprintf(text + n, cap - n, "%s%.9g", i ? "," : "", (double)b1[i]);
    n += (size_t)snprintf(text + n, cap - n, "}, const float[%d,%d,3,3] w2 = {", L, K);
    for (int i = 0; i < L * K * 9; i++) n += (size_t)snprintf(text + n, cap - n, "%s%.9g", i ? "," : "", (double)w2[i]);
    snprintf(text + n, cap - n,
             "}>\n{\n  a = Conv<kernel_shape = [3,3], pads = [1,1,1,1]>(x, w1, b1)\n  r = Relu(a)\n%s"
             "  y = Conv<kernel_shape = [3,3], strides = [2,1]>(s, w2)\n}\n",
             between);
    return text;
}

static void run_both(model *m, const char *between, int unpacks) {
    char *text = with_weights(between);
    float x[N * C * H * W];
    random_floats(x, N * C * H * W, 7);
    model_open(m, text);
    model_input(m, "x", NACRE_FLOAT, 4, D(N, C, H, W), x);
    model_run(m);
    CHECK_INT(model_dump_count(m, "lowered", "= nacre.PackChannels"), unpacks - 1); /* not of 3 channels */
    CHECK_INT(model_dump_count(m, "lowered", "= nacre.UnpackChannels"), unpacks);
    CHECK_INT(model_dump_count(m, "lowered", "nacre.ConvBlocked"), 2);
    model plain;
    model_init(&plain, m->device, m->threads);
    model_option(&plain, "layouts", "off");
    model_open(&plain, text);
    model_input(&plain, "x", NACRE_FLOAT, 4, D(N, C, H, W), x);
    model_run(&plain);
    CHECK_INT(model_dump_count(&plain, "lowered", "Blocked"), 0);
    nacre_value *want = model_out(&plain, "y");
    if (want) {
        const float *a = model_floats(m, "y", nacre_value_count(want)), *b = nacre_value_data(want);
        for (int64_t i = 0; i < nacre_value_count(want); i++) CHECK_CLOSE(a[i], b[i], nc_tol_device_f32);
    }
    model_close(&plain);
    model_collect_all(m);
    free(text);
}

/* Elementwise ops keep the layout: one unpack behind everything. */
static void through(model *m) { run_both(m, "  s = Tanh(r)\n", 1); }
TEST(blocked_convolutions_with_elementwise_ops_between) { model_everywhere(through); }

/* Softmax over channels mixes lanes and does not know the layout: it gets a plain tensor. */
static void around(model *m) { run_both(m, "  s = Softmax<axis = 1>(r)\n", 2); }
TEST(blocked_convolutions_around_an_op_that_does_not_know_the_layout) { model_everywhere(around); }
