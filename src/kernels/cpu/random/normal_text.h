/* kernels/cpu/random/normal_text.h: what draws need beside Philox' words, as text that C and CUDA compile alike:
 * normal numbers by Box and Muller, exp for draws of classes. Logarithm, sine, cosine and exp are polynomials of their
 * own, in double and without fused steps, so that every device draws the same bits; each is right to about one unit of
 * the last place. */
#ifndef NCK_NORMAL_TEXT_H
#define NCK_NORMAL_TEXT_H

#ifdef __CUDACC__
#define NCK_DRAW_FN static __device__ inline
NCK_DRAW_FN uint64_t nck_draw_bits(double x) { return (uint64_t)__double_as_longlong(x); }
NCK_DRAW_FN double nck_draw_double(uint64_t bits) { return __longlong_as_double((long long)bits); }
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define NCK_DRAW_FN static inline
NCK_DRAW_FN uint64_t nck_draw_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
NCK_DRAW_FN double nck_draw_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif

#define NCK_LN2_HI 6.93147180369123816490e-01 /* with 32 bits, so that whole multiples are exact */
#define NCK_LN2_LO 1.90821492927058770002e-10

/* log(x) of a normal number above 0: x = 2^k (1 + f) with 1 + f near 1, then in s = f / (2 + f). */
NCK_DRAW_FN double nck_draw_log(double x) {
    uint64_t bits = nck_draw_bits(x) + 0x95f6400000000ull; /* the half above sqrt(2) goes to the next k */
    double k = (double)((int64_t)(bits >> 52) - 1023);
    double f = nck_draw_double((bits & 0xfffffffffffffull) + 0x3fe6a09c00000000ull) - 1, s = f / (2 + f), z = s * s;
    double r = 1.531383769920937332e-01 + z * 1.479819860511658591e-01;
    r = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * r);
    r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * r)));
    double half = 0.5 * f * f;
    return k * NCK_LN2_HI - ((half - (s * (half + r) + k * NCK_LN2_LO)) - f);
}

/* exp(x), x at most 0; below the normal numbers 0. */
NCK_DRAW_FN double nck_draw_exp(double x) {
    if (!(x > -708)) return x == x ? 0 : x;
    int64_t k = (int64_t)(x * 1.44269504088896338700 - 0.5);
    double hi = x - (double)k * NCK_LN2_HI, lo = (double)k * NCK_LN2_LO, r = hi - lo, t = r * r;
    double p = 6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08);
    double c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 + t * p));
    double y = 1 - ((lo - r * c / (2 - c)) - hi);
    return nck_draw_double(nck_draw_bits(y) + ((uint64_t)k << 52));
}

/* Sine and cosine of word / 2^32 of a turn: an eighth of a turn around the nearest quarter. */
NCK_DRAW_FN void nck_draw_turn(uint32_t word, double *cosine, double *sine) {
    uint32_t quarter = (word + (1u << 29)) >> 30;
    double x = (double)(int32_t)(word - (quarter << 30)) * 1.46291807926715968105e-09, z = x * x;
    double s = 2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    s = -1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * s));
    double c = -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11);
    c = 4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * c));
    s = x + x * z * s, c = 1 - (0.5 * z - z * z * c);
    *cosine = quarter % 2 == 0 ? c : s;
    *sine = quarter % 2 == 0 ? s : c;
    if (quarter == 1 || quarter == 2) *cosine = -*cosine;
    if (quarter == 2 || quarter == 3) *sine = -*sine;
}

/* The four normal numbers of a block's words, two of each pair. */
NCK_DRAW_FN void nck_draw_normals(const uint32_t w[4], double out[4]) {
    for (int k = 0; k < 4; k += 2) {
        double cosine, sine, r = sqrt(-2 * nck_draw_log(((double)w[k] + 1) * 0x1p-32));
        nck_draw_turn(w[k + 1], &cosine, &sine);
        out[k] = r * cosine;
        out[k + 1] = r * sine;
    }
}

#endif
