/* plan/lower_widen_test.c: convolutions of halves become f32 with what hangs together with them, and what stays. */
#include "tests/lowering.h"

static nc_code place_and_widen(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_widen(w, m, o);
}

#define WIDENS(graph, want) OPS_ON(nc_device_cpu(), graph, place_and_widen, want)
#define HEAD(half)                                                                                                    \
    "(" half "[n,4,h,k] x, " half "[n,4,h,k] o) => (y) <const " half "[4,4,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, " \
    "11, 12, 13, 14, 15, 16}, const " half "[4,1,1] b = {1, 2, 3, 4}> "

/* Casts stand at the ends alone; weights of few elements are floats at once. */
TEST(lower_widen_convolutions_and_what_is_between) {
    WIDENS(HEAD("float16") "{ c = Conv(x, w) r = Relu(c) d = Conv(r, w) s = Add(d, c) y = Mul(s, b) }",
           "Cast Conv Relu Conv Add Mul Cast");
    WIDENS(HEAD("bfloat16") "{ c = Conv(x, w) p = MaxPool<kernel_shape = [1, 1]>(c) y = Softmax(p) }",
           "Cast Conv MaxPool Cast Softmax");
    WIDENS(HEAD("float16") "{ c = Conv(x, w) y = Concat<axis = 1>(c, o) }", "Cast Conv Cast Concat Cast");
    LOWERS(HEAD("float16") "{ c = Conv(x, w) r = Relu(c) y = Add(r, b) }", nc_lower_widen,
           "Cast_10_out = Cast(x); c = Conv(Cast_10_out, v12); r = Relu(c); y = Add(r, v17); Cast_18_out = Cast(y)");
}

/* A value that others want as it was is cast once for all of them. */
TEST(lower_widen_gives_others_what_was) {
    WIDENS(HEAD("float16") "{ c = Conv(x, w) s = Softmax(c) t = Hardmax(c) r = Relu(c) d = Add(s, t) e = Conv(r, w) "
                           "f = Hardmax(e) y = Add(d, f) }",
           "Cast Conv Cast Softmax Hardmax Relu Add Conv Cast Hardmax Add");
}

TEST(lower_widen_leaves_what_has_no_convolution) {
    WIDENS(HEAD("float16") "{ r = Relu(x) p = MaxPool<kernel_shape = [1, 1]>(r) y = Add(p, o) }", "Relu MaxPool Add");
    WIDENS(HEAD("float") "{ c = Conv(x, w) y = Relu(c) }", "Conv Relu");
    OPS_ON(&cuda_planning, HEAD("float16") "{ c = Conv(x, w) y = Relu(c) }", place_and_widen,
           "Conv@device Relu@device");
}
