/* cpu/math_test.c: the vector mathematics of simd/math.h on every ISA against libm in double precision, in units of
 * the last place, over floats of all sizes; and the values at zero, infinity, NaN and the edges of overflow. */
#include "kernels/cpu/isa_testing.h"
#include "kernels/cpu/tile_table.h"
#include "tests/check.h"

#include <float.h>
#include <stdint.h>

static float of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Distance of got from want in units of the float nearest to want; denormals have one size of unit. */
static double ulps(float got, double want) {
    float w = (float)want;
    if (isnan(got) || isnan(w)) return isnan(got) && isnan(w) ? 0 : INFINITY;
    if (isinf(got) || isinf(w)) return got == w ? 0 : INFINITY;
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void eval(const nck_isa *isa, int lane, const float *x, float *y, int n) {
    const void *src[3] = {x, x, x};
    const double param[2] = {0};
    isa->tile->f32[lane](n, y, src, param);
}

/* Every 4099th float, both signs. */
static void scan(int lane, double (*want)(double), double limit) {
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        double worst = 0;
        float at = 0, x[NCK_TILE_PAD], y[NCK_TILE_PAD];
        for (uint64_t u = 0; u < UINT64_C(0x100000000);) {
            for (int k = 0; k < NCK_TILE_PAD; k++, u += 4099) x[k] = of_bits((uint32_t)u);
            eval(nck_isa_at(i), lane, x, y, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++) {
                double e = ulps(y[k], want((double)x[k]));
                if (e > worst) worst = e, at = x[k];
            }
        }
        if (worst > limit)
            nc_test_failed(__FILE__, __LINE__, "%s %s: %g units off at %a", nck_isa_at(i)->name,
                           nck_lane_get(lane)->name, worst, (double)at);
    }
}

TEST(exp_accuracy) { scan(NCK_LANE_exp, exp, 2); }
TEST(log_accuracy) { scan(NCK_LANE_log, log, 2); }
TEST(tanh_accuracy) { scan(NCK_LANE_tanh, tanh, 3); }
TEST(erf_accuracy) { scan(NCK_LANE_erf, erf, 2); }
TEST(sin_accuracy) { scan(NCK_LANE_sin, sin, 2); }
TEST(cos_accuracy) { scan(NCK_LANE_cos, cos, 2); }
TEST(atan_accuracy) { scan(NCK_LANE_atan, atan, 2); }

static double gelu(double x) { return x * 0.5 * erfc(-x * 0.70710678118654752); }

/* Far negative x keep their digits but for those that x^2 loses, half a unit of it; (1 + erf)/2 has none left at -6. */
TEST(gelu_accuracy) {
    float x[NCK_TILE_PAD], y[NCK_TILE_PAD];
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile))
        for (double v = -13; v < 13;) {
            for (int k = 0; k < NCK_TILE_PAD; k++, v += 0.00037) x[k] = (float)v;
            eval(nck_isa_at(i), NCK_LANE_gelu, x, y, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++) {
                double square = (double)x[k] * (double)x[k], e = ulps(y[k], gelu((double)x[k]));
                if (e > 4 + (x[k] < 0 ? square : 0))
                    nc_test_failed(__FILE__, __LINE__, "%s: gelu is %g units off at %a", nck_isa_at(i)->name, e,
                                   (double)x[k]);
            }
        }
}

static void eval2(const nck_isa *isa, int lane, const float *a, const float *b, float *y, int n) {
    const void *src[3] = {a, b, b};
    const double param[2] = {0};
    isa->tile->f32[lane](n, y, src, param);
}

/* The exponent by which x gives 2^e, so that all sizes of results come up; of x near 1 it is large. */
static float exponent_to(float x, double e) {
    double l = log2(fabs((double)x));
    return (float)(l == 0 ? e : e / l);
}

/* Pairs of any floats; floats of all sizes, those near 1, and hundredths of both signs by halves, to results of all
 * sizes. */
static void pow_pair(uint32_t i, float *x, float *b) {
    uint32_t u = i * 2654435761u, v = (i + 77) * 2246822519u;
    double e = (double)v / 4294967296.0 * 304 - 152;
    *x = of_bits(u), *b = of_bits(v);
    if (i % 4 == 1) *b = exponent_to(*x = of_bits(u & 0x7fffffff), e);
    if (i % 4 == 2) *b = exponent_to(*x = 1 + ((float)(u % 20001) - 10000) * 0x1p-24f, e);
    if (i % 4 == 3) *x = ((float)(u % 4001) - 2000) / 100, *b = ((float)(v % 81) - 40) / 2;
}

TEST(pow_accuracy) {
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        double worst = 0;
        float at[2] = {0}, x[NCK_TILE_PAD], b[NCK_TILE_PAD], y[NCK_TILE_PAD];
        for (uint32_t n = 0; n < 1u << 19;) {
            for (int k = 0; k < NCK_TILE_PAD; k++, n++) pow_pair(n, &x[k], &b[k]);
            eval2(nck_isa_at(i), NCK_LANE_pow, x, b, y, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++) {
                double e = ulps(y[k], pow((double)x[k], (double)b[k]));
                if (e > worst) worst = e, at[0] = x[k], at[1] = b[k];
            }
        }
        if (worst > 1)
            nc_test_failed(__FILE__, __LINE__, "%s: pow is %g units off at %a, %a", nck_isa_at(i)->name, worst,
                           (double)at[0], (double)at[1]);
    }
}

/* A square has the same bits alone and between other powers, zeros, infinities and NaN too. */
TEST(pow_of_two_alone_and_among_others) {
    float x[NCK_TILE_PAD], twos[NCK_TILE_PAD], mixed[NCK_TILE_PAD], y[NCK_TILE_PAD], z[NCK_TILE_PAD];
    static const float some[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -3, 0x1.fffffep127f};
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile))
        for (uint32_t n = 0; n < 1u << 14; n += NCK_TILE_PAD) {
            for (uint32_t k = 0; k < NCK_TILE_PAD; k++) {
                x[k] = k < 8 ? some[k] : of_bits((n + k) * 2654435761u);
                twos[k] = 2, mixed[k] = (n + k) % 3 == 0 ? (float)(k % 7) / 2 : 2;
            }
            eval2(nck_isa_at(i), NCK_LANE_pow, x, twos, y, NCK_TILE_PAD);
            eval2(nck_isa_at(i), NCK_LANE_pow, x, mixed, z, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++) {
                float square = x[k] * x[k];
                if (mixed[k] != 2 || (square != square && y[k] != y[k] && z[k] != z[k])) continue;
                CHECK(memcmp(&y[k], &z[k], sizeof *y) == 0 && ulps(y[k], (double)x[k] * (double)x[k]) <= 1);
            }
        }
}

/* Each by each, as libm has it, signs of zeros too; whole numbers that a float can say are exact. */
TEST(pow_limits) {
    static const float v[] = {0,
                              -0.0f,
                              1,
                              -1,
                              2,
                              -2,
                              0.5f,
                              -0.5f,
                              3,
                              -3,
                              0.33f,
                              INFINITY,
                              -INFINITY,
                              NAN,
                              1e-45f,
                              -1e-45f,
                              3e38f,
                              -3e38f,
                              1e-38f,
                              0x1p24f,
                              0x1.fffffep23f,
                              -0x1.fffffep23f,
                              10,
                              7,
                              5,
                              -6,
                              0x1p-126f};
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile))
        for (size_t a = 0; a < sizeof v / sizeof v[0]; a++)
            for (size_t c = 0; c < sizeof v / sizeof v[0]; c++) {
                float x[NCK_TILE_PAD], b[NCK_TILE_PAD], y[NCK_TILE_PAD], want = powf(v[a], v[c]);
                for (int k = 0; k < NCK_TILE_PAD; k++) x[k] = v[a], b[k] = v[c];
                eval2(nck_isa_at(i), NCK_LANE_pow, x, b, y, NCK_TILE_PAD);
                bool whole = want == floorf(want) && fabsf(want) < 0x1p24f, nan = isnan(want) && isnan(y[0]);
                bool same = y[0] == want && !!signbit(y[0]) == !!signbit(want);
                if (!nan && (whole || isinf(want) ? !same : !(ulps(y[0], (double)want) <= 1)))
                    nc_test_failed(__FILE__, __LINE__, "%s: pow(%a, %a) is %a, expected %a", nck_isa_at(i)->name,
                                   (double)v[a], (double)v[c], (double)y[0], (double)want);
            }
}

/* Floats between lo and hi, one beside the other where functions change their way. */
static void scan_between(int lane, double (*want)(double), float lo, float hi, double limit) {
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        float x[NCK_TILE_PAD], y[NCK_TILE_PAD], v = lo;
        double worst = 0;
        while (v < hi) {
            for (int k = 0; k < NCK_TILE_PAD; k++) x[k] = v, v = nextafterf(v, INFINITY);
            eval(nck_isa_at(i), lane, x, y, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++) worst = fmax(worst, ulps(y[k], want((double)x[k])));
        }
        if (worst > limit)
            nc_test_failed(__FILE__, __LINE__, "%s %s: %g units off between %g and %g", nck_isa_at(i)->name,
                           nck_lane_get(lane)->name, worst, (double)lo, (double)hi);
    }
}

TEST(accuracy_at_seams) {
    scan_between(NCK_LANE_erf, erf, 0.9999f, 1.0001f, 2);
    scan_between(NCK_LANE_erf, erf, 3.91f, 3.93f, 2);
    scan_between(NCK_LANE_tanh, tanh, 0.173f, 0.174f, 3);
    scan_between(NCK_LANE_tanh, tanh, 9.0f, 9.02f, 2);
    scan_between(NCK_LANE_log, log, 0.999f, 1.001f, 2);
    scan_between(NCK_LANE_log, log, 1.41f, 1.42f, 2);
    scan_between(NCK_LANE_exp, exp, 88.70f, 88.74f, 2);
    scan_between(NCK_LANE_exp, exp, -103.98f, -103.96f, 2);
    scan_between(NCK_LANE_sin, sin, 0.785f, 0.786f, 2);
    scan_between(NCK_LANE_sin, sin, 3.14f, 3.143f, 2);
    scan_between(NCK_LANE_cos, cos, 1.57f, 1.572f, 2);
    scan_between(NCK_LANE_sin, sin, 131000, 131080, 2);
    scan_between(NCK_LANE_cos, cos, 131000, 131080, 2);
    scan_between(NCK_LANE_atan, atan, 0.9999f, 1.0001f, 2);
}

TEST(limits) {
    static const struct {
        int lane;
        float x, y;
    } cases[] = {
        {NCK_LANE_exp, INFINITY, INFINITY},
        {NCK_LANE_exp, -INFINITY, 0},
        {NCK_LANE_exp, FLT_MAX, INFINITY},
        {NCK_LANE_exp, -FLT_MAX, 0},
        {NCK_LANE_exp, 0, 1},
        {NCK_LANE_exp, -0.0f, 1},
        {NCK_LANE_log, 0, -INFINITY},
        {NCK_LANE_log, -0.0f, -INFINITY},
        {NCK_LANE_log, INFINITY, INFINITY},
        {NCK_LANE_log, 1, 0},
        {NCK_LANE_log, -1, NAN},
        {NCK_LANE_log, -INFINITY, NAN},
        {NCK_LANE_log, -1e-45f, NAN},
        {NCK_LANE_tanh, INFINITY, 1},
        {NCK_LANE_tanh, -INFINITY, -1},
        {NCK_LANE_tanh, -0.0f, -0.0f},
        {NCK_LANE_tanh, 1e-45f, 1e-45f},
        {NCK_LANE_tanh, -20, -1},
        {NCK_LANE_erf, INFINITY, 1},
        {NCK_LANE_erf, -INFINITY, -1},
        {NCK_LANE_erf, -0.0f, -0.0f},
        {NCK_LANE_erf, -5, -1},
        {NCK_LANE_sin, -0.0f, -0.0f},
        {NCK_LANE_sin, 1e-45f, 1e-45f},
        {NCK_LANE_sin, -1e-30f, -1e-30f},
        {NCK_LANE_sin, INFINITY, NAN},
        {NCK_LANE_sin, NAN, NAN},
        {NCK_LANE_cos, -0.0f, 1},
        {NCK_LANE_cos, -INFINITY, NAN},
        {NCK_LANE_cos, NAN, NAN},
        {NCK_LANE_atan, -0.0f, -0.0f},
        {NCK_LANE_atan, -1e-45f, -1e-45f},
        {NCK_LANE_atan, -INFINITY, -0x1.921fb6p+0f},
        {NCK_LANE_atan, FLT_MAX, 0x1.921fb6p+0f},
        {NCK_LANE_atan, NAN, NAN},
        {NCK_LANE_exp, NAN, NAN},
        {NCK_LANE_log, NAN, NAN},
        {NCK_LANE_tanh, NAN, NAN},
        {NCK_LANE_erf, NAN, NAN},
        {NCK_LANE_tanh, -NAN, NAN},
        {NCK_LANE_gelu, NAN, NAN},
        {NCK_LANE_gelu, INFINITY, INFINITY},
        {NCK_LANE_gelu, -INFINITY, NAN}, /* as x * (1 + erf(x))/2 */
        {NCK_LANE_gelu, -14, -0.0f},
        {NCK_LANE_gelu, -0.0f, -0.0f},
        {NCK_LANE_gelu, FLT_MAX, FLT_MAX},
    };
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            float x[NCK_TILE_PAD], y[NCK_TILE_PAD];
            for (int k = 0; k < NCK_TILE_PAD; k++) x[k] = cases[c].x;
            eval(nck_isa_at(i), cases[c].lane, x, y, NCK_TILE_PAD);
            bool right = isnan(cases[c].y) ? isnan(y[3]) : y[3] == cases[c].y && signbit(y[3]) == signbit(cases[c].y);
            if (!right)
                nc_test_failed(__FILE__, __LINE__, "%s: %s(%g) is %g", nck_isa_at(i)->name,
                               nck_lane_get(cases[c].lane)->name, (double)x[0], (double)y[3]);
        }
    }
}

/* A number's sine does not depend on its neighbours: far ones go another way. */
TEST(waves_beside_far_ones) {
    for (int i = 0; nck_isa_at(i); i = NEXT_ISA(i, tile))
        for (int lane = 0; lane < 2; lane++) {
            float x[NCK_TILE_PAD], alone[NCK_TILE_PAD], y[NCK_TILE_PAD];
            int which = lane ? NCK_LANE_cos : NCK_LANE_sin;
            for (int k = 0; k < NCK_TILE_PAD; k++) x[k] = (float)k * 1.37f - 40;
            eval(nck_isa_at(i), which, x, alone, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k += 3) x[k] = k % 2 ? 1e30f : NAN;
            eval(nck_isa_at(i), which, x, y, NCK_TILE_PAD);
            for (int k = 0; k < NCK_TILE_PAD; k++)
                CHECK(k % 3 == 0 ? isnan(x[k]) ? isnan(y[k]) : ulps(y[k], (lane ? cos : sin)(x[k])) <= 2
                                 : y[k] == alone[k]);
        }
}

/* On every ISA the same operations in the same order: the bits agree. */
TEST(isas_agree_bit_for_bit) {
    static const int lanes[] = {NCK_LANE_exp, NCK_LANE_log,     NCK_LANE_tanh,
                                NCK_LANE_erf, NCK_LANE_sigmoid, NCK_LANE_gelu};
    const nck_isa *first = nck_isa_at(0);
    for (int i = 1; nck_isa_at(i); i = NEXT_ISA(i, tile)) {
        for (size_t l = 0; l < sizeof lanes / sizeof lanes[0]; l++) {
            float x[NCK_TILE_PAD], want[NCK_TILE_PAD], got[NCK_TILE_PAD];
            for (int t = 0; t < 2000; t++) {
                for (int k = 0; k < NCK_TILE_PAD; k++) x[k] = (float)(t * NCK_TILE_PAD + k - 16000) * 0.00625f;
                eval(first, lanes[l], x, want, NCK_TILE_PAD);
                eval(nck_isa_at(i), lanes[l], x, got, NCK_TILE_PAD);
                for (int k = 0; k < NCK_TILE_PAD; k++) CHECK(got[k] == want[k] || (isnan(got[k]) && isnan(want[k])));
            }
        }
    }
}
