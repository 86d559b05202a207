/* plan/lower_deferred_test.c: what needs a rank that is not known becomes one node at the end. */
#include "tests/lowering.h"

static nc_code defer(nc_work *w, nc_model *m, const nc_plan_options *o) {
    (void)o;
    return nc_lower_deferred(w, m->main);
}

#define DEFERS(graph, want) LOWERS(graph, defer, want)

TEST(lower_deferred_takes_all_that_depends_on_the_rank) {
    DEFERS("(float[...] x, float[n] y) => (z, t) { a = Exp(x) z = Neg(a) t = Abs(y) }",
           "t = Abs(y); z = nacre.Deferred{Exp Neg}(x)");
    DEFERS("(float[n] x, int64[m] s) => (y) { a = Reshape(x, s) b = Exp(a) y = Reshape(b, s) }",
           "y = nacre.Deferred{Reshape Exp Reshape}(x, s)");
}

TEST(lower_deferred_leaves_what_knows_its_rank) {
    DEFERS("(float[n] x) => (y) { y = Exp(x) }", "y = Exp(x)");
    DEFERS("(float[n] x, int64[2] s) => (y) { y = Reshape(x, s) }", "y = Reshape(x, s)");
}
