/* kernels/cpu/quant/qconv_ref.c: the obvious convolution of 8-bit integers, the yardstick of qconv.c. */
#include "kernels/cpu/quant/qconv.h"

static int64_t qconv_ref_at(nc_dtype t, const void *p, int64_t i) {
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

/* The offset in a channel of element k of the window over output place j; -1: in the padding. */
static int64_t qconv_ref_offset(const nck_qconv_args *a, int64_t j, int64_t k) {
    int64_t at = 0, step = 1;
    for (int d = a->n_spatial - 1; d >= 0; d--) {
        int64_t i = j % a->out[d] * a->stride[d] - a->pad[d] + k % a->window[d] * a->dilation[d];
        if (i < 0 || i >= a->in[d]) return -1;
        at += i * step;
        step *= a->in[d], j /= a->out[d], k /= a->window[d];
    }
    return at;
}

void nck_qconv_ref(const nck_qconv_args *a) {
    int64_t places = 1, plane = 1, n_taps = 1, channels = a->C / a->group;
    for (int d = 0; d < a->n_spatial; d++) places *= a->out[d], plane *= a->in[d], n_taps *= a->window[d];
    int64_t zx = a->x_zero ? qconv_ref_at(a->x_type, a->x_zero, 0) : 0;
    for (int64_t i = 0; i < a->N * a->K * places; i++) {
        int64_t j = i % places, m = i / places % a->K, n = i / places / a->K, acc = 0;
        int64_t c0 = m / (a->K / a->group) * channels;
        int64_t zw = a->w_zero ? qconv_ref_at(a->w_type, a->w_zero, m % a->w_zeros) : 0;
        for (int64_t k = 0; k < channels * n_taps; k++) {
            int64_t at = qconv_ref_offset(a, j, k % n_taps);
            if (at < 0) continue;
            acc += (qconv_ref_at(a->x_type, a->x, (n * a->C + c0 + k / n_taps) * plane + at) - zx) *
                   (qconv_ref_at(a->w_type, a->w, m * channels * n_taps + k) - zw);
        }
        ((int32_t *)a->y.c)[i] = (int32_t)(uint32_t)(uint64_t)acc;
    }
}
