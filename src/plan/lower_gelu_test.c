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

/* ---- taken anew ---- */

static nc_code saving(nc_work *w, nc_model *m, const nc_plan_options *o) {
    nc_plan_options saves = *o;
    saves.takes_anew = true;
    return all_steps(w, m, &saves);
}

/* y is read at once, and by the last node; between them lie two nodes, or ten. */
#define READ_LATE(type, between, last)                                                                     \
    "(" type "[n,3,8] a, " type "[8,16] b, " type "[16] v) => (e, r, z) { p = MatMul(a, b) x = Add(p, v) " \
    "y = nacre.GeluTanh(x) e = ReduceMax<keepdims = 1>(y) " between " " last "}"
#define TWO "s = ReduceMax<keepdims = 1>(e) t = ReduceMax<keepdims = 1>(s) "
#define THREE "f = ReduceMax<keepdims = 1>(t) g = ReduceMax<keepdims = 1>(f) h = ReduceMax<keepdims = 1>(g) "
#define TEN                                                                                                   \
    TWO THREE "i = ReduceMax<keepdims = 1>(h) j = ReduceMax<keepdims = 1>(i) k = ReduceMax<keepdims = 1>(j) " \
              "l = ReduceMax<keepdims = 1>(k) o = ReduceMax<keepdims = 1>(l) "
#define TEN_OPS                                                                                              \
    "ReduceMax@device ReduceMax@device ReduceMax@device ReduceMax@device ReduceMax@device ReduceMax@device " \
    "ReduceMax@device ReduceMax@device ReduceMax@device ReduceMax@device "
#define LATE "r = ReduceMin<keepdims = 1>(y) z = ReduceSum<keepdims = 1>(x)"

TEST(lower_gelu_is_taken_anew_where_memory_is_saved) {
    OPS_ON(&cuda_planning, READ_LATE("float16", TEN, LATE), saving,
           "MatMulGelu@device ReduceMax@device " TEN_OPS "GeluTanh@device ReduceMin@device ReduceSum@device");
    OPS_ON(&cuda_planning, READ_LATE("float16", TEN, LATE), all_steps,
           "MatMulGelu@device ReduceMax@device " TEN_OPS "ReduceMin@device ReduceSum@device");
}

/* Near readers; x gone before the reader; f32, where product and GELU stay two nodes. */
TEST(lower_gelu_is_kept_where_nothing_is_saved) {
    OPS_ON(&cuda_planning, READ_LATE("float16", TWO, LATE), saving,
           "MatMulGelu@device ReduceMax@device ReduceMax@device ReduceMax@device ReduceMin@device ReduceSum@device");
    OPS_ON(&cuda_planning,
           READ_LATE("float16", "z = ReduceSum<keepdims = 1>(x) " TEN, "r = ReduceMin<keepdims = 1>(y)"), saving,
           "MatMulGelu@device ReduceMax@device ReduceSum@device " TEN_OPS "ReduceMin@device");
    OPS_ON(&cuda_planning, READ_LATE("float", TEN, LATE), saving,
           "MatMulChain@device{Add@device} GeluTanh@device ReduceMax@device " TEN_OPS "ReduceMin@device "
           "ReduceSum@device");
}
