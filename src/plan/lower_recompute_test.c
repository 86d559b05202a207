/* plan/lower_recompute_test.c: backward's uses of marked forward nodes are served by clones. */
#include "tests/lowering.h"

static nc_code recompute(nc_work *w, nc_model *m, const nc_plan_options *o) {
    (void)o;
    return nc_lower_recompute(w, m);
}

#define RECOMPUTES(graph, want) OPS_ON(nc_device_cpu(), graph, recompute, want)

TEST(lower_recompute_clones_marked_nodes) {
    RECOMPUTES("(float[n] x) => (y, z) { a = Exp(x) @recompute y = Neg(a) z = Abs(a) @stage=1 }", "Exp Neg Exp Abs");
    RECOMPUTES("(float[n] x) => (y, z) { a = Exp(x) @recompute b = Sin(a) @recompute y = Neg(b) z = Abs(b) @stage=1 }",
               "Exp Sin Neg Exp Sin Abs");
    OPS_ON(&cuda_planning, "(float[n] x) => (y, z) { a = Exp(x) @recompute @place=1 y = Neg(a) z = Abs(a) @stage=1 }",
           recompute, "Exp@device Neg Exp@device Abs");
}

TEST(lower_recompute_leaves_what_backward_does_not_use) {
    RECOMPUTES("(float[n] x) => (y) { a = Exp(x) @recompute y = Neg(a) }", "Exp Neg");
    RECOMPUTES("(float[n] x) => (y, z) { a = Exp(x) y = Neg(a) z = Abs(a) @stage=1 }", "Exp Neg Abs");
}
