/* kernels/cpu/quant/nbits.simd.c: dot products with 4-bit weights, see nbits_kernel.h. A block's sum of code * x is
 * scaled once, and the zero point, which is the same for all of the block, is taken off the whole with the sum of x:
 *     sum of (code - zero) * scale * x = scale * (sum of code * x - zero * sum of x)
 * Sums are in float, LEN side by side. */
#include "kernels/cpu/quant/nbits_kernel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/unroll.h"

#include <string.h>

#if defined __AVX2__
#include <immintrin.h>
#elif defined NCK_ISA_neon
#include <arm_neon.h>
#endif

/* Vectors of LEN elements, as many as a register holds, by the compilers' own arithmetic. */
#if defined NCK_ISA_avx512
enum { LEN = 16 };
#elif defined NCK_ISA_avx2
enum { LEN = 8 };
#else
enum { LEN = 4 };
#endif
enum { PARTS = 16 / LEN, ROWS = NCK_NBITS_TOGETHER }; /* parts of a chunk's bytes */
typedef int32_t ints_v __attribute__((vector_size(LEN * 4)));
typedef float floats_v __attribute__((vector_size(LEN * 4)));
#define ALWAYS __attribute__((always_inline)) static inline

/* LEN bytes as ints. */
ALWAYS ints_v nbits_ints(const uint8_t *p) {
#if defined NCK_ISA_avx512
    return (ints_v)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined NCK_ISA_avx2
    return (ints_v)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined NCK_ISA_neon
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return (ints_v)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(word))));
#else
    return (ints_v){p[0], p[1], p[2], p[3]};
#endif
}

/* sum + codes * the LEN elements at x */
ALWAYS floats_v nbits_add(floats_v sum, ints_v codes, const float *x) {
    floats_v v;
    memcpy(&v, x, sizeof v);
    return sum + __builtin_convertvector(codes, floats_v) * v;
}

ALWAYS float nbits_sum(floats_v v) {
    float s[LEN];
    memcpy(s, &v, sizeof s);
    for (int n = LEN / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) s[i] += s[i + n];
    return s[0];
}

static void nbits_numbers(const nck_nbits_dot *d, float *y) {
    const float *x = d->x;
    floats_v all[ROWS] = {{0}};
    int64_t at = 0;
    for (int64_t b = 0; b < d->blocks; b++) {
        floats_v even[ROWS] = {{0}}, odd[ROWS] = {{0}};
        for (int64_t c = 0; c < d->chunks; c++, at += 16, x += NCK_NBITS_CHUNK) {
            UNROLL
            for (int r = 0; r < ROWS; r++) UNROLL
            for (int i = 0; i < PARTS; i++) {
                ints_v codes = nbits_ints(d->codes[r] + at + i * LEN);
                even[r] = nbits_add(even[r], codes & 15, x + i * LEN);
                odd[r] = nbits_add(odd[r], codes >> 4, x + 16 + i * LEN);
            }
        }
        UNROLL
        for (int r = 0; r < ROWS; r++) all[r] += (even[r] + odd[r]) * d->scale[r][b];
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) y[r] = nbits_sum(all[r]);
}

static float nbits_zeros(int64_t n, const float *scale, const float *zero, const float *x_sum) {
    floats_v all = {0};
    int64_t b = 0;
    for (; b + LEN <= n; b += LEN) {
        floats_v s, z, x;
        memcpy(&s, scale + b, sizeof s), memcpy(&z, zero + b, sizeof z), memcpy(&x, x_sum + b, sizeof x);
        all += s * z * x;
    }
    float rest = 0;
    for (; b < n; b++) rest += scale[b] * zero[b] * x_sum[b];
    return nbits_sum(all) + rest;
}

#ifdef NCK_ISA_avx512
enum { SCALES = 16 };

/* Two chunks as 64 codes in the order of x: the bytes of each twice, the second time without their low halves. */
ALWAYS __m512i nbits_two_chunks(const uint8_t *p) {
    const __m512i twice = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
    const __m512i shifts =
        _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004);
    __m512i bytes = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
    bytes = _mm512_srlv_epi16(_mm512_permutexvar_epi64(twice, bytes), shifts);
    return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}

/* Blocks of one chunk, SCALES of them from block b on: a pair at a time, with the scales of all in one vector. */
ALWAYS void nbits_small_blocks(const nck_nbits_dot *d, int64_t b, __m512 *all) {
    const __m512i pair = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i ones = _mm512_set1_epi16(1);
    __m512 x_scale = _mm512_loadu_ps(d->x_scale + b), scale[ROWS];
    UNROLL
    for (int r = 0; r < ROWS; r++) scale[r] = _mm512_mul_ps(_mm512_loadu_ps(d->scale[r] + b), x_scale);
    UNROLL
    for (int k = 0; k < SCALES; k += 2) {
        __m512i v = _mm512_loadu_si512(d->x8 + (b + k) * NCK_NBITS_CHUNK),
                at = _mm512_add_epi32(pair, _mm512_set1_epi32(k));
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            __m512i pairs = _mm512_maddubs_epi16(nbits_two_chunks(d->codes[r] + (b + k) * 16), v);
            __m512 sum = _mm512_cvtepi32_ps(_mm512_madd_epi16(pairs, ones));
            all[r] = _mm512_fmadd_ps(sum, _mm512_permutexvar_ps(at, scale[r]), all[r]);
        }
    }
}

/* How many of the first blocks that takes, with their sums in y; the rest is nbits_codes'. */
static int64_t nbits_many_blocks(const nck_nbits_dot *d, float *y) {
    __m512 all[ROWS];
    int64_t b = 0;
    UNROLL
    for (int r = 0; r < ROWS; r++) all[r] = _mm512_setzero_ps();
    for (; d->chunks == 1 && b + SCALES <= d->blocks; b += SCALES) nbits_small_blocks(d, b, all);
    UNROLL
    for (int r = 0; r < ROWS; r++) y[r] = _mm512_reduce_add_ps(all[r]);
    return b;
}
#endif

#ifdef __AVX2__
/* A code is at most 15 and |x8| at most 127: pairs fit int16 by far. */
static void nbits_codes(const nck_nbits_dot *d, float *y) {
    float many[ROWS] = {0};
    int64_t b = 0;
#ifdef NCK_ISA_avx512
    b = nbits_many_blocks(d, many);
#endif
    const int8_t *x = d->x8 + b * NCK_NBITS_CHUNK * d->chunks;
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256 all[ROWS];
    int64_t at = b * 16 * d->chunks;
    UNROLL
    for (int r = 0; r < ROWS; r++) all[r] = _mm256_setzero_ps();
    for (; b < d->blocks; b++) {
        __m256i sum[ROWS];
        UNROLL
        for (int r = 0; r < ROWS; r++) sum[r] = _mm256_setzero_si256();
        for (int64_t c = 0; c < d->chunks; c++, at += 16, x += NCK_NBITS_CHUNK) {
            __m256i v = _mm256_loadu_si256((const __m256i *)x);
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                __m128i bytes = _mm_loadu_si128((const __m128i *)(d->codes[r] + at));
                __m256i codes = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
                __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(codes, low), v);
                sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(pairs, ones));
            }
        }
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            __m256 scale = _mm256_set1_ps(d->scale[r][b] * d->x_scale[b]);
            all[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), scale, all[r]);
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        float s[8];
        _mm256_storeu_ps(s, all[r]);
        y[r] = many[r] + (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
    }
}
#elif defined NCK_ISA_neon
static void nbits_codes(const nck_nbits_dot *d, float *y) {
    const int8_t *x = d->x8;
    float32x4_t all[ROWS] = {{0}};
    int64_t at = 0;
    for (int64_t b = 0; b < d->blocks; b++) {
        int32x4_t sum[ROWS] = {{0}};
        for (int64_t c = 0; c < d->chunks; c++, at += 16, x += NCK_NBITS_CHUNK) {
            int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                uint8x16_t bytes = vld1q_u8(d->codes[r] + at);
                int8x16_t even = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
                int8x16_t odd = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
                int16x8_t pairs = vmull_s8(vget_low_s8(even), vget_low_s8(x0));
                pairs = vmlal_high_s8(pairs, even, x0);
                pairs = vmlal_s8(pairs, vget_low_s8(odd), vget_low_s8(x1));
                sum[r] = vpadalq_s16(sum[r], vmlal_high_s8(pairs, odd, x1));
            }
        }
        UNROLL
        for (int r = 0; r < ROWS; r++)
            all[r] = vaddq_f32(all[r], vmulq_n_f32(vcvtq_f32_s32(sum[r]), d->scale[r][b] * d->x_scale[b]));
    }
    UNROLL
    for (int r = 0; r < ROWS; r++) y[r] = vaddvq_f32(all[r]);
}
#else
static void nbits_codes(const nck_nbits_dot *d, float *y) {
    for (int r = 0; r < ROWS; r++) {
        const uint8_t *p = d->codes[r];
        const int8_t *x = d->x8;
        y[r] = 0;
        for (int64_t b = 0; b < d->blocks; b++) {
            int32_t sum = 0;
            for (int64_t c = 0; c < d->chunks; c++, p += 16, x += NCK_NBITS_CHUNK)
                for (int i = 0; i < 16; i++) sum += (p[i] & 15) * x[i] + (p[i] >> 4) * x[16 + i];
            y[r] += d->scale[r][b] * d->x_scale[b] * (float)sum;
        }
    }
}
#endif

extern const nck_nbits_table NCK_ISA_NAME(nck_nbits_);
const nck_nbits_table NCK_ISA_NAME(nck_nbits_) = {.numbers = nbits_numbers, .codes = nbits_codes, .zeros = nbits_zeros};
