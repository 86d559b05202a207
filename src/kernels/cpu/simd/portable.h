/* simd/portable.h: the vector vocabulary in plain C: arrays of 4 floats and 2 doubles. For processors without a file
 * of their own, and the yardstick of the others: every word gives the bits that IEEE arithmetic prescribes. */
#ifndef NCK_SIMD_PORTABLE_H
#define NCK_SIMD_PORTABLE_H

#include "base/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define V_LEN_f32 4
#define V_LEN_f64 2

typedef struct v_f32 { float e[V_LEN_f32]; } v_f32;
typedef struct v_f64 { double e[V_LEN_f64]; } v_f64;
typedef struct m_f32 { bool e[V_LEN_f32]; } m_f32;
typedef struct m_f64 { bool e[V_LEN_f64]; } m_f64;
typedef struct v_i32 { int32_t e[V_LEN_f32]; } v_i32;

/* Defines a word whose element i is `expr`; R is the result's type. */
#define WORD1(word, R, A, N, expr)              \
    static inline R word(A a) {                 \
        R r;                                    \
        for (int i = 0; i < N; i++) r.e[i] = expr; \
        return r;                               \
    }
#define WORD2(word, R, A, B, N, expr)           \
    static inline R word(A a, B b) {            \
        R r;                                    \
        for (int i = 0; i < N; i++) r.e[i] = expr; \
        return r;                               \
    }
#define WORD3(word, R, A, B, C, N, expr)        \
    static inline R word(A a, B b, C c) {       \
        R r;                                    \
        for (int i = 0; i < N; i++) r.e[i] = expr; \
        return r;                               \
    }

#define WORDS(S, T, F)                                                                                     \
    static inline v_##S v_load_##S(const void *p) {                                                        \
        v_##S r;                                                                                           \
        memcpy(r.e, p, sizeof r.e);                                                                        \
        return r;                                                                                          \
    }                                                                                                      \
    static inline void v_store_##S(void *p, v_##S a) { memcpy(p, a.e, sizeof a.e); }                       \
    WORD1(v_set_##S, v_##S, T, V_LEN_##S, a)                                                               \
    WORD2(v_add_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] + b.e[i])                                      \
    WORD2(v_sub_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] - b.e[i])                                      \
    WORD2(v_mul_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] * b.e[i])                                      \
    WORD2(v_div_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] / b.e[i])                                      \
    WORD3(v_fma_##S, v_##S, v_##S, v_##S, v_##S, V_LEN_##S, fma##F(a.e[i], b.e[i], c.e[i]))                \
    WORD2(v_min_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] < b.e[i] || a.e[i] != a.e[i] ? a.e[i] : b.e[i]) \
    WORD2(v_max_##S, v_##S, v_##S, v_##S, V_LEN_##S, a.e[i] > b.e[i] || a.e[i] != a.e[i] ? a.e[i] : b.e[i]) \
    WORD1(v_abs_##S, v_##S, v_##S, V_LEN_##S, fabs##F(a.e[i]))                                             \
    WORD1(v_neg_##S, v_##S, v_##S, V_LEN_##S, -a.e[i])                                                     \
    WORD1(v_sqrt_##S, v_##S, v_##S, V_LEN_##S, sqrt##F(a.e[i]))                                            \
    WORD1(v_floor_##S, v_##S, v_##S, V_LEN_##S, floor##F(a.e[i]))                                          \
    WORD1(v_rint_##S, v_##S, v_##S, V_LEN_##S, rint##F(a.e[i]))                                            \
    WORD2(v_copysign_##S, v_##S, v_##S, v_##S, V_LEN_##S, copysign##F(a.e[i], b.e[i]))                     \
    WORD2(v_lt_##S, m_##S, v_##S, v_##S, V_LEN_##S, a.e[i] < b.e[i])                                       \
    WORD2(v_le_##S, m_##S, v_##S, v_##S, V_LEN_##S, a.e[i] <= b.e[i])                                      \
    WORD2(v_eq_##S, m_##S, v_##S, v_##S, V_LEN_##S, a.e[i] == b.e[i])                                      \
    WORD2(v_and_##S, m_##S, m_##S, m_##S, V_LEN_##S, a.e[i] && b.e[i])                                     \
    WORD2(v_or_##S, m_##S, m_##S, m_##S, V_LEN_##S, a.e[i] || b.e[i])                                      \
    WORD1(v_not_##S, m_##S, m_##S, V_LEN_##S, !a.e[i])                                                     \
    WORD3(v_sel_##S, v_##S, m_##S, v_##S, v_##S, V_LEN_##S, a.e[i] ? b.e[i] : c.e[i])

WORDS(f32, float, f)
WORDS(f64, double, )

static inline int32_t round_one_i32(float a) { return a > -2147483648.0f && a < 2147483648.0f ? (int32_t)rintf(a) : 0; }

WORD1(v_set_i32, v_i32, int32_t, V_LEN_f32, a)
WORD2(v_add_i32, v_i32, v_i32, v_i32, V_LEN_f32, (int32_t)((uint32_t)a.e[i] + (uint32_t)b.e[i]))
WORD2(v_sub_i32, v_i32, v_i32, v_i32, V_LEN_f32, (int32_t)((uint32_t)a.e[i] - (uint32_t)b.e[i]))
WORD2(v_and_i32, v_i32, v_i32, v_i32, V_LEN_f32, a.e[i] & b.e[i])
WORD2(v_shl_i32, v_i32, v_i32, int, V_LEN_f32, (int32_t)((uint32_t)a.e[i] << b))
WORD2(v_shr_i32, v_i32, v_i32, int, V_LEN_f32, a.e[i] >> b)
WORD1(v_round_i32, v_i32, v_f32, V_LEN_f32, round_one_i32(a.e[i]))
WORD1(v_from_i32, v_f32, v_i32, V_LEN_f32, (float)a.e[i])

static inline v_i32 v_to_bits(v_f32 a) {
    v_i32 r;
    memcpy(r.e, a.e, sizeof r.e);
    return r;
}
static inline v_f32 v_from_bits(v_i32 a) {
    v_f32 r;
    memcpy(r.e, a.e, sizeof r.e);
    return r;
}

#define HALF_WORDS(H)                                                          \
    static inline v_f32 v_load_##H(const void *p) {                            \
        uint16_t h[V_LEN_f32];                                                 \
        v_f32 r;                                                               \
        memcpy(h, p, sizeof h);                                                \
        for (int i = 0; i < V_LEN_f32; i++) r.e[i] = nc_##H##_to_f32(h[i]);    \
        return r;                                                              \
    }                                                                          \
    static inline void v_store_##H(void *p, v_f32 a) {                         \
        uint16_t h[V_LEN_f32];                                                 \
        for (int i = 0; i < V_LEN_f32; i++) h[i] = nc_f32_to_##H(a.e[i]);      \
        memcpy(p, h, sizeof h);                                                \
    }
HALF_WORDS(f16)
HALF_WORDS(bf16)

#undef HALF_WORDS
#undef WORDS
#undef WORD1
#undef WORD2
#undef WORD3

/* A square of vectors, transposed in place. */
#define TURN(S, T)                                                      \
    static inline void v_turn_##S(v_##S *r) {                           \
        for (int i = 0; i < V_LEN_##S; i++)                             \
            for (int j = 0; j < i; j++) {                               \
                T t = r[i].e[j];                                        \
                r[i].e[j] = r[j].e[i], r[j].e[i] = t;                   \
            }                                                           \
    }
TURN(f32, float)
TURN(f64, double)
#undef TURN

#endif
