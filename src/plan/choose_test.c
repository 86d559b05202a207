/* plan/choose_test.c: copies that make views dense, outputs written by kernels of their own, kernels that are not
 * there. */
#include "tests/lowering.h"

static nc_code choose(nc_work *w, nc_model *m, const nc_plan_options *o) { return nc_lower_choose(w, m->main, o); }

#define CHOOSES(graph, want) OPS_ON(nc_device_cpu(), graph, choose, want)

TEST(choose_copies_views_for_kernels_that_want_dense) {
    CHOOSES("(float[n,k] x, float[n] s) => (y) { a = Transpose<perm = [1, 0]>(x) y = LayerNormalization(a, s) }",
            "Transpose Copy LayerNormalization");
    CHOOSES("(float[n,k] x) => (y) { a = Transpose<perm = [1, 0]>(x) y = LogSoftmax(a) }", "Transpose LogSoftmax");
    CHOOSES("(float[n,k] x, float[k] s) => (y) { a = Identity(x) y = LayerNormalization(a, s) }",
            "Identity LayerNormalization");
}

TEST(choose_gives_outputs_memory_of_their_own) {
    CHOOSES("(float[n,k] x) => (y) { y = Transpose<perm = [1, 0]>(x) }", "Transpose Copy");
    CHOOSES("(float[n] x) => (x) { }", "Copy");
    CHOOSES("(float[n] x) => (y, y) { y = Exp(x) }", "Exp Copy");
    CHOOSES("(float[n] x) => (y) { y = Exp(x) }", "Exp");
}

TEST(choose_says_which_kernel_is_not_there) {
    REFUSES("(complex64[n] a) => (y) { y = Unique(a) }", choose,
            "no kernel on cpu: Unique: complex64");
}
