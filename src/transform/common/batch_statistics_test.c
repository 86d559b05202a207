/* transform/common/batch_statistics_test.c: BatchNormalization by statistics of its own input, and the near misses. */
#include "tests/passes.h"

#define NORM "y = BatchNormalization<epsilon = 0.125>(x, s, b, m, v)"
#define TEXT_OF(opset, axes, keep, norm)                                                                       \
    "<opset: \"\" " opset "> g (float[n,3,h] x, float[3] s, float[3] b) => (y) <const int64[2] a = " axes "> " \
    "{ m = ReduceMean<keepdims = " keep ">(x, a); k = ReduceMean(x, a); d = Sub(x, k); q = Mul(d, d); "        \
    "v = ReduceMean<keepdims = 0>(q, a); " norm " }"

static int nodes_left(const char *text) {
    bench b;
    int n = -1;
    if (bench_init(&b, text) && run_passes(&b, "batch_statistics dead_code", 3) == NC_OK) n = b.m->main->n_nodes;
    bench_release(&b);
    return n;
}

TEST(batch_statistics_of_the_input_are_found_by_the_kernel) {
    bench b;
    if (bench_init(&b, TEXT_OF("18", "{0, 2}", "0", NORM))) {
        CHECK_INT(run_passes(&b, "batch_statistics dead_code", 3), NC_OK);
        CHECK_INT(b.m->main->n_nodes, 1);
        const nc_node *n = b.m->main->last;
        CHECK(nc_attr_int(n, "training_mode") == 1 && nc_attr_float(n, "epsilon") == 0.125);
        CHECK(n->n_in == 5 && n->in[0] == b.m->main->inputs.v[0] && n->in[2] == b.m->main->inputs.v[2]);
    }
    bench_release(&b);
    CHECK_INT(nodes_left(TEXT_OF("18", "{-1, 0}", "0", NORM)), 1);
}

TEST(batch_statistics_near_misses_stay) {
    CHECK_INT(nodes_left(TEXT_OF("18", "{0, 1}", "0", NORM)), 6);
    CHECK_INT(nodes_left(TEXT_OF("18", "{0, 2}", "1", NORM)), 6);
    CHECK_INT(nodes_left(TEXT_OF("18", "{0, 2}", "0", "y = BatchNormalization(x, s, b, v, m)")), 6);
    CHECK_INT(nodes_left(TEXT_OF("18", "{0, 2}", "0", "y = BatchNormalization<training_mode = 1>(x, s, b, m, v)")), 6);
    CHECK_INT(nodes_left(TEXT_OF("18", "{0, 2}", "0", "y = BatchNormalization(d, s, b, m, v)")), 6);
}
