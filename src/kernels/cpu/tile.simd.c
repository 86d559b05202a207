/* cpu/tile.simd.c: every float lane of lanes.list as a function over one tile, and the half-precision conversions.
 * Compiled once per ISA; exports nck_tile_<isa>. Holds no formula and no vector instruction of its own. */
#include "kernels/cpu/tile_table.h"

#include "kernels/cpu/per_type.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/unroll.h"
#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "kernels/lanes/vocab_simd.h"

_Static_assert(NCK_TILE_PAD % V_LEN_f32 == 0 && NCK_TILE_PAD % V_LEN_f64 == 0, "a padded tile is whole vectors");

#define PARAMS_0
#define PARAMS_1 , p
#define PARAMS_2 , p, q
#define CALL(lane, ...) lane(__VA_ARGS__)
#define FN(name) L_WORD(lane_##name##_)

/* Lanes whose functions of f32 work on V_SIDE vectors side by side, long ones, so that none waits for itself, and those
 * of an instruction or two, beside which a step of the loop is long; all others on one. */
#define SIDE_exp ~, V_SIDE
#define SIDE_erf ~, V_SIDE
#define SIDE_tanh ~, V_SIDE
#define SIDE_sigmoid ~, V_SIDE
#define SIDE_swish ~, V_SIDE
#define SIDE_gelu ~, V_SIDE
#define SIDE_gelu_grad ~, V_SIDE
#define SIDE_gelu_tanh ~, V_SIDE
#define SIDE_gelu_tanh_grad ~, V_SIDE
#define SIDE_gelu_grad_y ~, V_SIDE
#define SIDE_gelu_tanh_grad_y ~, V_SIDE
#define SIDE_neg ~, V_SIDE
#define SIDE_abs ~, V_SIDE
#define SIDE_square ~, V_SIDE
#define SIDE_relu ~, V_SIDE
#define SIDE_leaky_relu ~, V_SIDE
#define SIDE_hard_sigmoid ~, V_SIDE
#define SIDE_add ~, V_SIDE
#define SIDE_sub ~, V_SIDE
#define SIDE_mul ~, V_SIDE
#define SIDE_div ~, V_SIDE
#define SIDE_min ~, V_SIDE
#define SIDE_max ~, V_SIDE
#define SIDE_where ~, V_SIDE
#define SECOND_(first, second, ...) second
#define SECOND(...) SECOND_(__VA_ARGS__, ~)
_Static_assert(NCK_TILE_PAD % (V_SIDE * V_LEN_f32) == 0, "a padded tile is whole steps");

/* a, b and c are the inputs, p and q the parameters; loads that the formula does not use are dropped by the compiler.
 */
#define LANE_FN(name, formula)                                                                                    \
    static void FN(name)(int64_t n, void *dst, const void *const *src, const double *param) {                     \
        const L_WORD(v_) p = L_K(param[0]), q = L_K(param[1]);                                                    \
        const char *s0 = src[0], *s1 = src[1], *s2 = src[2];                                                      \
        char *d = dst;                                                                                            \
        enum { ELEM = (int)sizeof(L_WORD(v_elem_)), BYTES = L_WORD(V_LEN_) * ELEM };                              \
        enum { VECTORS = ELEM == 4 ? SECOND(SIDE_##name, 1) : 1 };                                                \
        for (int64_t i = 0, end = n * (int64_t)sizeof(L_WORD(v_elem_)); i < end; i += VECTORS * BYTES) {          \
            L_WORD(v_) y[VECTORS];                                                                                \
            UNROLL for (int v = 0; v < VECTORS; v++) {                                                            \
                const int64_t at = i + v * BYTES;                                                                 \
                const L_WORD(v_) a = L_WORD(v_load_)(s0 + at), b = L_WORD(v_load_)(s1 + at),                      \
                                 c = L_WORD(v_load_)(s2 + at);                                                    \
                (void)b, (void)c, (void)p, (void)q;                                                               \
                y[v] = formula;                                                                                   \
            }                                                                                                     \
            UNROLL for (int v = 0; v < VECTORS; v++) L_WORD(v_store_)(d + i + v * BYTES, y[v]);                   \
        }                                                                                                         \
    }
#define GRAD_FN_NONE(name, n_param)
#define GRAD_FN_X(name, n_param) LANE_FN(name##_grad, L_MUL(a, CALL(LANE_##name##_D, b PARAMS_##n_param)))
#define GRAD_FN_Y(name, n_param) GRAD_FN_X(name, n_param)

#define FN_F(name, formula) LANE_FN(name, formula)
#define FN_N(name, formula) LANE_FN(name, formula)
#define FN_I(name, formula)

#define UNARY(name, n_param, kinds, uses) \
    FN_##kinds(name, CALL(LANE_##name, a PARAMS_##n_param)) GRAD_FN_##uses(name, n_param)
#define BINARY(name, n_param, kinds, diff) FN_##kinds(name, CALL(LANE_##name, a, b PARAMS_##n_param))
#define TERNARY(name, kinds) LANE_FN(name, CALL(LANE_##name, a, b, c))

#define L_SUFFIX f32
#include "kernels/lanes/lanes.list"
#undef L_SUFFIX
#define L_SUFFIX f64
#include "kernels/lanes/lanes.list"
#undef L_SUFFIX
#undef UNARY
#undef BINARY
#undef TERNARY

#define SUFFIX f16
#include "kernels/cpu/tile_half.inc"
#define SUFFIX bf16
#include "kernels/cpu/tile_half.inc"

#define GRAD_ROW_NONE(name)
#define GRAD_ROW_X(name) [NCK_LANE_##name##_grad] = FN(name##_grad),
#define GRAD_ROW_Y(name) GRAD_ROW_X(name)
#define ROW_F(name) [NCK_LANE_##name] = FN(name),
#define ROW_N(name) [NCK_LANE_##name] = FN(name),
#define ROW_I(name)
#define UNARY(name, n_param, kinds, uses) ROW_##kinds(name) GRAD_ROW_##uses(name)
#define BINARY(name, n_param, kinds, diff) ROW_##kinds(name)
#define TERNARY(name, kinds) [NCK_LANE_##name] = FN(name),

extern const nck_tile_table NCK_ISA_NAME(nck_tile_);
const nck_tile_table NCK_ISA_NAME(nck_tile_) = {
#define L_SUFFIX f32
    .f32 =
        {
#include "kernels/lanes/lanes.list"
        },
#undef L_SUFFIX
#define L_SUFFIX f64
    .f64 =
        {
#include "kernels/lanes/lanes.list"
        },
    .load_f16 = tile_load_f16,
    .load_bf16 = tile_load_bf16,
    .store_f16 = tile_store_f16,
    .store_bf16 = tile_store_bf16,
};
