/* kernels/cpu/quant/nbits.simd.c: rows of A times panels of weights of few bits, see nbits_kernel.h. Lanes are rows of
 * W, so nothing is summed across a vector. A block's sum of code * x is scaled once, and the zero point, which is the
 * same for all of a block, is taken off with the sum of x:
 *     sum of (code - zero) * scale * x = scale * (sum of code * x - zero * sum of x) */
#include "kernels/cpu/quant/nbits_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <float.h>
#include <string.h>

#if defined __AVX2__
#include <immintrin.h>
#elif defined NCK_ISA_neon_dot
#include "kernels/cpu/simd/neon_codes.h"
#elif defined NCK_ISA_neon
#include <arm_neon.h>
#endif

/* Where bytes have dot products: products with codes alone; the rest is the plain row's, whose panels are the same. */
#if defined NCK_ISA_neon_dot
#define PLAIN nck_nbits_neon
#elif defined __AVX512VNNI__
#define PLAIN nck_nbits_avx512
#endif

/* Vectors of LEN lanes, as many as a register holds, by the compilers' own arithmetic. */
#if defined __AVX512F__
enum { LEN = 16 };
#elif defined NCK_ISA_avx2
enum { LEN = 8 };
#else
enum { LEN = 4 };
#endif
/* CHUNK: terms whose products are summed in int16. FAR and SOON: bytes of codes, FAR_BLOCKS and SOON_BLOCKS: blocks of
 * scales that one row asks for before it needs them, into the second cache, which can wait for more lines at a time,
 * and then into the first. A token of a Llama takes 0.76 of its time with AVX-512 when it asks once, 2 KB ahead, and
 * 0.94 of that so; 3 KB, which is no multiple of a page, takes 0.98 to 0.99 of what 4 KB take. */
enum { ROWS = NCK_NBITS_TOGETHER, CHUNK = 32, FAR = 3072, SOON = 1024, FAR_BLOCKS = 32, SOON_BLOCKS = 8, LINE = 64 };
_Static_assert((int)LEN <= NCK_NBITS_LANES, "a panel fits");
typedef int32_t ints_v __attribute__((vector_size(LEN * 4)));
typedef uint32_t words_v __attribute__((vector_size(LEN * 4)));
typedef float floats_v __attribute__((vector_size(LEN * 4)));
typedef uint8_t bytes_v __attribute__((vector_size(LEN)));
#define ALWAYS __attribute__((always_inline)) static inline

ALWAYS words_v nbits_words(const uint8_t *p) {
    words_v v;
    memcpy(&v, p, sizeof v);
    return v;
}

ALWAYS floats_v nbits_floats(const float *p) {
    floats_v v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* LEN bytes as ints. */
ALWAYS ints_v nbits_ints(const uint8_t *p) {
    bytes_v v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, ints_v);
}

ALWAYS floats_v nbits_convert(ints_v v) { return __builtin_convertvector(v, floats_v); }

#ifndef PLAIN
/* ---- sums of products in int16 ----
 * pairs_add adds the products of each lane's four codes (at most 15) with the four bytes at x. A chunk of CHUNK terms
 * has at most 8 of them: 8 * 2 * 15 * 127 fits. pairs_sum: what all have come to. */
#if defined NCK_ISA_avx512
typedef __m512i pairs_v;
ALWAYS pairs_v pairs_none(void) { return _mm512_setzero_si512(); }
ALWAYS pairs_v pairs_add(pairs_v sum, words_v codes, const int8_t *x) {
    int32_t w;
    memcpy(&w, x, sizeof w);
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16((__m512i)codes, _mm512_set1_epi32(w)));
}
ALWAYS ints_v pairs_sum(pairs_v sum) { return (ints_v)_mm512_madd_epi16(sum, _mm512_set1_epi16(1)); }
#elif defined NCK_ISA_avx2
typedef __m256i pairs_v;
ALWAYS pairs_v pairs_none(void) { return _mm256_setzero_si256(); }
ALWAYS pairs_v pairs_add(pairs_v sum, words_v codes, const int8_t *x) {
    int32_t w;
    memcpy(&w, x, sizeof w);
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi32(w)));
}
ALWAYS ints_v pairs_sum(pairs_v sum) { return (ints_v)_mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
#elif defined NCK_ISA_neon
typedef struct pairs_v {
    int16x8_t low, high; /* of lanes 0 and 1, 2 and 3 */
} pairs_v;
ALWAYS pairs_v pairs_none(void) { return (pairs_v){vdupq_n_s16(0), vdupq_n_s16(0)}; }
ALWAYS pairs_v pairs_add(pairs_v sum, words_v codes, const int8_t *x) {
    int32_t w;
    memcpy(&w, x, sizeof w);
    int8x16_t a = (int8x16_t)codes, b = vreinterpretq_s8_s32(vdupq_n_s32(w));
    return (pairs_v){vmlal_s8(sum.low, vget_low_s8(a), vget_low_s8(b)), vmlal_high_s8(sum.high, a, b)};
}
ALWAYS ints_v pairs_sum(pairs_v sum) { return (ints_v)vpaddlq_s16(vpaddq_s16(sum.low, sum.high)); }
#else
typedef ints_v pairs_v;
ALWAYS pairs_v pairs_none(void) { return (ints_v){0}; }
ALWAYS pairs_v pairs_add(pairs_v sum, words_v codes, const int8_t *x) {
    for (int j = 0; j < 4; j++) sum += (ints_v)(codes >> (8 * j) & 15) * x[j];
    return sum;
}
ALWAYS ints_v pairs_sum(pairs_v sum) { return sum; }
#endif
#endif

/* ---- products with codes ---- */

/* What a code of `bits` leaves of a word when it is in each byte's low bits. */
ALWAYS words_v nbits_masked(words_v v, int bits) {
    return v & (bits == 2 ? 0x03030303u : bits == 4 ? 0x0f0f0f0fu : 0xffffffffu);
}

/* One row asks for the codes behind the n terms at `codes`. */
ALWAYS void nbits_ask(int bits, int rows, const uint8_t *codes, int64_t n) {
    for (int64_t i = 0; rows == 1 && i < n * bits / 8 * LEN; i += LINE)
        __builtin_prefetch(codes + FAR + i, 0, 2), __builtin_prefetch(codes + SOON + i);
}

#ifdef PLAIN
/* What dot products take of a row of A at a time: STEP codes. step_dot adds the products of each lane's four codes with
 * those from 4 * i on. SIGNED: both are signed, so that codes of 8 bits are taken less 128. A block has whole steps. */
enum { STEP = 16 };
#ifdef NCK_ISA_neon_dot
enum { SIGNED = true };
typedef int8x16_t step_v;
ALWAYS step_v step_load(const int8_t *x) { return vld1q_s8(x); }
ALWAYS ints_v step_dot(ints_v sum, words_v codes, step_v x, int i) {
    return (ints_v)nck_codes_dot((int32x4_t)sum, (int8x16_t)codes, x, i);
}
#else
enum { SIGNED = false };
typedef const int8_t *step_v;
ALWAYS step_v step_load(const int8_t *x) { return x; }
ALWAYS ints_v step_dot(ints_v sum, words_v codes, step_v x, int i) {
    int32_t four;
    memcpy(&four, x + 4 * i, sizeof four);
    return (ints_v)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, _mm512_set1_epi32(four));
}
#endif

/* Block b of each row. bits and rows are constants where inlined. A row has two sums, so that a dot product need not
 * wait for the one before. */
ALWAYS void nbits_sums(int bits, int rows, const uint8_t *codes, int64_t block, const nck_nbits_row *a, int64_t b,
                       ints_v *sum) {
    const int words = STEP * bits / 32, steps = 8 / bits;
    const bool less = SIGNED && bits == 8;
    ints_v part[ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = (ints_v){0};
    for (int64_t at = b * block, end = at + block; at < end; at += STEP) {
        step_v x[ROWS];
        UNROLL
        for (int r = 0; r < rows; r++) x[r] = step_load(a[r].codes + at);
        nbits_ask(bits, rows, codes, STEP);
        UNROLL
        for (int w = 0; w < words; w++, codes += LEN * 4) {
            words_v v = nbits_words(codes);
            UNROLL
            for (int i = 0; i < steps; i++, v >>= bits % 8) {
                words_v four = less ? v ^ 0x80808080u : nbits_masked(v, bits);
                UNROLL
                for (int r = 0; r < rows; r++)
                    part[r][(w + i) % 2] = step_dot(part[r][(w + i) % 2], four, x[r], w * steps + i);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r] = part[r][0] + part[r][1];
        if (less) sum[r] += 128 * a[r].code_sum[b];
    }
}
#else
/* n terms, at most a chunk, of each row; codes of 8 bits are multiplied by halves. */
ALWAYS void nbits_chunk(int bits, int rows, const uint8_t *codes, int64_t n, const nck_nbits_row *a, int64_t at,
                        ints_v *sum) {
    pairs_v low[ROWS], high[ROWS];
    UNROLL
    for (int r = 0; r < rows; r++) low[r] = pairs_none(), high[r] = pairs_none();
    const int steps = 8 / bits; /* of a byte; with a check in its condition, as sanitizers make one, no loop unrolls */
    nbits_ask(bits, rows, codes, n);
    for (int64_t end = at + n; at < end; at += 32 / bits, codes += LEN * 4) {
        words_v v = nbits_words(codes);
        UNROLL
        for (int i = 0; i < steps; i++, v >>= bits % 8) {
            words_v part = nbits_masked(v, bits == 8 ? 4 : bits), rest = nbits_masked(v >> 4, 4);
            UNROLL
            for (int r = 0; r < rows; r++) {
                low[r] = pairs_add(low[r], part, a[r].codes + at + 4 * i);
                if (bits == 8) high[r] = pairs_add(high[r], rest, a[r].codes + at);
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r] += pairs_sum(low[r]);
        if (bits == 8) sum[r] += pairs_sum(high[r]) * 16;
    }
}

/* Block b of each row. bits and rows are constants where inlined. */
ALWAYS void nbits_sums(int bits, int rows, const uint8_t *codes, int64_t block, const nck_nbits_row *a, int64_t b,
                       ints_v *sum) {
    const int64_t step = block < CHUNK ? block : CHUNK, at = b * block;
    UNROLL
    for (int r = 0; r < rows; r++) sum[r] = (ints_v){0};
    for (int64_t c = 0; c < block; c += step, codes += step * bits / 8 * LEN)
        nbits_chunk(bits, rows, codes, step, a, at + c, sum);
}
#endif

/* The sum of block b less what its zero points take off. */
ALWAYS floats_v nbits_less_zeros(const nck_nbits_panel *p, int64_t b, int middle, ints_v sum, int32_t x_sum) {
    if (p->float_zero != NULL) return nbits_convert(sum) - nbits_floats(p->float_zero + b * LEN) * (float)x_sum;
    if (p->zero != NULL) return nbits_convert(sum - nbits_ints(p->zero + b * LEN) * x_sum);
    return nbits_convert(sum - middle * x_sum);
}

ALWAYS void nbits_codes_of(int bits, int rows, const nck_nbits_panel *p, const nck_nbits_row *a, float *y) {
    const int64_t bytes = p->block * bits / 8 * LEN;
    floats_v all[ROWS] = {{0}};
    for (int64_t b = 0; b < p->blocks; b++) {
        ints_v sum[ROWS];
        nbits_sums(bits, rows, p->codes + b * bytes, p->block, a, b, sum);
        floats_v scale = nbits_floats(p->scale + b * LEN);
        if (rows == 1) __builtin_prefetch(p->scale + (b + FAR_BLOCKS) * LEN, 0, 2);
        if (rows == 1) __builtin_prefetch(p->scale + (b + SOON_BLOCKS) * LEN);
        UNROLL
        for (int r = 0; r < rows; r++)
            all[r] += nbits_less_zeros(p, b, 1 << (bits - 1), sum[r], a[r].code_sum[b]) * (scale * a[r].scale[b]);
    }
    UNROLL
    for (int r = 0; r < rows; r++) memcpy(y + r * LEN, &all[r], sizeof all[r]);
}

/* Each number of bits with one row and with ROWS, of which three are some; two go one by one, and so do, to be small,
 * the portable row of ISAs and products of 2 bits with numbers. */
_Static_assert((int)ROWS == 4, "EACH_ROW names them");
#ifdef NCK_ISA_portable
enum { MANY = false };
#else
enum { MANY = true };
#endif
#define EACH_ROW(name, bits, many)                                                                 \
    static void name##_##bits(const nck_nbits_panel *p, const nck_nbits_row *a, int n, float *y) { \
        if (many && n > 2)                                                                         \
            name(bits, ROWS, p, (nck_nbits_row[ROWS]){a[0], a[1], a[2], a[n - 1]}, y);             \
        else                                                                                       \
            for (int r = 0; r < n; r++) name(bits, 1, p, a + r, y + r * LEN);                      \
    }
EACH_ROW(nbits_codes_of, 2, MANY)
EACH_ROW(nbits_codes_of, 4, MANY)
EACH_ROW(nbits_codes_of, 8, MANY)

#ifdef NCK_ISA_neon_dot
/* What decoding does nearly always: one row, codes of 4 bits around the middle, whole chunks. What bounds it in a cache
 * are vector instructions, so there are few: a sum begins at NCK_CODES_BITS less what the middle takes off, and is
 * then a number by one subtraction; blocks of a chunk go by four, whose scales and sums of x are one load each. */
enum {
    FOUR = 4,
    MOST = 1 << 12, /* terms of a block whose sum stays below NCK_CODES_SMALL */
    AHEAD = 512     /* bytes of codes that are asked for before they are needed */
};

static bool nbits_is_plain(const nck_nbits_panel *p, int n) {
    return p->bits == 4 && n == 1 && p->block % CHUNK == 0 && p->block <= MOST && p->zero == NULL &&
           p->float_zero == NULL;
}

NCK_CODES_INLINE int32x4_t nbits_two(int32x4_t sum, uint8x16_t v, int8x16_t x, int lane) {
    sum = nck_codes_dot(sum, vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), x, lane);
    return nck_codes_dot(sum, vreinterpretq_s8_u8(vshrq_n_u8(v, 4)), x, lane + 1);
}

/* The number that a block comes to. */
NCK_CODES_INLINE float32x4_t nbits_plain_block(const uint8_t *codes, const int8_t *x, int64_t chunks, int32_t start) {
    int32x4_t sum = vdupq_n_s32(start);
    for (int64_t c = 0; c < chunks; c++, codes += 2 * CHUNK, x += CHUNK) {
        int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
        __builtin_prefetch(codes + AHEAD);
        sum = nbits_two(nbits_two(sum, vld1q_u8(codes), x0, 0), vld1q_u8(codes + 16), x0, 2);
        sum = nbits_two(nbits_two(sum, vld1q_u8(codes + 32), x1, 0), vld1q_u8(codes + 48), x1, 2);
    }
    return nck_codes_small(sum);
}

NCK_CODES_INLINE int32x4_t nbits_start(int32x4_t x_sum) {
    return vsubq_s32(vdupq_n_s32(NCK_CODES_BITS), vshlq_n_s32(x_sum, 3));
}

static void nbits_plain(const nck_nbits_panel *p, const nck_nbits_row *a, float *y) {
    const uint8_t *codes = p->codes;
    const int8_t *x = a->codes;
    const float *scale = p->scale;
    float32x4_t all = vdupq_n_f32(0);
    int64_t b = 0, chunks = p->block / CHUNK;
    for (; chunks == 1 && b + FOUR <= p->blocks; b += FOUR, scale += FOUR * LEN) {
        int32x4_t start = nbits_start(vld1q_s32(a->code_sum + b));
        float32x4_t by = vld1q_f32(a->scale + b);
        UNROLL
        for (int i = 0; i < FOUR; i++, codes += 2 * CHUNK, x += CHUNK)
            all = vfmaq_f32(all, vmulq_n_f32(vld1q_f32(scale + i * LEN), by[i]),
                            nbits_plain_block(codes, x, 1, start[i]));
    }
    for (; b < p->blocks; b++, codes += chunks * 2 * CHUNK, x += chunks * CHUNK, scale += LEN)
        all = vfmaq_f32(all, vmulq_n_f32(vld1q_f32(scale), a->scale[b]),
                        nbits_plain_block(codes, x, chunks, NCK_CODES_BITS - 8 * a->code_sum[b]));
    vst1q_f32(y, all);
}
#endif

static void nbits_codes(const nck_nbits_panel *p, const nck_nbits_row *a, int n, float *y) {
#ifdef NCK_ISA_neon_dot
    if (nbits_is_plain(p, n)) {
        nbits_plain(p, a, y);
        return;
    }
#endif
    (p->bits == 2 ? nbits_codes_of_2 : p->bits == 4 ? nbits_codes_of_4 : nbits_codes_of_8)(p, a, n, y);
}

#ifndef PLAIN
/* ---- products with numbers ---- */

/* A block as sums of code * x; one row alone in four sums, so that they do not wait for each other. */
ALWAYS void nbits_block(int bits, int rows, const uint8_t *codes, int64_t n, const nck_nbits_row *a, int64_t at,
                        floats_v *sum) {
    floats_v part[ROWS][4] = {{{0}}};
    const int steps = 8 / bits;
    for (int64_t end = at + n; at < end; at += 32 / bits, codes += LEN * 4) {
        words_v v = nbits_words(codes);
        UNROLL
        for (int i = 0; i < steps; i++) UNROLL
        for (int j = 0; j < 4; j++) {
            floats_v code = nbits_convert((ints_v)(v >> (8 * j + bits * i) & (uint32_t)((1 << bits) - 1)));
            UNROLL
            for (int r = 0; r < rows; r++) part[r][rows == 1 ? j : 0] += code * a[r].x[at + 4 * i + j];
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) sum[r] = (part[r][0] + part[r][1]) + (part[r][2] + part[r][3]);
}

ALWAYS floats_v nbits_zero(const nck_nbits_panel *p, int64_t b, int middle) {
    if (p->float_zero != NULL) return nbits_floats(p->float_zero + b * LEN);
    if (p->zero != NULL) return nbits_convert(nbits_ints(p->zero + b * LEN));
    return (floats_v){0} + (float)middle;
}

ALWAYS void nbits_numbers_of(int bits, int rows, const nck_nbits_panel *p, const nck_nbits_row *a, float *y) {
    int64_t bytes = p->block * bits / 8 * LEN;
    floats_v all[ROWS] = {{0}};
    for (int64_t b = 0; b < p->blocks; b++) {
        floats_v sum[ROWS], scale = nbits_floats(p->scale + b * LEN), zero = nbits_zero(p, b, 1 << (bits - 1));
        nbits_block(bits, rows, p->codes + b * bytes, p->block, a, b * p->block, sum);
        UNROLL
        for (int r = 0; r < rows; r++) all[r] += (sum[r] - zero * a[r].sum[b]) * scale;
    }
    UNROLL
    for (int r = 0; r < rows; r++) memcpy(y + r * LEN, &all[r], sizeof all[r]);
}

EACH_ROW(nbits_numbers_of, 2, false)
EACH_ROW(nbits_numbers_of, 4, MANY)
EACH_ROW(nbits_numbers_of, 8, MANY)

static void nbits_numbers(const nck_nbits_panel *p, const nck_nbits_row *a, int n, float *y) {
    (p->bits == 2 ? nbits_numbers_of_2 : p->bits == 4 ? nbits_numbers_of_4 : nbits_numbers_of_8)(p, a, n, y);
}

/* ---- numbers of a panel ---- */

static void nbits_decode(const nck_nbits_panel *p, int64_t K, float *y, int64_t ld) {
    int bits = p->bits, per = 8 / bits;
    const uint8_t *codes = p->codes;
    for (int64_t b = 0; b < p->blocks; b++) {
        floats_v scale = nbits_floats(p->scale + b * LEN), zero = nbits_zero(p, b, 1 << (bits - 1));
        for (int64_t k = b * p->block; k < (b + 1) * p->block; k += 4 * per, codes += LEN * 4) {
            words_v v = nbits_words(codes);
            for (int t = 0; t < 4 * per && k + t < K; t++, v >>= (uint32_t)bits) {
                floats_v number = (nbits_convert((ints_v)(v & (uint32_t)((1 << bits) - 1))) - zero) * scale;
                memcpy(y + (k + t) * ld, &number, sizeof number);
            }
        }
    }
}

/* ---- rows of A ---- */

/* The largest lane of m, and whether all are finite: no NaN is at most FLT_MAX. */
ALWAYS bool nbits_largest(v_f32 m, float *most) {
#if defined NCK_ISA_avx512
    *most = _mm512_reduce_max_ps(m);
    return _mm512_cmp_ps_mask(m, _mm512_set1_ps(FLT_MAX), _CMP_LE_OQ) == 0xffff;
#elif defined NCK_ISA_avx2
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    *most = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
    return _mm256_movemask_ps(_mm256_cmp_ps(m, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ)) == 0xff;
#else
    float lanes[V_LEN_f32];
    bool numbers = true;
    *most = 0;
    v_store_f32(lanes, m);
    for (int l = 0; l < V_LEN_f32; l++) {
        *most = lanes[l] > *most ? lanes[l] : *most;
        numbers &= lanes[l] <= FLT_MAX;
    }
    return numbers;
#endif
}

static bool nbits_most(const float *x, int64_t n, float *most) {
    v_f32 m = v_set_f32(0);
    int64_t k = 0;
    for (; k + V_LEN_f32 <= n; k += V_LEN_f32) m = v_max_f32(m, v_abs_f32(v_load_f32(x + k)));
    if (k < n) m = v_max_f32(m, v_abs_f32(v_load_part_f32(x + k, n - k)));
    return nbits_largest(m, most);
}

/* Each lane's low byte. */
ALWAYS void nbits_bytes(ints_v v, int8_t *y) {
#if defined NCK_ISA_avx512
    _mm_storeu_si128((__m128i *)y, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined NCK_ISA_avx2
    const __m256i first = _mm256_set1_epi32(0x0c080400);
    __m256i each = _mm256_shuffle_epi8((__m256i)v, first);
    int32_t low = _mm256_extract_epi32(each, 0), high = _mm256_extract_epi32(each, 4);
    memcpy(y, &low, sizeof low);
    memcpy(y + 4, &high, sizeof high);
#elif defined NCK_ISA_neon
    int16x4_t half = vmovn_s32((int32x4_t)v);
    int32_t four = vget_lane_s32(vreinterpret_s32_s8(vmovn_s16(vcombine_s16(half, half))), 0);
    memcpy(y, &four, sizeof four);
#else
    for (int l = 0; l < LEN; l++) y[l] = (int8_t)v[l];
#endif
}

ALWAYS int32_t nbits_total(ints_v v) {
#if defined NCK_ISA_avx512
    return _mm512_reduce_add_epi32((__m512i)v);
#elif defined NCK_ISA_avx2
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
    four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(four) + _mm_extract_epi32(four, 1);
#else
    int32_t sum = 0;
    for (int l = 0; l < LEN; l++) sum += v[l];
    return sum;
#endif
}

#ifndef __AVX2__
/* Eight codes in the order of 4 bits: every other byte, then the rest. */
ALWAYS uint64_t nbits_apart(uint64_t v) {
    uint64_t bytes = (v ^ v >> 8) & 0x0000ff000000ff00u;
    v ^= bytes ^ bytes << 8;
    uint64_t pairs = (v ^ v >> 16) & 0xffff0000u;
    return v ^ pairs ^ pairs << 16;
}
#endif

/* A piece in the order of 4 bits. */
ALWAYS void nbits_in_order(const int8_t *codes, int8_t *y) {
#if defined __AVX2__
    const __m256i order = _mm256_set1_epi64x(0x0705030106040200);
    const __m256i from = _mm256_add_epi8(order, _mm256_setr_epi64x(0, 0x0808080808080808, 0, 0x0808080808080808));
    _mm256_storeu_si256((__m256i *)(void *)y, _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)codes), from));
#else
    for (int i = 0; i < NCK_NBITS_PIECE; i += 8) {
        uint64_t v;
        memcpy(&v, codes + i, sizeof v);
        v = nbits_apart(v);
        memcpy(y + i, &v, sizeof v);
    }
#endif
}

/* Adding 1.5 * 2^23 leaves no room for a fraction. */
static int32_t nbits_round(const float *x, float by, int bits, int8_t *y) {
    ints_v all = {0};
    int8_t codes[NCK_NBITS_PIECE];
    for (int k = 0; k < NCK_NBITS_PIECE; k += LEN) {
        ints_v v = __builtin_convertvector((nbits_floats(x + k) * by + 0x1.8p23f) - 0x1.8p23f, ints_v);
        nbits_bytes(v, codes + k);
        all += v;
    }
    if (bits == 4)
        nbits_in_order(codes, y);
    else
        for (int i = 0; i < NCK_NBITS_PIECE; i++) y[nck_nbits_place(i, bits)] = codes[i];
    return nbits_total(all);
}
#else
extern const nck_nbits_table PLAIN;

static void nbits_numbers(const nck_nbits_panel *p, const nck_nbits_row *a, int n, float *y) {
    PLAIN.numbers(p, a, n, y);
}

static void nbits_decode(const nck_nbits_panel *p, int64_t K, float *y, int64_t ld) { PLAIN.decode(p, K, y, ld); }

static bool nbits_most(const float *x, int64_t n, float *most) { return PLAIN.most(x, n, most); }

static int32_t nbits_round(const float *x, float by, int bits, int8_t *y) { return PLAIN.round(x, by, bits, y); }
#endif

extern const nck_nbits_table NCK_ISA_NAME(nck_nbits_);
const nck_nbits_table NCK_ISA_NAME(nck_nbits_) = {.lanes = LEN,
                                                  .numbers = nbits_numbers,
                                                  .codes = nbits_codes,
                                                  .decode = nbits_decode,
                                                  .most = nbits_most,
                                                  .round = nbits_round};
