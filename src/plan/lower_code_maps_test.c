/* plan/lower_code_maps_test.c: codes made of codes by formulas become maps; what depends on more than one tensor, or is
 * read as numbers, stays. */
#include "tests/lowering.h"

static nc_code place_and_map(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_code_maps(w, m, o);
}

#define MAPS(graph, want) OPS_ON(nc_device_cpu(), graph, place_and_map, want)
#define HEAD                                                                                                         \
    "(uint8[n,4] x, uint8[n,4] o, float[] fed, uint8[1,4] row) => (y) <const float[] s = {0.5}, const float[1] t = " \
    "{0.25}, "                                                                                                       \
    "const float[4] each = {1, 2, 3, 4}, const uint8[] z = {7}, const uint8[] c = {9}, const float[] half = {0.5}> "
#define DQ "DequantizeLinear"
#define Q "QuantizeLinear"

TEST(lower_code_maps_of_formulas) {
    MAPS(HEAD "{ d = " DQ "(x, s, z) e = Sigmoid(d) q = " Q "(e, t, z) f = " DQ "(q, t, z) m = Mul(d, f) y = " Q
              "(m, s, z) }",
         "MapCodes{DequantizeLinear Sigmoid QuantizeLinear DequantizeLinear Mul QuantizeLinear}");
    MAPS(HEAD "{ d = " DQ "(x, s, z) y = " Q "(d, t, z) }", "MapCodes{DequantizeLinear QuantizeLinear}");
    /* A number that is made of codes itself. */
    MAPS(HEAD "{ d = " DQ "(x, s, z) k = " DQ "(c, s, z) a = Add(d, k) b = Mul(half, a) y = " Q "(b, s) }",
         "MapCodes{DequantizeLinear DequantizeLinear Add Mul QuantizeLinear}");
}

/* Numbers that others read are made as before; codes that others read are a map of their own. */
TEST(lower_code_maps_beside_other_readers) {
    MAPS(HEAD "{ d = " DQ "(x, s, z) e = Tanh(d) q = " Q "(e, t, z) u = Softmax(d) r = " Q
              "(u, t, z) y = Concat<axis = 0>(q, r) }",
         "DequantizeLinear MapCodes{DequantizeLinear Tanh QuantizeLinear} Softmax QuantizeLinear Concat");
    MAPS(HEAD "{ d = " DQ "(x, s, z) q = " Q "(d, t, z) f = " DQ "(q, t, z) e = Tanh(f) r = " Q
              "(e, t, z) y = Concat<axis = 0>(q, r) }",
         "MapCodes{DequantizeLinear QuantizeLinear} MapCodes{DequantizeLinear QuantizeLinear DequantizeLinear Tanh "
         "QuantizeLinear} Concat");
}

TEST(lower_code_maps_leaves_the_rest) {
    MAPS(HEAD "{ d = " DQ "(x, s, z) e = " DQ "(o, s, z) m = Mul(d, e) y = " Q "(m, s, z) }",
         "DequantizeLinear DequantizeLinear Mul QuantizeLinear");
    MAPS(HEAD "{ d = " DQ "(x, s, z) m = Mul(d, fed) y = " Q "(m, s, z) }", "DequantizeLinear Mul QuantizeLinear");
    MAPS(HEAD "{ d = " DQ "(x, s, z) m = Mul(d, each) y = " Q "(m, s, z) }", "DequantizeLinear Mul QuantizeLinear");
    MAPS(HEAD "{ d = " DQ "(x, each) y = " Q "(d, s, z) }", "DequantizeLinear QuantizeLinear");
    MAPS(HEAD "{ d = " DQ "(x, fed, z) y = " Q "(d, s, z) }", "DequantizeLinear QuantizeLinear");
    MAPS(HEAD "{ d = " DQ "(row, s, z) e = " DQ "(x, s, z) m = Add(d, e) y = " Q "(m, s, z) }",
         "DequantizeLinear DequantizeLinear Add QuantizeLinear");
    OPS_ON(&cuda_planning, HEAD "{ d = " DQ "(x, s, z) e = Tanh(d) y = " Q "(e, t, z) }", place_and_map,
           "DequantizeLinear Tanh@device QuantizeLinear");
}
