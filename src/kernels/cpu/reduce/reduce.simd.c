/* kernels/cpu/reduce/reduce.simd.c: sums, extremes and exponentials over dense runs, for each ISA.
 * reduce_kernel.h says what each gives; cutting long rows into runs is the callers'. */
#include "kernels/cpu/reduce/reduce_kernel.h"

#include "kernels/cpu/per_type.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16,
    LINE = 64, /* bytes of a line of the cache */
    AHEAD = 8  /* rows from one that is added to one that is asked for */
};
#ifdef NCK_ISA_portable
enum { HAS_VECTORS = 0 };
#else
enum { HAS_VECTORS = 1 };
#endif
/* x, a * b, (x - shift)^2, (a - shift) * b */
typedef enum run_terms { ELEMENTS, PRODUCTS, SQUARES, SHIFTED } run_terms;

#define ALWAYS __attribute__((always_inline)) static inline
/* What is done with the last elements, fewer than a vector. Where parts of vectors are no words of the ISA it stands
 * apart, so that runs of whole vectors save no registers for it. */
#ifdef V_HAS_PARTS
#define TAIL ALWAYS
#else
#define TAIL __attribute__((noinline)) static
#endif

#define TEXT "kernels/cpu/reduce/reduce_runs.inc"
#include "kernels/cpu/per_float.inc"

#if defined NCK_ISA_portable || defined NCK_ISA_avx512
#define FEW_ROWS
#else
#include "kernels/cpu/reduce/reduce_few.inc"
#define FEW_ROWS .few_dots = run_few_dots, .few_sums = run_few_sums,
#endif

#define UNIT(S, N)                                                                                                  \
    {                                                                                                               \
        .sum = run_sum_##S, .max = run_max_##S, .min = run_min_##S, .dot = run_dot_##S,                             \
        .squares = run_squares_##S, .dot_shift = run_dot_shift_##S, .add_rows = run_add_rows_##S,                   \
        .extreme_rows = run_extreme_rows_##S,                                                                       \
        .norm_sums = run_norm_sums_##S, .norm_dx = run_norm_dx_##S, .blend = run_blend_##S, .times = run_times_##S, \
        .exp_shift = run_exp_shift_##S, .divide = run_divide_##S, .softmax = run_softmax_##S,                       \
        .affine = run_affine_##S, .norm = N, .softmax_grad = run_softmax_grad_##S,                                  \
        .log_grad = run_log_grad_##S                                                                                \
    }

extern const nck_reduce_table NCK_ISA_NAME(nck_reduce_);
const nck_reduce_table NCK_ISA_NAME(nck_reduce_) = {
    .width = V_LEN_f32, FEW_ROWS.f32 = UNIT(f32, run_norm_f32), .f64 = UNIT(f64, NULL)};
