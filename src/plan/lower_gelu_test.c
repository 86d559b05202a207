/* plan/lower_gelu_test.c: GELU as a second result of the product that it is taken of, on a device with CUDA's kernels.
 */
#include "tests/lowering.h"

static nc_code all_steps(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    NC_TRY(nc_lower_chain(w, m, o));
    NC_TRY(nc_lower_epilogue(w, m, o));
    return nc_lower_gelu(w, m, o);
}

#define GRAPH(type, last)                                                                                              \
    "(" type "[n,3,8] a, " type "[8,16] b, " type "[16] v, " type "[n,3,16] c) => (z, y) { p = MatMul(a, b) " last " " \
                                                                                                                   "}"

TEST(lower_gelu_of_a_product_that_others_read) {
    LOWERS_ON(&cuda_planning, GRAPH("float16", "x = Add(p, v) y = nacre.GeluTanh(x) z = ReduceSum<keepdims = 1>(x)"),
              all_steps, "y, x = nacre.MatMulGelu(a, b, v) @device; z = ReduceSum(x) @device");
}

/* Another type, another summand, another formula. */
TEST(lower_gelu_leaves_others_alone) {
#define STAYS(type, last, ops) \
    OPS_ON(&cuda_planning, GRAPH(type, last " z = ReduceSum<keepdims = 1>(x)"), all_steps, ops)
    STAYS("float", "x = Add(p, v) y = nacre.GeluTanh(x)",
          "MatMulChain@device{Add@device} GeluTanh@device ReduceSum@device");
    STAYS("float16", "x = Add(p, c) y = nacre.GeluTanh(x)",
          "MatMulChain@device{Add@device} GeluTanh@device ReduceSum@device");
    STAYS("float16", "x = Add(p, v) y = Tanh(x)", "MatMulChain@device{Add@device} Tanh@device ReduceSum@device");
}
