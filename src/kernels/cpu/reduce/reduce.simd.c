/* kernels/cpu/reduce/reduce.simd.c: sums, extremes and exponentials over dense runs, for each ISA.
 * reduce_kernel.h says what each gives; cutting long rows into runs is the callers'. */
#include "kernels/cpu/reduce/reduce_kernel.h"

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <math.h>

enum { LANES = 16 };

/* Goes over n elements by vectors: `whole` at each i, then `part` for the last m elements if any are left. */
#define EACH_VECTOR(S, whole, part)                              \
    int64_t i = 0;                                               \
    for (; i + V_LEN_##S <= n; i += V_LEN_##S) whole;            \
    if (i < n) {                                                 \
        int64_t m = n - i;                                       \
        part;                                                    \
    }

#define DEFINE(S, T)                                                                                                 \
    static T join_##S(T *lane) {                                                                                     \
        for (int half = LANES / 2; half > 0; half /= 2)                                                              \
            for (int k = 0; k < half; k++) lane[k] += lane[k + half];                                                \
        return lane[0];                                                                                              \
    }                                                                                                                \
    static T sum_##S(const T *x, int64_t n) {                                                                        \
        enum { NV = LANES / V_LEN_##S };                                                                             \
        v_##S acc[NV];                                                                                               \
        T lane[LANES];                                                                                               \
        int64_t i = 0;                                                                                               \
        UNROLL                                                                                                       \
        for (int v = 0; v < NV; v++) acc[v] = v_set_##S(0);                                                          \
        for (; i + LANES <= n; i += LANES)                                                                           \
            UNROLL                                                                                                   \
            for (int v = 0; v < NV; v++) acc[v] = v_add_##S(acc[v], v_load_##S(x + i + v * V_LEN_##S));              \
        UNROLL                                                                                                       \
        for (int v = 0; v < NV; v++) v_store_##S(lane + v * V_LEN_##S, acc[v]);                                      \
        for (int k = 0; i < n; i++, k++) lane[k] += x[i];                                                            \
        return join_##S(lane);                                                                                       \
    }                                                                                                                \
    static T dot_##S(const T *a, const T *b, int64_t n) {                                                            \
        enum { NV = LANES / V_LEN_##S };                                                                             \
        v_##S acc[NV];                                                                                               \
        T lane[LANES];                                                                                               \
        int64_t i = 0;                                                                                               \
        UNROLL                                                                                                       \
        for (int v = 0; v < NV; v++) acc[v] = v_set_##S(0);                                                          \
        for (; i + LANES <= n; i += LANES)                                                                           \
            UNROLL                                                                                                   \
            for (int v = 0; v < NV; v++) {                                                                           \
                int64_t at = i + v * V_LEN_##S;                                                                      \
                acc[v] = v_add_##S(acc[v], v_mul_##S(v_load_##S(a + at), v_load_##S(b + at)));                       \
            }                                                                                                        \
        UNROLL                                                                                                       \
        for (int v = 0; v < NV; v++) v_store_##S(lane + v * V_LEN_##S, acc[v]);                                      \
        for (int k = 0; i < n; i++, k++) lane[k] += a[i] * b[i];                                                     \
        return join_##S(lane);                                                                                       \
    }                                                                                                                \
    static T max_##S(const T *x, int64_t n) {                                                                        \
        v_##S acc = v_set_##S(-(T)INFINITY);                                                                         \
        T lane[V_LEN_##S], r = -(T)INFINITY;                                                                         \
        int64_t i = 0;                                                                                               \
        for (; i + V_LEN_##S <= n; i += V_LEN_##S) acc = v_max_##S(acc, v_load_##S(x + i));                          \
        v_store_##S(lane, acc);                                                                                      \
        for (int k = 0; k < V_LEN_##S; k++) r = r > lane[k] || r != r ? r : lane[k];                                 \
        for (; i < n; i++) r = r > x[i] || r != r ? r : x[i];                                                        \
        return r;                                                                                                    \
    }                                                                                                                \
    static T min_##S(const T *x, int64_t n) {                                                                        \
        v_##S acc = v_set_##S((T)INFINITY);                                                                          \
        T lane[V_LEN_##S], r = (T)INFINITY;                                                                          \
        int64_t i = 0;                                                                                               \
        for (; i + V_LEN_##S <= n; i += V_LEN_##S) acc = v_min_##S(acc, v_load_##S(x + i));                          \
        v_store_##S(lane, acc);                                                                                      \
        for (int k = 0; k < V_LEN_##S; k++) r = r < lane[k] || r != r ? r : lane[k];                                 \
        for (; i < n; i++) r = r < x[i] || r != r ? r : x[i];                                                        \
        return r;                                                                                                    \
    }                                                                                                                \
    static void exp_shift_##S(const T *x, T shift, T *y, int64_t n) {                                                \
        v_##S s = v_set_##S(shift);                                                                                  \
        EACH_VECTOR(S, v_store_##S(y + i, v_exp_##S(v_sub_##S(v_load_##S(x + i), s))),                               \
                    v_store_part_##S(y + i, v_exp_##S(v_sub_##S(v_load_part_##S(x + i, m), s)), m))                  \
    }                                                                                                                \
    static void divide_##S(T *y, T by, int64_t n) {                                                                  \
        v_##S d = v_set_##S(by);                                                                                     \
        EACH_VECTOR(S, v_store_##S(y + i, v_div_##S(v_load_##S(y + i), d)),                                          \
                    v_store_part_##S(y + i, v_div_##S(v_load_part_##S(y + i, m), d), m))                             \
    }                                                                                                                \
    static void softmax_grad_##S(const T *y, const T *dy, T dot, T *dx, int64_t n) {                                 \
        v_##S s = v_set_##S(dot);                                                                                    \
        EACH_VECTOR(S, v_store_##S(dx + i, v_mul_##S(v_load_##S(y + i), v_sub_##S(v_load_##S(dy + i), s))),          \
                    (void)m; for (; i < n; i++) dx[i] = y[i] * (dy[i] - dot))                                        \
    }                                                                                                                \
    static void log_grad_##S(const T *y, const T *dy, T sum, T *dx, int64_t n) {                                     \
        v_##S s = v_set_##S(sum);                                                                                    \
        EACH_VECTOR(S,                                                                                               \
                    v_store_##S(dx + i, v_sub_##S(v_load_##S(dy + i), v_mul_##S(v_exp_##S(v_load_##S(y + i)), s))),  \
                    v_store_part_##S(dx + i, v_sub_##S(v_load_part_##S(dy + i, m),                                   \
                                     v_mul_##S(v_exp_##S(v_load_part_##S(y + i, m)), s)), m))                        \
    }
DEFINE(f32, float)
DEFINE(f64, double)

#define UNIT(S)                                                                                                    \
    {.sum = sum_##S, .max = max_##S, .min = min_##S, .dot = dot_##S, .exp_shift = exp_shift_##S,                   \
     .divide = divide_##S, .softmax_grad = softmax_grad_##S, .log_grad = log_grad_##S}

extern const nck_reduce_table NCK_ISA_NAME(nck_reduce_);
const nck_reduce_table NCK_ISA_NAME(nck_reduce_) = {.f32 = UNIT(f32), .f64 = UNIT(f64)};
