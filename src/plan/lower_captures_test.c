/* plan/lower_captures_test.c: constant matrices move into the subgraphs that capture them; other captures stay. */
#include "tests/lowering.h"

static nc_code captures(nc_work *w, nc_model *m, const nc_plan_options *o) {
    (void)o;
    return nc_lower_captures(w, m->main);
}

static int captured(const nc_graph *g) {
    int n = 0;
    for (const nc_node *k = g->first; k != NULL; k = k->next)
        for (int i = 0; i < k->n_subs; i++) n += k->subs[i].n_captures + captured(k->subs[i].graph);
    return n;
}

/* How many captures are left. */
static int left(const char *text) {
    nc_work w;
    nc_work_init(&w);
    nc_model *m = test_model(&w, nc_ops_registry(), text);
    int n = -1;
    if (m != NULL && captures(&w, m, NULL) == NC_OK && nc_verify(&w, m) == NC_OK) n = captured(m->main);
    nc_model_destroy(m);
    nc_work_release(&w);
    return n;
}

#define HEAD "(float[n,2] x, bool[] c) => (y) <const float[2,2] w = {1, 2, 3, 4}, const float[2] b = {5, 6}> { "

TEST(lower_captures_takes_constant_matrices) {
    CHECK_INT(left(HEAD "y = If<then_branch = { () => (p) { p = MatMul(^x, ^w) } }, "
                        "else_branch = { () => (q) { t = MatMul(^x, ^w) q = Add(t, ^b) } }>(c) }"),
              3); /* x twice, and b */
}

TEST(lower_captures_reaches_graphs_inside_of_graphs) {
    CHECK_INT(left(HEAD "y = If<then_branch = { () => (p) { p = If<then_branch = { () => (r) { r = MatMul(^x, ^w) } }, "
                        "else_branch = { () => (s) { s = Neg(^x) } }>(^c) } }, "
                        "else_branch = { () => (q) { q = Neg(^x) } }>(c) }"),
              5); /* x and c in the outer branch, x in both inner ones and in the other */
}

TEST(lower_captures_leaves_what_runs_change) {
    CHECK_INT(left("(float[n,2] x, float[2,2] w, bool[] c) => (y) { "
                   "y = If<then_branch = { () => (p) { p = MatMul(^x, ^w) } }, "
                   "else_branch = { () => (q) { q = Neg(^x) } }>(c) }"),
              3);
}
