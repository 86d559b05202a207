/* plan/lower_many_test.c: sums of gradients and casts of parameters become one node each, on a device with CUDA's
 * kernels. */
#include "tests/lowering.h"

static nc_code place_and_cast(nc_work *w, nc_model *m, const nc_plan_options *o) {
    NC_TRY(nc_lower_place(w, m, o, true));
    return nc_lower_parameters(w, m, o);
}

#define ADD "com.microsoft.InPlaceAccumulatorV2"
#define SUMS "<var float[2] s -> s1, var float[3] t -> t1> "
TEST(lower_many_sums) {
    LOWERS_ON(&cuda_planning,
              "(float16[2] g, float[3] h, bool[1] o) => (y) " SUMS "{ c = Cast<to = 1>(g) f, s1 = " ADD
              "(s, c, o) y = Neg(h) "
              "e, t1 = " ADD "(t, y, o) }",
              nc_lower_sums, "y = Neg(h); s1, t1 = nacre.AccumulateMany(s, t, g, y, o)");
}

/* The rows of a table's gradient are added by themselves, in either order; not where others read them or their sum. */
#define TABLE "(float16[3,2] g, float[3] h, int64[4] i, float[4,2] d, bool[1] o) => "
#define TABLE_SUMS "<const int64[2] z = {3, 2}, var float[3,2] s -> s1, var float[3] t -> t1> "
TEST(lower_many_sums_of_tables) {
    OPS_ON(&cuda_planning,
           TABLE "() " TABLE_SUMS "{ c = Cast<to = 1>(g) r = nacre.GatherGrad(z, i, d) v = Add(c, r) f, s1 = " ADD
                 "(s, v, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "AccumulateMany GatherGradOnto");
    OPS_ON(&cuda_planning,
           TABLE "() " TABLE_SUMS "{ r = nacre.GatherGrad(z, i, d) c = Cast<to = 1>(g) v = Add(r, c) f, s1 = " ADD
                 "(s, v, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "AccumulateMany GatherGradOnto");
    OPS_ON(&cuda_planning,
           TABLE "(r) " TABLE_SUMS "{ c = Cast<to = 1>(g) r = nacre.GatherGrad(z, i, d) v = Add(c, r) f, s1 = " ADD
                 "(s, v, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "Cast GatherGrad Add AccumulateMany");
    OPS_ON(&cuda_planning,
           TABLE "(v) " TABLE_SUMS "{ c = Cast<to = 1>(g) r = nacre.GatherGrad(z, i, d) v = Add(c, r) f, s1 = " ADD
                 "(s, v, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "Cast GatherGrad Add AccumulateMany");
}

/* A flag of its own, none at all, a result that is read, a Cast that others read. */
TEST(lower_many_leaves_other_sums_alone) {
    OPS_ON(&cuda_planning,
           "(float[2] g, float[3] h, bool[1] o, bool[1] p) => () " SUMS "{ f, s1 = " ADD "(s, g, o) e, t1 = " ADD
           "(t, h, p) }",
           nc_lower_sums, "InPlaceAccumulatorV2 InPlaceAccumulatorV2");
    OPS_ON(&cuda_planning,
           "(float[2] g, float[3] h, bool[1] o) => (s1) " SUMS "{ f, s1 = " ADD "(s, g, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "InPlaceAccumulatorV2 InPlaceAccumulatorV2");
    OPS_ON(&cuda_planning,
           "(float16[2] g, float[3] h, bool[1] o) => (c) " SUMS "{ c = Cast<to = 1>(g) f, s1 = " ADD "(s, c, o) "
           "e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "Cast AccumulateMany");
    LOWERS("(float[2] g, float[3] h, bool[1] o) => () " SUMS "{ f, s1 = " ADD "(s, g, o) e, t1 = " ADD "(t, h, o) }",
           nc_lower_sums, "f, s1 = " ADD "(s, g, o); e, t1 = " ADD "(t, h, o)");
}

TEST(lower_many_casts_of_parameters) {
    LOWERS_ON(&cuda_planning,
              "(float[2] x) => (y, z) <var float[2] v = {1, 2}, var float[2] w = {3, 4}> "
              "{ a = Cast<to = 16>(v) y = Neg(a) b = Cast<to = 16>(w) z = Neg(b) }",
              place_and_cast, "a, b = nacre.CastMany(v, w) @device; y = Neg(a) @device; z = Neg(b) @device");
}

/* Of what is no parameter, to another type, or alone. */
TEST(lower_many_leaves_other_casts_alone) {
    OPS_ON(&cuda_planning,
           "(float[2] x) => (y, z) <var float[2] v = {1, 2}> { a = Cast<to = 16>(v) y = Neg(a) b = Cast<to = 16>(x) "
           "z = Neg(b) }",
           place_and_cast, "Cast@device Neg@device Cast@device Neg@device");
    OPS_ON(&cuda_planning,
           "(float[2] x) => (y, z) <var float[2] v = {1, 2}, var float[2] w = {3, 4}> "
           "{ a = Cast<to = 16>(v) y = Neg(a) b = Cast<to = 10>(w) z = Neg(b) }",
           place_and_cast, "Cast@device Neg@device Cast@device Neg@device");
}
