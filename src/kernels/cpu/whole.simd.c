/* cpu/whole.simd.c: the integer lanes of lanes.list over a tile of int64, and dense conversions between the types that
 * tiles compute in and those that tensors have. Plain loops of a known length, which the compiler turns into the ISA's
 * vectors; the portable copy is empty, and tile_int.c and tile_io.c, the references, stand in for it. */
#include "kernels/cpu/tile_table.h"

#include "kernels/cpu/simd/simd.h"
#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "kernels/lanes/vocab_int.h"

extern const nck_whole_table NCK_ISA_NAME(nck_whole_);

#ifdef NCK_ISA_portable
const nck_whole_table NCK_ISA_NAME(nck_whole_) = {.i64 = NULL};
#else

/* An iteration reads and writes its own element only, in place or not. clang warns where it finds no vectors. */
#ifdef __clang__
#define APART
#else
#define APART _Pragma("GCC ivdep")
#endif
enum { STEP = 8, RUN = 32 };
_Static_assert(NCK_TILE_PAD % STEP == 0, "a padded tile is whole steps");

#define ANYWHERE __attribute__((aligned(1), may_alias))
typedef int64_t ANYWHERE any_i64;
typedef int32_t ANYWHERE any_i32;
typedef float ANYWHERE any_f32;

/* ---- lanes ---- */

#define L_T int64_t
#define FN(name) lane_##name##_i64
#define LANE_FN(name, formula)                                                                \
    static void FN(name)(int64_t n, void *dst, const void *const *src, const double *param) { \
        const any_i64 *s0 = src[0], *s1 = src[1], *s2 = src[2];                               \
        any_i64 *d = dst;                                                                     \
        (void)param;                                                                          \
        for (int64_t i = 0; i < n; i += STEP) {                                               \
            APART for (int k = 0; k < STEP; k++) {                                            \
                const int64_t a = s0[i + k], b = s1[i + k], c = s2[i + k];                    \
                (void)b, (void)c;                                                             \
                d[i + k] = formula;                                                           \
            }                                                                                 \
        }                                                                                     \
    }
#define FN_F(name, formula)
#define FN_N(name, formula) LANE_FN(name, formula)
#define FN_I(name, formula) LANE_FN(name, formula)
#define UNARY(name, n_param, kinds, uses) FN_##kinds(name, LANE_##name(a))
#define BINARY(name, n_param, kinds, diff) FN_##kinds(name, LANE_##name(a, b))
#define TERNARY(name, kinds) FN_##kinds(name, LANE_##name(a, b, c))
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY

#define ROW_F(name)
#define ROW_N(name) [NCK_LANE_##name] = FN(name),
#define ROW_I(name) ROW_N(name)
#define UNARY(name, n_param, kinds, uses) ROW_##kinds(name)
#define BINARY(name, n_param, kinds, diff) ROW_##kinds(name)
#define TERNARY(name, kinds) ROW_##kinds(name)
static const nck_lane_fn lanes_i64[NCK_N_LANES] = {
#include "kernels/lanes/lanes.list"
};

/* ---- conversions ---- */

/* As casts do it: towards zero, the ends beyond the ends, NaN as 0. */
static inline int32_t cast(float x) {
    const float most = 0x1.fffffep30f;
    float y = x == x ? x : 0;
    y = y < -0x1p31f ? -0x1p31f : y;
    y = y > most ? most : y;
    return x >= 0x1p31f ? INT32_MAX : (int32_t)y;
}

#define CONVERT(name, S, D, expr)                                                                            \
    static void name(void *dst, const void *src, int64_t n) {                                                \
        typedef S ANYWHERE from;                                                                             \
        typedef D ANYWHERE to;                                                                               \
        const from *x = src;                                                                                 \
        to *y = dst;                                                                                         \
        for (; n >= RUN; n -= RUN, x += RUN, y += RUN) APART for (int k = 0; k < RUN; k++) y[k] = (D)(expr); \
        for (int64_t k = 0; k < n; k++) y[k] = (D)(expr);                                                    \
    }
CONVERT(f32_of_bool, uint8_t, float, (int32_t)(x[k] != 0))
CONVERT(bool_of_f32, float, uint8_t, x[k] != 0)
CONVERT(f32_of_i32, int32_t, float, x[k])
CONVERT(f32_of_i64, int64_t, float, x[k])
CONVERT(f32_of_f64, double, float, x[k])
CONVERT(f64_of_f32, float, double, x[k])
CONVERT(i64_of_bool, uint8_t, int64_t, x[k] != 0)
CONVERT(bool_of_i64, int64_t, uint8_t, x[k] != 0)
CONVERT(i64_of_u8, uint8_t, int64_t, x[k])
CONVERT(i64_of_i8, int8_t, int64_t, x[k])
CONVERT(i8_of_i64, int64_t, uint8_t, x[k])
CONVERT(i64_of_i32, int32_t, int64_t, x[k])
CONVERT(i32_of_i64, int64_t, int32_t, x[k])
#ifdef NCK_ISA_neon /* one instruction does just that */
static void i32_of_f32(void *dst, const void *src, int64_t n) {
    const char *x = src;
    char *y = dst;
    for (; n >= 4; n -= 4, x += 16, y += 16) vst1q_u8((uint8_t *)y, vreinterpretq_u8_s32(vcvtq_s32_f32(v_load_f32(x))));
    for (; n > 0; n--, x += 4, y += 4) *(any_i32 *)y = cast(*(const any_f32 *)x);
}
static void i8_of_f32(void *dst, const void *src, int64_t n) {
    const char *x = src;
    uint8_t *y = dst;
    for (; n >= 16; n -= 16, x += 64, y += 16) {
        int16x8_t h[2];
        for (int k = 0; k < 2; k++)
            h[k] = vmovn_high_s32(vmovn_s32(vcvtq_s32_f32(v_load_f32(x + 32 * k))),
                                  vcvtq_s32_f32(v_load_f32(x + 32 * k + 16)));
        vst1q_u8(y, vreinterpretq_u8_s8(vmovn_high_s16(vmovn_s16(h[0]), h[1])));
    }
    for (; n > 0; n--, x += 4, y++) *y = (uint8_t)cast(*(const any_f32 *)x);
}
#else
CONVERT(i32_of_f32, float, int32_t, cast(x[k]))
CONVERT(i8_of_f32, float, uint8_t, cast(x[k]))
#endif

static const nck_dense_row rows[] = {
    {NC_BOOL, NC_FLOAT, f32_of_bool}, {NC_FLOAT, NC_BOOL, bool_of_f32},  {NC_INT32, NC_FLOAT, f32_of_i32},
    {NC_INT64, NC_FLOAT, f32_of_i64}, {NC_DOUBLE, NC_FLOAT, f32_of_f64}, {NC_FLOAT, NC_DOUBLE, f64_of_f32},
    {NC_BOOL, NC_INT64, i64_of_bool}, {NC_INT64, NC_BOOL, bool_of_i64},  {NC_UINT8, NC_INT64, i64_of_u8},
    {NC_INT8, NC_INT64, i64_of_i8},   {NC_INT64, NC_UINT8, i8_of_i64},   {NC_INT64, NC_INT8, i8_of_i64},
    {NC_INT32, NC_INT64, i64_of_i32}, {NC_INT64, NC_INT32, i32_of_i64}};

const nck_whole_table NCK_ISA_NAME(nck_whole_) = {.i64 = lanes_i64,
                                                  .rows = rows,
                                                  .n_rows = sizeof rows / sizeof *rows,
                                                  .i32_of_f32 = i32_of_f32,
                                                  .i8_of_f32 = i8_of_f32};
#endif
