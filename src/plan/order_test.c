/* plan/order_test.c: variables are read before they are overwritten; what a cut needs comes before it. */
#include "tests/lowering.h"

static nc_code order(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_choose(w, m->main, o));
    return nc_lower_order(w, m->main, o);
}

#define ORDERS(graph, want) OPS_ON(nc_device_cpu(), graph, order, want)

TEST(order_reads_before_it_writes) {
    ORDERS("(float[2] x) => (y) <var float[2] v = {1, 2} -> u> { u = Add(v, x) y = Exp(v) }", "Exp Add");
    ORDERS("(float[2] x) => (y) <const int64[2] s = {1, 2}, var float[2] v = {1, 2} -> u>"
           " { a = Reshape(v, s) u = Add(v, x) y = Exp(a) }",
           "Reshape Exp Add");
}

/* Who reads the old version only after the new one is there reads a copy. */
TEST(order_copies_what_is_read_too_late) {
    ORDERS("(float[2] x) => (y) <var float[2] v = {1, 2} -> u> { u = Add(v, x) a = Mul(u, v) y = Exp(a) }",
           "Copy Add Mul Exp");
}

TEST(order_assigns_what_is_not_made_in_place) {
    ORDERS("(float[2] x) => (y) <var float[2] v = {1, 2} -> u> { u = Exp(x) y = Neg(v) }", "Exp Neg Assign");
}

static nc_code place_and_order(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place_and_decompose(w, m, o));
    return order(w, m, o);
}

/* Results behind the first too: both caches stay where they are. */
TEST(order_lets_any_result_update_in_place) {
    OPS_ON(&cuda_planning,
           "(float[1,1,1,2] q) => (y) <var float[1,1,2,2] k = {1, 2, 3, 4} -> n, "
           "var float[1,1,2,2] v = {1, 2, 3, 4} -> m> { y, n, m = nacre.AttentionPut(q, q, q, , k, v) }",
           place_and_order, "AttentionPut@device");
}

static nc_code order_with_cut(nc_work *w, nc_model *m, const nc_plan_options *o) {
    static const char *const early[] = {"z"};
    const nc_plan_cut cut = {.name = "early", .outputs = early, .n_outputs = 1};
    nc_plan_options with = *o;
    with.cuts = &cut, with.n_cuts = 1;
    return order(w, m, &with);
}

TEST(order_puts_what_a_cut_needs_before_it) {
    static const char graph[] = "(float[2] x) => (y, z) { a = Exp(x) y = Neg(a) b = Abs(x) z = Sin(b) }";
    char text[256];
    snprintf(text, sizeof text, LOWERING_HEAD "%s", graph);
    lowers(__FILE__, __LINE__, text, order, nc_device_cpu(), print_ops, "Exp Neg Abs Sin", NULL);
    lowers(__FILE__, __LINE__, text, order_with_cut, nc_device_cpu(), print_ops, "Abs Sin Exp Neg", NULL);
    snprintf(text, sizeof text, LOWERING_HEAD "(float[2] x) => (y) { y = Exp(x) }");
    lowers(__FILE__, __LINE__, text, order_with_cut, nc_device_cpu(), print_ops, "", "the graph has no output 'z'");
}
