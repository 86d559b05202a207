/* plan/lower_onto_test.c: products and gradients of tables that are added to a variable put their sums there. */
#include "tests/lowering.h"

#define HEAD "(float[5,2] a, float[5,3] b, int64[4] i, float[4,3] d, bool[1] r) => (y) <const int64[2] s = {2, 3}, " \
             "var float[2,3] v = {1, 2, 3, 4, 5, 6} -> u> "

TEST(lower_onto_adds_where_the_sum_lies) {
    LOWERS(HEAD "{ g = Gemm<transA = 1>(a, b) y = Exp(a) w = Add(v, g) u = Where(r, g, w) }", nc_lower_onto,
           "GemmOnto_15_out = nacre.GemmOnto(a, b, v, r); y = Exp(a)");
    LOWERS(HEAD "{ g = Gemm<transA = 1>(a, b) y = Exp(a) u = Add(g, v) }", nc_lower_onto,
           "GemmOnto_13_out = nacre.GemmOnto(a, b, v); y = Exp(a)");
    LOWERS(HEAD "{ y = Exp(a) g = nacre.GatherGrad(s, i, d) w = Add(g, v) u = Where(r, g, w) }", nc_lower_onto,
           "y = Exp(a); GatherGradOnto_15_out = nacre.GatherGradOnto(v, i, d, r)");
}

/* Both in the order of their nodes; the first alone overwrites. */
TEST(lower_onto_adds_two) {
    LOWERS(HEAD "{ p = Gemm<transA = 1>(a, b) y = Exp(a) t = nacre.GatherGrad(s, i, d) g = Add(t, p) w = Add(v, g) "
                "u = Where(r, g, w) }",
           nc_lower_onto,
           "GemmOnto_19_out = nacre.GemmOnto(a, b, v, r); y = Exp(a); "
           "GatherGradOnto_21_out = nacre.GatherGradOnto(GemmOnto_19_out, i, d)");
}

/* What others read, other factors and other sums stay. */
TEST(lower_onto_leaves_others_alone) {
    static const char *const graphs[] = {
        HEAD "{ g = Gemm<transA = 1>(a, b) y = Exp(g) w = Add(v, g) u = Where(r, g, w) }",
        HEAD "{ g = Gemm<transA = 1, alpha = 2.0>(a, b) y = Exp(a) w = Add(v, g) u = Where(r, g, w) }",
        HEAD "{ g = Gemm<transA = 1>(a, b) y = Exp(a) w = Add(v, g) u = Where(r, w, g) }",
        HEAD "{ g = Gemm<transA = 1>(a, b) y = Exp(v) w = Sub(v, g) u = Where(r, g, w) }",
        HEAD "{ g = Gemm<transA = 1>(a, b, v) y = Exp(a) w = Add(v, g) u = Where(r, g, w) }"};
    for (size_t k = 0; k < sizeof graphs / sizeof graphs[0]; k++) {
        char text[512];
        snprintf(text, sizeof text, LOWERING_HEAD "%s", graphs[k]);
        lowers(__FILE__, __LINE__, text, nc_lower_onto, nc_device_cpu(), print_ops,
               k == 3 ? "Gemm Exp Sub Where" : "Gemm Exp Add Where", NULL);
    }
}
