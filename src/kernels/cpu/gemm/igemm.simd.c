/* kernels/cpu/gemm/igemm.simd.c: packing, micro-kernels and the store of a tile of 8-bit products, for each ISA; see
 * igemm_kernel.h. igemm_dot.h says what a dot product of a group of terms is here; the rest is written once.
 *
 * A tile of MR rows and NV vectors of columns stays in registers over all of K. The group of a row is one splatted
 * word, the groups of the columns lie side by side in a vector. */
#include "kernels/cpu/gemm/igemm_kernel.h"
#include "kernels/cpu/gemm/igemm_dot.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <string.h>

enum { NR = NV * VL, BLOCK_GROUPS = NCK_IGEMM_BLOCK / GROUP };
_Static_assert((int)NR <= NCK_IGEMM_MAX_NR && (int)MR <= NCK_IGEMM_MAX_MR, "a tile fits");

#define ALWAYS __attribute__((always_inline)) static inline

/* ---- products ---- */

#ifdef DOT_SQUARES
#include "kernels/cpu/gemm/igemm_squares.inc"
#else
/* From the groups of a panel's rows to those that follow. */
ALWAYS int64_t igemm_next(int rows) {
#ifdef DOT_ROWS
    (void)rows;
    return GROUP;
#else
    return rows * GROUP;
#endif
}

#ifndef DOT_LANES
/* Where the group of row r begins. */
ALWAYS int64_t igemm_row(int r, int64_t step) {
#ifdef DOT_ROWS
    return r * step;
#else
    (void)step;
    return r * GROUP;
#endif
}
#endif

/* n groups. wide: neighbouring products may not be added in int16. */
ALWAYS void igemm_groups(int rows, bool wide, int64_t n, const uint8_t *a, int64_t step, const int8_t *b,
                         nck_igemm_ahead ahead, vi acc[MR][NV]) {
    for (; n > 0; n--, a += igemm_next(rows), b += NR * GROUP, ahead.at += ahead.pace) {
#if defined DOT_ROWS && PAIR_LIMIT >= 256
        __builtin_prefetch(ahead.at, 0, 2);
#endif
        vi col[NV];
        UNROLL
        for (int v = 0; v < NV; v++) col[v] = vi_load(b + v * VL * GROUP);
#ifdef DOT_LANES
        (void)wide, (void)step;
        vi row[(MR + VL - 1) / VL]; /* reads up to a vector behind the panel */
        UNROLL
        for (int r = 0; r < rows; r += VL) row[r / VL] = vi_load(a + r * GROUP);
        UNROLL
        for (int r = 0; r < rows; r++) UNROLL
        for (int v = 0; v < NV; v++) acc[r][v] = vi_dot_lane(acc[r][v], row[r / VL], r % VL, col[v]);
#else
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi row = vi_splat(a + igemm_row(r, step));
            UNROLL
            for (int v = 0; v < NV; v++)
                acc[r][v] = wide ? vi_dot_wide(acc[r][v], row, col[v]) : vi_dot(acc[r][v], row, col[v]);
        }
#endif
    }
}

/* rows is a constant where inlined. */
ALWAYS void igemm_micro(int rows, int64_t groups, const uint8_t *a, int64_t step, const int8_t *b, const uint8_t *exact,
                        nck_igemm_ahead ahead, int32_t *out) {
    vi acc[MR][NV];
    UNROLL
    for (int r = 0; r < rows; r++) UNROLL
    for (int v = 0; v < NV; v++) acc[r][v] = vi_zero();
#if PAIR_LIMIT < 256
    for (; groups > 0; groups -= BLOCK_GROUPS, a += BLOCK_GROUPS * igemm_next(rows), b += BLOCK_GROUPS * NR * GROUP) {
        int64_t n = groups < BLOCK_GROUPS ? groups : BLOCK_GROUPS;
        if (*exact++)
            igemm_groups(rows, false, n, a, step, b, ahead, acc);
        else
            igemm_groups(rows, true, n, a, step, b, ahead, acc);
    }
#else
    (void)exact;
    igemm_groups(rows, false, groups, a, step, b, ahead, acc);
#endif
    UNROLL
    for (int r = 0; r < rows; r++) UNROLL
    for (int v = 0; v < NV; v++) vi_store(out + r * NR + v * VL, acc[r][v]);
}
#endif

#define MICRO(rows)                                                                                 \
    static void igemm_micro_##rows(int64_t groups, const uint8_t *a, int64_t step, const int8_t *b, \
                                   const uint8_t *exact, nck_igemm_ahead ahead, int32_t *acc) {     \
        igemm_micro(rows, groups, a, step, b, exact, ahead, acc);                                   \
    }
EACH_ROWS(MICRO)
#undef MICRO

/* ---- packing ---- */

/* Terms that lie side by side: the group of a lane is one word of memory. */
static void igemm_pack_terms(int64_t groups, int64_t lanes, int64_t width, const uint8_t *src, int64_t ls,
                             uint64_t flip, uint8_t *dst) {
    int64_t squares = 0, done = 0;
#ifdef TERMS_4X4
    squares = groups / 4 * 4, done = lanes < 4 ? 0 : lanes;
    for (int64_t g = 0; g < squares; g += 4)
        for (int64_t i = 0; i < done; i += 4) { /* the last four lanes may have been there before */
            int64_t l = i + 4 <= lanes ? i : lanes - 4;
            terms_4x4(src + l * ls + g * GROUP, ls, (uint8_t)flip, dst + (g * width + l) * GROUP, width * GROUP);
        }
#endif
    for (int64_t l = 0; l < lanes; l++) {
        int64_t g = l < done ? squares : 0;
        const uint8_t *from = src + l * ls + g * GROUP;
        uint8_t *to = dst + (g * width + l) * GROUP;
        for (; g < groups; g++, from += GROUP, to += width * GROUP) {
            group_word w;
            memcpy(&w, from, GROUP);
            w ^= (group_word)flip;
            memcpy(to, &w, GROUP);
        }
    }
}

/* Lanes that lie side by side, in lines ks apart: the lines of a group are shuffled together. */
static void igemm_pack_lines(int64_t groups, int64_t lanes, int64_t width, const uint8_t *src, int64_t ks, uint8_t flip,
                             uint8_t *dst) {
    for (int64_t g = 0; g < groups; g++, src += GROUP * ks, dst += width * GROUP) {
        int64_t l = 0;
        for (; l + 16 <= lanes; l += 16) lines_16(src + l, ks, flip, dst + l * GROUP);
        for (; l + FEW <= lanes; l += FEW) lines_few(src + l, ks, flip, dst + l * GROUP);
        for (; l < lanes; l++)
            for (int t = 0; t < GROUP; t++) dst[l * GROUP + t] = src[t * ks + l] ^ flip;
    }
}

static void igemm_pack_each(int64_t K, int64_t lanes, int64_t width, const uint8_t *src, int64_t ls, int64_t ks,
                            uint8_t flip, uint8_t *dst) {
    for (int64_t k = 0; k < K; k += GROUP, dst += width * GROUP)
        for (int64_t l = 0; l < lanes; l++)
            for (int t = 0; t < GROUP; t++)
                dst[l * GROUP + t] = k + t < K ? (uint8_t)(src[l * ls + (k + t) * ks] ^ flip) : 0;
}

static void igemm_pack(int64_t K, int64_t lanes, int64_t width, const uint8_t *src, int64_t ls, int64_t ks,
                       uint8_t flip, uint8_t *dst) {
    int64_t groups = (ls == 1 || ks == 1) ? K / GROUP : 0, done = groups * GROUP;
    if (lanes < width) memset(dst, 0, (size_t)((K + GROUP - 1) / GROUP * GROUP * width));
    if (ks == 1)
        igemm_pack_terms(groups, lanes, width, src, ls, flip * 0x0101010101010101u, dst);
    else if (ls == 1)
        igemm_pack_lines(groups, lanes, width, src, ks, flip, dst);
    igemm_pack_each(K - done, lanes, width, src + done * ks, ls, ks, flip, dst + done * width);
}

/* Reads up to a vector behind the panel's last lane. */
static void igemm_sums(int64_t groups, int64_t width, const uint8_t *panel, bool a, int32_t *sums) {
    uint8_t ones[GROUP];
    memset(ones, 1, sizeof ones);
    for (int64_t l = 0; l < width; l += SUM_LANES) {
        int32_t lanes[SUM_LANES];
        igemm_sum_lanes(groups, width * GROUP, panel + l * GROUP, a, ones, lanes);
        memcpy(sums + l, lanes, (size_t)(width - l < SUM_LANES ? width - l : SUM_LANES) * sizeof *sums);
    }
}

#ifdef NCK_ISA_neon_dot
static int32_t igemm_most(int64_t groups, const int8_t *panel) {
    uint32x4_t sum[NV] = {vdupq_n_u32(0)};
    uint32_t most = 0;
    for (int64_t g = 0; g < groups; g++) UNROLL
    for (int v = 0; v < NV; v++, panel += VL * GROUP)
        sum[v] = vdotq_u32(sum[v], vreinterpretq_u8_s8(vabsq_s8(vld1q_s8(panel))), vdupq_n_u8(1));
    for (int v = 0; v < NV; v++) most = vmaxvq_u32(sum[v]) > most ? vmaxvq_u32(sum[v]) : most;
    return most < INT32_MAX ? (int32_t)most : INT32_MAX;
}
#else
/* Nobody asks here. */
static int32_t igemm_most(int64_t groups, const int8_t *panel) {
    (void)groups, (void)panel;
    return INT32_MAX;
}
#endif

/* ---- elements by elements ---- */

typedef int32_t lanes_v __attribute__((vector_size(VL * 4)));

ALWAYS lanes_v igemm_widen(const uint8_t *p, bool is_signed) {
#ifdef __AVX512BW__
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    return (lanes_v)(is_signed ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
#elif defined __AVX2__
    __m128i v = _mm_loadl_epi64((const __m128i *)p);
    return (lanes_v)(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
#elif defined NCK_ISA_neon || defined NCK_ISA_neon_dot
    uint32_t word;
    memcpy(&word, p, sizeof word);
    uint8x8_t v = vcreate_u8(word);
    if (is_signed) return (lanes_v)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(v))));
    return (lanes_v)vmovl_u16(vget_low_u16(vmovl_u8(v)));
#else
    lanes_v v = {0};
    for (int l = 0; l < VL; l++) v[l] = is_signed ? (int8_t)p[l] : p[l];
    return v;
#endif
}

/* a has 8 bits, b 9: on x86 the products of the low halves, which is one instruction where that of words is two. */
ALWAYS lanes_v igemm_times(lanes_v a, lanes_v b, bool is_signed) {
#ifdef __AVX512BW__
    if (!is_signed) return (lanes_v)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined __AVX2__
    if (!is_signed) return (lanes_v)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    (void)is_signed;
#endif
    return a * b;
}

/* rows and is_signed are constants where inlined. */
ALWAYS void igemm_taps_of(int rows, bool is_signed, int64_t taps, const uint8_t *const *at, int64_t c, const int32_t *b,
                          int64_t ld, int32_t *acc) {
    for (int j = 0; j < NR; j += VL) {
        lanes_v sum[NCK_IGEMM_PLACES] = {{0}};
        for (int64_t t = 0; t < taps; t++) {
            lanes_v w;
            memcpy(&w, b + t * ld + j, sizeof w);
            UNROLL
            for (int r = 0; r < rows; r++)
                sum[r] += igemm_times(igemm_widen(at[r * taps + t] + c + j, is_signed), w, is_signed);
        }
        UNROLL
        for (int r = 0; r < rows; r++) memcpy(acc + r * NR + j, &sum[r], sizeof sum[r]);
    }
}

static void igemm_taps(int rows, int64_t taps, const uint8_t *const *at, int64_t c, bool is_signed, const int32_t *b,
                       int64_t ld, int32_t *acc) {
    for (; rows < NCK_IGEMM_PLACES && rows > 0; rows--, at += taps, acc += NR) {
        if (is_signed)
            igemm_taps_of(1, true, taps, at, c, b, ld, acc);
        else
            igemm_taps_of(1, false, taps, at, c, b, ld, acc);
    }
    if (rows == 0) return;
    if (is_signed)
        igemm_taps_of(NCK_IGEMM_PLACES, true, taps, at, c, b, ld, acc);
    else
        igemm_taps_of(NCK_IGEMM_PLACES, false, taps, at, c, b, ld, acc);
}

/* ---- the store ---- */

/* n words and zeros behind them; NULL: zeros alone. */
ALWAYS void igemm_read_words(const void *from, int64_t n, void *to) {
    if (from != NULL && n == NR) {
        memcpy(to, from, NR * 4);
        return;
    }
    memset(to, 0, NR * 4);
    if (from != NULL) memcpy(to, from, (size_t)n * 4);
}

/* a * b / y; numbers are not divided. */
static void igemm_scales(const nck_igemm_out *o, float a, const float *restrict b, float *restrict scale) {
    for (int j = 0; j < NR; j++) scale[j] = a * b[j];
    for (int j = 0; j < NR && o->type != NC_FLOAT; j++) scale[j] /= o->y_scale;
}

static bool igemm_is_finite(const float *scale) {
    float sum = 0;
    for (int j = 0; j < NR; j++) sum += scale[j] - scale[j];
    return sum == 0;
}

#ifdef NCK_ISA_neon_dot
/* See nck_igemm_columns. An offset too large for float to hold exactly is too large anyway. */
static bool igemm_near(const uint32_t *offset, const float *scale, float most) {
    uint32x4_t well = vdupq_n_u32(UINT32_MAX);
    UNROLL
    for (int j = 0; j < NR; j += VL) {
        float32x4_t all = vabsq_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(vld1q_u32(offset + j))));
        all = vaddq_f32(all, vdupq_n_f32(most));
        well = vandq_u32(well, vcltq_f32(all, vdupq_n_f32(NCK_CODES_SMALL)));
        well = vandq_u32(well, vcaltq_f32(vmulq_f32(all, vld1q_f32(scale + j)), vdupq_n_f32(NCK_CODES_NEAR)));
    }
    return vminvq_u32(well) != 0;
}
#endif

/* Loops over all NR columns, so that compilers know how many there are; what lies behind the last is never stored. */
static void igemm_columns(const nck_igemm_out *o, int64_t j, int64_t cols, int32_t a_zero, float most,
                          const int32_t *b_sum, nck_igemm_columns *c) {
    uint32_t offset[NR];
    float b_scale[NR];
    igemm_read_words(o->sum_bias ? o->sum_bias + j : NULL, cols, offset);
    for (int k = 0; k < NR; k++) offset[k] -= (uint32_t)a_zero * (uint32_t)b_sum[k];
    memcpy(c->offset, offset, sizeof offset);
    if (o->type == NC_INT32) return;
    igemm_read_words(o->bias ? o->bias + j : NULL, cols, c->bias);
    for (int k = 0; k < NR && o->b_scales == 1; k++) b_scale[k] = o->b_scale[0];
    if (o->b_scales > 1) igemm_read_words(o->b_scale + j, cols, b_scale);
    if (o->a_scales == 1)
        igemm_scales(o, o->a_scale[0], b_scale, c->scale);
    else
        memcpy(c->scale, b_scale, sizeof b_scale);
    c->finite = c->near = false;
    if (o->type == NC_FLOAT) return; /* of codes */
    c->finite = igemm_is_finite(c->scale);
#ifdef NCK_ISA_neon_dot
    c->near = igemm_near(offset, c->scale, most);
#else
    c->near = most < 0;
#endif
}

static void igemm_true_sums(const nck_igemm_tile *t, int64_t r, uint32_t *restrict s) {
    const uint32_t *restrict offset = (const uint32_t *)t->columns->offset;
    memcpy(s, t->acc + r * NR, NR * sizeof *s);
    for (int j = 0; j < NR; j++) s[j] += offset[j];
    if (t->a_zero != NULL) {
        const uint32_t *restrict sum = (const uint32_t *)t->b_sum;
        for (int j = 0; j < NR; j++) s[j] -= (uint32_t)t->a_zero[r] * sum[j];
    }
    if (t->a_rest != NULL) {
        const uint32_t *restrict zb = (const uint32_t *)t->b_zero;
        for (int j = 0; j < NR; j++) s[j] -= (uint32_t)t->a_rest[r] * zb[j];
    }
}

static void igemm_to_numbers(const int32_t *restrict s, const float *restrict scale, const float *restrict bias,
                             float *restrict y) {
    for (int j = 0; j < NR; j++) y[j] = (float)s[j] * scale[j] + bias[j];
}

static void igemm_scaled(const int32_t *restrict s, const float *restrict scale, float *restrict y) {
    for (int j = 0; j < NR; j++) y[j] = (float)s[j] * scale[j];
}

/* Rounds by adding 1.5 * 2^23, which leaves no room for a fraction. */
static void igemm_to_codes(const int32_t *restrict s, const float *restrict scale, int zero, int low,
                           uint8_t *restrict y) {
    int32_t v[NR];
    float q[NR], least = (float)(low - zero), most = (float)(low + 255 - zero);
    for (int j = 0; j < NR; j++) q[j] = (float)s[j] * scale[j];
    for (int j = 0; j < NR; j++) q[j] = q[j] == q[j] ? q[j] : 0;
    for (int j = 0; j < NR; j++) q[j] = q[j] < least ? least : q[j];
    for (int j = 0; j < NR; j++) q[j] = q[j] > most ? most : q[j];
    for (int j = 0; j < NR; j++) v[j] = (int32_t)((q[j] + 0x1.8p23f) - 0x1.8p23f) + zero;
    for (int j = 0; j < NR; j++) y[j] = (uint8_t)v[j];
}

/* A NaN stays. */
static void igemm_clamp(float low, float high, float *y) {
    for (int j = 0; j < NR; j++) y[j] = y[j] < low ? low : y[j];
    for (int j = 0; j < NR; j++) y[j] = y[j] > high ? high : y[j];
}

/* One row as it is stored, NR elements. */
static void igemm_finish_row(const nck_igemm_tile *t, int64_t r, void *row) {
    const nck_igemm_out *o = t->out;
    const float *scale = t->columns->scale;
    float own[NR];
    int32_t s[NR];
    igemm_true_sums(t, r, (uint32_t *)s);
    if (o->type == NC_INT32) {
        memcpy(row, s, sizeof s);
        return;
    }
    if (o->a_scales > 1) igemm_scales(o, o->a_scale[(t->i + r) % o->a_scales], scale, own), scale = own;
    if (o->type == NC_FLOAT && o->bias)
        igemm_to_numbers(s, scale, t->columns->bias, row);
    else if (o->type == NC_FLOAT)
        igemm_scaled(s, scale, row);
    else
        igemm_to_codes(s, scale, o->y_zero, o->type == NC_INT8 ? -128 : 0, row);
    if (o->type == NC_FLOAT && o->clamps) igemm_clamp(o->low, o->high, row);
}

#ifdef __AVX512BW__
/* A row of sums, in int16 by lanes of 16 bytes. */
ALWAYS __m512i igemm_halves(const int32_t *acc, const __m512i *offset, const __m512 *scale, __m512i zero) {
    __m512i v[NV];
    UNROLL
    for (int i = 0; i < NV; i++) {
        __m512i s = _mm512_add_epi32(_mm512_loadu_si512(acc + i * VL), offset[i]);
        __m512 q = _mm512_mul_ps(_mm512_cvtepi32_ps(s), scale[i]);
        v[i] = _mm512_cvtps_epi32(_mm512_min_ps(q, _mm512_set1_ps(0x1p30f)));
    }
    return _mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), zero);
}

/* Rows of codes with finite scales, two at a time; the second of a last one is not stored. */
static void igemm_plain_codes(const nck_igemm_tile *t) {
    const nck_igemm_columns *c = t->columns;
    const int64_t rows = t->rows, step = t->out->c_rs;
    const int32_t *acc = t->acc;
    const bool is_signed = t->out->type == NC_INT8;
    const __m512i offset[NV] = {_mm512_loadu_si512(c->offset), _mm512_loadu_si512(c->offset + VL)};
    const __m512 scale[NV] = {_mm512_loadu_ps(c->scale), _mm512_loadu_ps(c->scale + VL)};
    const __m512i zero = _mm512_set1_epi16((short)t->out->y_zero);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __mmask32 part = t->cols >= NR ? ~0u : (1u << t->cols) - 1;
    uint8_t *to = (uint8_t *)t->out->c + t->i * step + t->j;
    for (int64_t r = 0; r < rows; r += 2, acc += 2 * NR, to += 2 * step) {
        __m512i low = igemm_halves(acc, offset, scale, zero);
        __m512i high = r + 1 < rows ? igemm_halves(acc + NR, offset, scale, zero) : low;
        __m512i codes = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
        codes = _mm512_permutexvar_epi32(order, codes);
        _mm256_mask_storeu_epi8(to, part, _mm512_castsi512_si256(codes));
        if (r + 1 < rows) _mm256_mask_storeu_epi8(to + step, part, _mm512_extracti64x4_epi64(codes, 1));
    }
}

/* s less n times the sums or zero points at `by`. */
ALWAYS __m512i igemm_less(__m512i s, int32_t n, const int32_t *by) {
    return _mm512_sub_epi32(s, _mm512_mullo_epi32(_mm512_set1_epi32(n), _mm512_loadu_si512(by)));
}

static void igemm_plain_numbers(const nck_igemm_tile *t) {
    const nck_igemm_out *o = t->out;
    const nck_igemm_columns *c = t->columns;
    const bool rows_differ = o->a_scales > 1;
    const int64_t first = rows_differ ? t->i % o->a_scales : 0;
    UNROLL
    for (int v = 0; v < NV; v++) {
        const __m512i offset = _mm512_loadu_si512(c->offset + v * VL);
        const __m512 scale = _mm512_loadu_ps(c->scale + v * VL), bias = _mm512_loadu_ps(c->bias + v * VL);
        int64_t left = t->cols - v * VL;
        const __mmask16 part = (__mmask16)(left >= VL ? 0xffffu : left <= 0 ? 0u : (1u << left) - 1);
        float *to = (float *)o->c + t->i * o->c_rs + t->j + v * VL;
        int64_t of = first;
        for (int64_t r = 0; r < t->rows; r++, to += o->c_rs, of = of + 1 < o->a_scales ? of + 1 : 0) {
            __m512i s = _mm512_add_epi32(_mm512_loadu_si512(t->acc + r * NR + v * VL), offset);
            if (t->a_zero) s = igemm_less(s, t->a_zero[r], t->b_sum + v * VL);
            if (t->a_rest) s = igemm_less(s, t->a_rest[r], t->b_zero + v * VL);
            __m512 by = rows_differ ? _mm512_mul_ps(_mm512_set1_ps(o->a_scale[of]), scale) : scale;
            __m512 q = _mm512_mul_ps(_mm512_cvtepi32_ps(s), by);
            if (o->bias) q = _mm512_add_ps(q, bias);
            if (o->clamps) q = _mm512_min_ps(_mm512_set1_ps(o->high), _mm512_max_ps(_mm512_set1_ps(o->low), q));
            if (o->adds) q = _mm512_add_ps(q, _mm512_maskz_loadu_ps(part, to));
            _mm512_mask_storeu_ps(to, part, q);
        }
    }
}

/* Rows of numbers, and of codes with one scale for A: without a detour over memory. */
static bool igemm_store_plain(const nck_igemm_tile *t) {
    const nck_igemm_out *o = t->out;
    bool alike = t->a_zero == NULL && t->a_rest == NULL && o->a_scales == 1;
    if (o->c_cs != 1 || o->type == NC_INT32) return false;
    if (o->type == NC_FLOAT)
        igemm_plain_numbers(t);
    else if (t->columns->finite && alike)
        igemm_plain_codes(t);
    else
        return false;
    return true;
}
#elif defined NCK_ISA_neon || defined NCK_ISA_neon_dot
/* What the columns of a tile have in common, in registers. */
typedef struct plain_columns {
    int32x4_t offset[NV], zero[NV]; /* zero: of numbers alone */
    float32x4_t scale[NV], bias[NV];
} plain_columns;

/* rest: of A's row, times the columns' zero points; 0 with `codes`, a constant where inlined. */
ALWAYS void igemm_scaled_row(const plain_columns *c, const int32_t *acc, bool codes, int32_t rest, float32x4_t *q) {
    UNROLL
    for (int v = 0; v < NV; v++) {
        int32x4_t s = vaddq_s32(vld1q_s32(acc + v * VL), c->offset[v]);
        if (!codes) s = vmlsq_n_s32(s, c->zero[v], rest);
        q[v] = vmulq_f32(vcvtq_f32_s32(s), c->scale[v]);
    }
}

/* whole: all columns of a tile; a constant where inlined, since what calls nothing keeps its columns in registers. */
ALWAYS void igemm_plain_codes(bool whole, const nck_igemm_tile *t, const plain_columns *c, bool is_signed) {
    const int64_t rows = t->rows, cols = t->cols, step = t->out->c_rs;
    const int32_t *acc = t->acc;
    const int16x8_t zero = vdupq_n_s16((int16_t)t->out->y_zero);
    uint8_t codes[NR], *to = (uint8_t *)t->out->c + t->i * step + t->j;
    for (int64_t r = 0; r < rows; r++, acc += NR, to += step) {
        float32x4_t q[NV];
        igemm_scaled_row(c, acc, true, 0, q);
        vst1q_u8(whole ? to : codes, nck_codes_narrow(q, zero, is_signed, false));
        if (!whole) memcpy(to, codes, (size_t)cols);
    }
}

ALWAYS void igemm_plain_numbers(bool whole, const nck_igemm_tile *t, const plain_columns *c, bool bias) {
    const int64_t rows = t->rows, cols = t->cols, step = t->out->c_rs;
    const int32_t *acc = t->acc;
    const bool clamps = t->out->clamps;
    const float32x4_t low = vdupq_n_f32(t->out->low), high = vdupq_n_f32(t->out->high);
    float part[NR], *to = (float *)t->out->c + t->i * step + t->j;
    for (int64_t r = 0; r < rows; r++, acc += NR, to += step) {
        float32x4_t q[NV];
        float *y = whole ? to : part;
        igemm_scaled_row(c, acc, false, t->a_rest ? t->a_rest[r] : 0, q);
        UNROLL
        for (int v = 0; v < NV; v++) {
            if (bias) q[v] = vaddq_f32(q[v], c->bias[v]);
            if (clamps) q[v] = vminq_f32(vmaxq_f32(q[v], low), high);
            vst1q_f32(y + v * VL, q[v]);
        }
        if (!whole) memcpy(to, part, (size_t)cols * sizeof *to);
    }
}

ALWAYS void igemm_plain(bool whole, const nck_igemm_tile *t) {
    const nck_igemm_out *o = t->out;
    plain_columns c;
    UNROLL
    for (int v = 0; v < NV; v++) {
        c.offset[v] = vld1q_s32(t->columns->offset + v * VL), c.scale[v] = vld1q_f32(t->columns->scale + v * VL);
        c.bias[v] = vld1q_f32(t->columns->bias + v * VL);
        c.zero[v] = t->a_rest ? vld1q_s32(t->b_zero + v * VL) : vdupq_n_s32(0);
    }
    if (o->type == NC_FLOAT)
        igemm_plain_numbers(whole, t, &c, o->bias != NULL);
    else
        igemm_plain_codes(whole, t, &c, o->type == NC_INT8);
}

#ifdef NCK_ISA_neon_dot
/* See nck_igemm_codes. Sums begin at their offsets and never leave the registers. */
static void igemm_codes(int64_t groups, const uint8_t *a, const int8_t *b, const nck_igemm_columns *columns,
                        const nck_igemm_out *o, uint8_t *to) {
    const int16x8_t zero = vdupq_n_s16((int16_t)o->y_zero);
    const bool is_signed = o->type == NC_INT8;
    vi acc[MR][NV];
    UNROLL
    for (int v = 0; v < NV; v++) {
        acc[0][v] = vaddq_s32(vld1q_s32(columns->offset + v * VL), vdupq_n_s32(NCK_CODES_BITS));
        UNROLL
        for (int r = 1; r < MR; r++) acc[r][v] = acc[0][v];
    }
    igemm_groups(MR, false, groups, a, 0, b, (nck_igemm_ahead){b, 0}, acc);
    UNROLL
    for (int r = 0; r < MR; r++, to += o->c_rs) {
        float32x4_t q[NV];
        UNROLL
        for (int v = 0; v < NV; v++) q[v] = vmulq_f32(nck_codes_small(acc[r][v]), vld1q_f32(columns->scale + v * VL));
        vst1q_u8(to, nck_codes_narrow(q, zero, is_signed, true));
    }
}
#endif

/* Rows of codes or numbers with one scale for A, what quantized networks store: without a detour over memory. */
static bool igemm_store_plain(const nck_igemm_tile *t) {
    const nck_igemm_out *o = t->out;
    if (t->a_zero != NULL || o->a_scales > 1 || o->adds || o->c_cs != 1 || o->type == NC_INT32) return false;
    if (t->a_rest != NULL && o->type != NC_FLOAT) return false;
    if (t->cols == NR)
        igemm_plain(true, t);
    else
        igemm_plain(false, t);
    return true;
}
#else
static bool igemm_store_plain(const nck_igemm_tile *t) {
    (void)t;
    return false;
}
#endif

static void igemm_line_panel(const nck_igemm_line *l, int64_t at, const float *restrict b, const float *restrict bias,
                             float *restrict y) {
    const int32_t *restrict acc = l->acc + at, *restrict sum = l->sum + at;
    for (int j = 0; j < NR; j++) {
        uint32_t s = (uint32_t)acc[j] - (uint32_t)l->zero * (uint32_t)sum[j];
        y[j] = (float)(int32_t)s * (l->a * b[j]);
    }
    for (int j = 0; j < NR; j++) y[j] += bias[j];
}

/* Without a bias nothing is added: -0 stays. */
static void igemm_line(const nck_igemm_line *l) {
    float b[NR], bias[NR], y[NR];
    for (int j = 0; j < NR; j++) b[j] = l->b[0], bias[j] = -0.0f;
    for (int64_t at = 0; at < l->panels * NR; at += NR) {
        if (l->each) memcpy(b, l->b + at, sizeof b);
        if (l->bias != NULL) memcpy(bias, l->bias + at, sizeof bias);
        igemm_line_panel(l, at, b, bias, y);
        memcpy(l->y + at, y, sizeof y);
    }
}

/* rows is (rows, NR) of bytes or words; c's rows lie c_rs apart, its columns c_cs. */
static void igemm_scatter(const nck_igemm_tile *t, const void *rows, bool bytes) {
    const nck_igemm_out *o = t->out;
    for (int64_t j = 0; j < t->cols; j++) {
        int64_t at = t->i * o->c_rs + (t->j + j) * o->c_cs;
        for (int64_t r = 0; r < t->rows; r++, at += o->c_rs) {
            if (bytes)
                ((uint8_t *)o->c)[at] = ((const uint8_t *)rows)[r * NR + j];
            else
                ((uint32_t *)o->c)[at] = ((const uint32_t *)rows)[r * NR + j];
        }
    }
}

static void igemm_add(int64_t cols, const float *restrict row, float *restrict to) {
    for (int64_t j = 0; j < cols; j++) to[j] += row[j];
}

__attribute__((noinline)) static void igemm_store_rows(const nck_igemm_tile *t) {
    const nck_igemm_out *o = t->out;
    bool bytes = o->type == NC_INT8 || o->type == NC_UINT8;
    int64_t es = bytes ? 1 : 4;
    uint32_t rows[NCK_IGEMM_MAX_MR * NR];
    for (int64_t r = 0; r < t->rows; r++) {
        char *to = (char *)o->c + ((t->i + r) * o->c_rs + t->j) * es, *row = (char *)rows + r * NR * es;
        bool whole = o->c_cs == 1 && t->cols == NR && !o->adds;
        igemm_finish_row(t, r, whole ? to : row);
        if (o->adds)
            igemm_add(t->cols, (const float *)(const void *)row, (float *)(void *)to);
        else if (o->c_cs == 1 && !whole)
            memcpy(to, row, (size_t)(t->cols * es));
    }
    if (o->c_cs != 1) igemm_scatter(t, rows, bytes);
}

static void igemm_store(const nck_igemm_tile *t) {
    if (!igemm_store_plain(t)) igemm_store_rows(t);
}

#ifdef DOT_ROWS
#include "kernels/cpu/gemm/igemm_rows.inc"
#endif
#ifdef __AVX2__
#include "kernels/cpu/gemm/igemm_depth.inc"
#elif defined NCK_ISA_neon_dot
#include "kernels/cpu/gemm/igemm_depth_dot.inc"
#else
enum { DEPTH_WIDTH = 0, DEPTH_TWICE = false };
#define DEPTH_FORM NCK_DEPTH_PAIRS
#define igemm_depthwise NULL
#endif

#ifndef NCK_ISA_neon_dot
#define igemm_codes NULL
#endif
#ifdef DOT_ROWS
#define ROWS .lay = igemm_lay, .row_sums = igemm_row_sums,
#else
#define ROWS
#endif
#define TABLE                                                                                                       \
    .nr = NR, .a_signed = A_SIGNED, .pair_limit = PAIR_LIMIT, .most = igemm_most, .taps = igemm_taps,               \
    .depth_width = DEPTH_WIDTH, .depth_form = DEPTH_FORM, .depth_twice = DEPTH_TWICE, .depthwise = igemm_depthwise, \
    ROWS.columns = igemm_columns, .store = igemm_store, .line = igemm_line
#define MICRO(rows) [rows] = igemm_micro_##rows,
extern const nck_igemm_table NCK_ISA_NAME(nck_igemm_);
const nck_igemm_table NCK_ISA_NAME(nck_igemm_) = {TABLE,
                                                  .mr = MR,
                                                  .group = GROUP,
                                                  .micro = {EACH_ROWS(MICRO)},
                                                  .pack = igemm_pack,
                                                  .sums = igemm_sums,
                                                  .codes = igemm_codes};

#ifdef __AVX512VNNI__
#include "kernels/cpu/gemm/igemm_tiles.inc"
extern const nck_igemm_table nck_igemm_avx512_amx;
const nck_igemm_table nck_igemm_avx512_amx = {TABLE,
                                              .mr = 2 * TILE_ROWS,
                                              .group = TILE_TERMS,
                                              .tiles = igemm_tiles,
                                              .tiles_open = igemm_tiles_open,
                                              .tiles_close = igemm_tiles_close,
                                              .pack = igemm_tiles_pack,
                                              .sums = igemm_tiles_sums};
#endif
