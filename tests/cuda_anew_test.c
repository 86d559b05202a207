/* tests/cuda_anew_test.c: GELU taken anew for a late reader (plan/lower_gelu.c) gives on a GPU what it gave when it was
 * kept, but for the rounding of what it is taken of. The casts make the operands halves. */
#include "base/dtype.h"
#include "tests/model.h"

#define GRAPH                                                                                                  \
    "<opset: \"\" 22, \"nacre\" 1> g (float[2,12,16] a, float[16,32] b, float[32] v) => (e, t, z) {"           \
    " ha = Cast<to = 10>(a) hb = Cast<to = 10>(b) hv = Cast<to = 10>(v) p = MatMul(ha, hb) x = Add(p, hv)"     \
    " y = nacre.GeluTanh(x) e = ReduceMax<keepdims = 1>(y) f = ReduceMin(e) g = ReduceMax(f) h = ReduceMin(g)" \
    " i = ReduceMax(h) j = ReduceMin(i) k = ReduceMax(j) l = ReduceMin(k) o = ReduceMax(l)"                    \
    " r = ReduceMin(y) z = ReduceSum(x) t = Add(r, o) }"

static void run(model *m, bool anew) {
    float a[24 * 16], b[16 * 32], v[32];
    random_floats(a, 24 * 16, 1), random_floats(b, 16 * 32, 2), random_floats(v, 32, 3);
    if (anew) model_option(m, "recompute", "*");
    model_open(m, GRAPH);
    model_input(m, "a", NACRE_FLOAT, 3, D(2, 12, 16), a);
    model_input(m, "b", NACRE_FLOAT, 2, D(16, 32), b);
    model_input(m, "v", NACRE_FLOAT, 1, D(32), v);
    model_run(m);
    CHECK_INT(model_dump_count(m, "lowered", "= nacre.GeluTanh("), anew);
}

static float kept[3];

static float number(model *m, int i) {
    return m->failed ? 0 : nc_f16_to_f32(*(const uint16_t *)nacre_value_data(m->out[i]));
}

static void run_kept(model *m) {
    run(m, false);
    for (int i = 0; i < 3; i++) kept[i] = number(m, i);
    CHECK(kept[0] > 0.5f); /* the largest of many */
}

static void run_anew(model *m) {
    run(m, true);
    for (int i = 0; i < 3; i++) CHECK_CLOSE(number(m, i), kept[i], nc_tol_device_f16);
}

TEST(cuda_gelu_taken_anew) {
    if (model_on_cuda(run_kept)) model_on_cuda(run_anew);
}
