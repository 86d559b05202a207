/* plan/lower_codes_last_test.c: Transposes move behind maps and sums of codes, and meet; near misses stay. */
#include "tests/lowering.h"

static nc_code maps_and_turns(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_code_maps(w, m, o));
    return nc_lower_codes_last(w, m, o);
}

#define OPS(graph, want) OPS_ON(nc_device_cpu(), HEAD graph, maps_and_turns, want)
#define HEAD                                                                                                         \
    "(uint8[n,5,6,4] x, uint8[n,5,6,4] o, uint8[n,4,5,6] plain) => (y) <const float[] s = {0.5}, const float[] t = " \
    "{0.25}, const uint8[] z = {7}> "
#define FRONT "Transpose<perm = [0, 3, 1, 2]>"
#define LAST "Transpose<perm = [0, 2, 3, 1]>"
#define MAP(y, x) "d" y " = DequantizeLinear(" x ", s, z) e" y " = Tanh(d" y ") " y " = QuantizeLinear(e" y ", t, z) "
#define ADD "com.microsoft.QLinearAdd"

TEST(lower_codes_last_maps_and_sums) {
    OPS("{ a = " FRONT "(x) " MAP("b", "a") "c = " LAST "(b) y = MaxPool<kernel_shape = [1, 1]>(c) }",
        "MapCodes{DequantizeLinear Tanh QuantizeLinear} MaxPool");
    OPS("{ a = " FRONT "(x) " MAP("b", "a") "c = " FRONT "(o) d = " ADD "(b, t, z, c, s, z, s, z) e = " LAST
                                            "(d) y = MaxPool<kernel_shape = [1, 1]>(e) }",
        "MapCodes{DequantizeLinear Tanh QuantizeLinear} QLinearAdd MaxPool");
    OPS("{ a = " FRONT "(x) " MAP("b", "a") "y = MaxPool<kernel_shape = [1, 1]>(b) }",
        "MapCodes{DequantizeLinear Tanh QuantizeLinear} Transpose MaxPool");
}

/* Codes that others read turned are turned for them; sums of one turned operand, of two turned in other ways. */
TEST(lower_codes_last_leaves_the_rest) {
    OPS("{ a = " FRONT "(x) " MAP("b", "a") "y = " ADD "(a, s, z, b, t, z, s, z) }",
        "MapCodes{DequantizeLinear Tanh QuantizeLinear} QLinearAdd Transpose");
    OPS("{ a = " FRONT "(x) y = " ADD "(a, s, z, plain, t, z, s, z) }", "Transpose QLinearAdd");
    OPS("{ a = " FRONT "(x) " MAP("b", "a") "y = Transpose<perm = [0, 3, 2, 1]>(b) }",
        "MapCodes{DequantizeLinear Tanh QuantizeLinear} Transpose Transpose");
}
