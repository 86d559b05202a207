/* lanes/lanes_test.c: the table of lanes, and every derivative against finite differences of its formula. */
#include "kernels/lanes/lanes.h"

#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "kernels/lanes/vocab_scalar.h"
#include "tests/check.h"

TEST(lanes_table_is_complete) {
    for (int i = 0; i < NCK_N_LANES; i++) {
        const nck_lane_info *info = nck_lane_get(i);
        REQUIRE(info != NULL && info->name != NULL);
        CHECK_INT(nck_lane_find(info->name), i);
        CHECK(info->n_in >= 1 && info->n_in <= 3 && info->n_param >= 0 && info->n_param <= 2);
        CHECK(info->kinds == 'F' || info->kinds == 'N' || info->kinds == 'I');
        CHECK((info->grad >= 0) == (info->uses != NCK_USES_NONE));
    }
    CHECK(nck_lane_get(-1) == NULL && nck_lane_get(NCK_N_LANES) == NULL);
    CHECK_INT(nck_lane_find("no_such_lane"), -1);
    CHECK_INT(nck_lane_find(""), -1);
}

TEST(lanes_facts) {
    const nck_lane_info *t = nck_lane_get(NCK_LANE_tanh), *g = nck_lane_get(NCK_LANE_leaky_relu_grad);
    CHECK(t->n_in == 1 && t->n_param == 0 && t->kinds == 'F' && t->uses == NCK_USES_Y && t->grad == NCK_LANE_tanh_grad);
    CHECK(g->n_in == 2 && g->n_param == 1 && g->kinds == 'F' && g->uses == NCK_USES_NONE && g->grad == -1);
    CHECK(nck_lane_get(NCK_LANE_where)->n_in == 3);
    CHECK(nck_lane_get(NCK_LANE_pow)->diff && !nck_lane_get(NCK_LANE_less)->diff && !nck_lane_get(NCK_LANE_not)->diff);
}

static const double points[] = {0.3, 0.7, 1.1, 1.9, 2.6};
enum { N_POINTS = sizeof points / sizeof points[0] };
#define L_T double
#define STEP 1e-6

#define PARAMS_0
#define PARAMS_1 , p
#define PARAMS_2 , p, q
#define CALL(lane, ...) lane(__VA_ARGS__)
#define S_X(x, y) x
#define S_Y(x, y) y

/* Negative points only where the formula has values there. */
#define CHECK_D(name, n_param, uses)                                                                           \
    for (int i = -N_POINTS; i < N_POINTS; i++) {                                                               \
        const double p = 0.25, q = 0.4, x = i < 0 ? -points[-1 - i] : points[i], h = x + STEP, l = x - STEP;   \
        const double y = CALL(LANE_##name, x PARAMS_##n_param);                                                \
        if (y != y) continue;                                                                                  \
        const double up = CALL(LANE_##name, h PARAMS_##n_param), down = CALL(LANE_##name, l PARAMS_##n_param); \
        const double want = (up - down) / (2 * STEP);                                                          \
        const double got = CALL(LANE_##name##_D, S_##uses(x, y) PARAMS_##n_param);                             \
        (void)p, (void)q;                                                                                      \
        if (!nc_close(got, want, nc_tol_difference_lane_f64))                                                  \
            nc_test_failed(__FILE__, __LINE__, #name "' at %g is %.12g, expected %.12g", x, got, want);        \
    }
#define CHECK_D_NONE(name, n_param)
#define CHECK_D_X(name, n_param) CHECK_D(name, n_param, X)
#define CHECK_D_Y(name, n_param) CHECK_D(name, n_param, Y)

TEST(unary_derivatives){
#define UNARY(name, n_param, kinds, uses) CHECK_D_##uses(name, n_param)
#define BINARY(name, n_param, kinds, diff)
#define TERNARY(name, kinds)
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY
}

#define CHECK_DIFF_0(name)
#define CHECK_DIFF_1(name)                                                                                             \
    for (int i = 0; i < N_POINTS * N_POINTS; i++) {                                                                    \
        const double a = points[i / N_POINTS], b = points[i % N_POINTS] + 0.06, y = LANE_##name(a, b);                 \
        const double d0 = (LANE_##name((a + STEP), b) - LANE_##name((a - STEP), b)) / (2 * STEP);                      \
        const double d1 = (LANE_##name(a, (b + STEP)) - LANE_##name(a, (b - STEP))) / (2 * STEP);                      \
        const double g0 = LANE_##name##_D0(a, b, y), g1 = LANE_##name##_D1(a, b, y);                                   \
        (void)y;                                                                                                       \
        if (!nc_close(g0, d0, nc_tol_difference_lane_f64) || !nc_close(g1, d1, nc_tol_difference_lane_f64))            \
            nc_test_failed(__FILE__, __LINE__, #name "' at (%g, %g) is (%.12g, %.12g), expected (%.12g, %.12g)", a, b, \
                           g0, g1, d0, d1);                                                                            \
    }

TEST(binary_derivatives){
#define UNARY(name, n_param, kinds, uses)
#define BINARY(name, n_param, kinds, diff) CHECK_DIFF_##diff(name)
#define TERNARY(name, kinds)
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY
}

/* From its own result the slope is that of the formula, at 0 and where y has no digits left too. */
TEST(derivatives_of_gelu_from_its_result) {
    const double more[] = {0, 1e-40, 1e-20, 6, 9, 40};
    for (int i = 0; i < 2 * (N_POINTS + 6); i++) {
        const double a = i / 2 < N_POINTS ? points[i / 2] : more[i / 2 - N_POINTS], x = i % 2 ? -a : a;
        CHECK_CLOSE(LANE_gelu_grad_y(3.0, x, LANE_gelu(x)), 3 * LANE_gelu_D(x), nc_tol_difference_lane_f64);
        CHECK_CLOSE(LANE_gelu_tanh_grad_y(3.0, x, LANE_gelu_tanh(x)), 3 * LANE_gelu_tanh_D(x),
                    nc_tol_difference_lane_f64);
    }
}

TEST(derivatives_at_corners) {
    CHECK_NEAR(LANE_pow_D0(0.0, 0.0, 1.0), 0, 0);
    CHECK_NEAR(LANE_pow_D1(0.0, 2.0, 0.0), 0, 0);
    CHECK_NEAR(LANE_max_D0(1.0, 1.0, 1.0) + LANE_max_D1(1.0, 1.0, 1.0), 1, 0);
    CHECK_NEAR(LANE_min_D0(2.0, 1.0, 1.0), 0, 0);
    CHECK_NEAR(LANE_abs_D(0.0), 0, 0);
    CHECK_NEAR(LANE_relu_D(0.0), 0, 0);
}

TEST(values_at_corners) {
    CHECK(isnan(LANE_relu(NAN)) && isnan(LANE_min(NAN, 1.0)) && isnan(LANE_max(1.0, NAN)));
    CHECK_CLOSE(LANE_softplus(-50.0), exp(-50.0), nc_tol_lane_f64);
    CHECK_NEAR(LANE_softplus(1000.0), 1000, 0);
    CHECK_CLOSE(LANE_elu(-1e-12, 1.0), -1e-12 + 0.5e-24, nc_tol_lane_f64);
    CHECK_NEAR(LANE_elu(-INFINITY, 2.0), -2, 0);
    CHECK_NEAR(LANE_mod(-7.0, 3.0), 2, 0);
    CHECK_NEAR(LANE_mod(7.0, -3.0), -2, 0);
    CHECK_NEAR(LANE_fmod(-7.0, 3.0), -1, 0);
    CHECK_NEAR(LANE_less(NAN, 1.0) + LANE_greater(NAN, 1.0) + LANE_equal(NAN, NAN), 0, 0);
    CHECK_NEAR(LANE_xor(2.0, 0.0), 1, 0);
    CHECK_NEAR(LANE_not(NAN), 0, 0);
}
