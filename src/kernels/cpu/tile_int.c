/* cpu/tile_int.c: every integer lane of lanes.list as a function over one tile of 64-bit integers. Plain C, compiled
 * once: integer tensors are small (shapes, indices, masks). The reference uses these too, one element at a time. */
#include "kernels/cpu/tile_table.h"

#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "kernels/lanes/vocab_int.h"

#include <stddef.h>
#include <string.h>

#define FN(name) L_INT_PASTE(lane_##name##_, L_T)

#define LANE_FN(name, formula)                                                                              \
    static void FN(name)(int64_t n, void *dst, const void *const *src, const double *param) {               \
        (void)param;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            L_T a, b, c;                                                                                    \
            memcpy(&a, (const char *)src[0] + i * (int64_t)sizeof a, sizeof a);                             \
            memcpy(&b, (const char *)src[1] + i * (int64_t)sizeof b, sizeof b);                             \
            memcpy(&c, (const char *)src[2] + i * (int64_t)sizeof c, sizeof c);                             \
            const L_T y = formula;                                                                          \
            memcpy((char *)dst + i * (int64_t)sizeof y, &y, sizeof y);                                      \
        }                                                                                                   \
    }
#define FN_F(name, formula)
#define FN_N(name, formula) LANE_FN(name, formula)
#define FN_I(name, formula) LANE_FN(name, formula)

#define UNARY(name, n_param, kinds, uses)  FN_##kinds(name, LANE_##name(a))
#define BINARY(name, n_param, kinds, diff) FN_##kinds(name, LANE_##name(a, b))
#define TERNARY(name, kinds)               FN_##kinds(name, LANE_##name(a, b, c))

#define L_T int64_t
#include "kernels/lanes/lanes.list"
#undef L_T
#define L_T uint64_t
#include "kernels/lanes/lanes.list"
#undef L_T
#undef UNARY
#undef BINARY
#undef TERNARY

#define ROW_F(name)
#define ROW_N(name)                        [NCK_LANE_##name] = FN(name),
#define ROW_I(name)                        ROW_N(name)
#define UNARY(name, n_param, kinds, uses)  ROW_##kinds(name)
#define BINARY(name, n_param, kinds, diff) ROW_##kinds(name)
#define TERNARY(name, kinds)               ROW_##kinds(name)

const nck_lane_fn nck_tile_int64[NCK_N_LANES] = {
#define L_T int64_t
#include "kernels/lanes/lanes.list"
#undef L_T
};
const nck_lane_fn nck_tile_uint64[NCK_N_LANES] = {
#define L_T uint64_t
#include "kernels/lanes/lanes.list"
#undef L_T
};
