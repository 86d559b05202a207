/* kernels/cpu/quant/nbits_ref.c: products with weights of few bits as the formula stands. */
#include "kernels/cpu/quant/nbits.h"

static int code_at(const uint8_t *p, int64_t i, int bits) {
    return p[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
}

static double weight(const nck_nbits *w, int64_t n, int64_t k) {
    int64_t blocks = (w->K + w->block - 1) / w->block, g = w->group_of_k != NULL ? w->group_of_k[k] : k / w->block;
    double zero = 1 << (w->bits - 1);
    if (w->float_zeros != NULL)
        zero = (double)w->float_zeros[n * blocks + g];
    else if (w->zeros != NULL)
        zero = code_at(w->zeros + n * ((blocks * w->bits + 7) / 8), g, w->bits);
    int code = code_at(w->codes + n * blocks * (w->block * w->bits / 8), k, w->bits);
    return (code - zero) * (double)w->scales[n * blocks + g];
}

void nck_nbits_matmul_ref(const nck_nbits *w, int64_t M, const float *a, const float *bias, float *y) {
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < w->N; n++) {
            double sum = bias != NULL ? (double)bias[n] : 0;
            for (int64_t k = 0; k < w->K; k++) sum += (double)a[m * w->K + k] * weight(w, n, k);
            y[m * w->N + n] = (float)sum;
        }
}
