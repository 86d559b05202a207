/* kernels/cpu/quant/qconv.c: the patches of an image as panels of the integer matrix product, see qconv.h, and the
 * obvious loops beside it. */
#include "kernels/cpu/quant/qconv.h"

#include "kernels/cpu/quant/qgemm.h"

#include <string.h>

enum { NR = NCK_QGEMM_NR };

typedef struct patches {
    const nck_qconv_args *a;
    const char *x; /* of the image and group */
    int zero;
} patches;

static int int_at(nc_dtype t, const void *p, int64_t i) {
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static int64_t product(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}

/* Where the window of output place j starts, per spatial dim. */
static void origin_of(const nck_qconv_args *a, int64_t j, int64_t *origin) {
    for (int d = a->n_spatial - 1; d >= 0; j /= a->out[d--]) origin[d] = j % a->out[d] * a->stride[d] - a->pad[d];
}

/* The offset in a channel of tap `taps` under the window at `origin`; -1: in the padding. */
static int64_t offset_of(const nck_qconv_args *a, const int64_t *origin, const int64_t *taps) {
    int64_t at = 0;
    for (int d = 0; d < a->n_spatial; d++) {
        int64_t i = origin[d] + taps[d] * a->dilation[d];
        if (i < 0 || i >= a->in[d]) return -1;
        at = at * a->in[d] + i;
    }
    return at;
}

static void taps_of(const nck_qconv_args *a, int64_t k, int64_t *taps) {
    for (int d = a->n_spatial - 1; d >= 0; k /= a->window[d--]) taps[d] = k % a->window[d];
}

static void panel(const void *ctx, int64_t k0, int64_t kc, int64_t j0, int64_t lanes, int16_t *dst) {
    const patches *p = ctx;
    const nck_qconv_args *a = p->a;
    int64_t origin[NR][NC_MAX_RANK], taps[NC_MAX_RANK];
    int64_t n_taps = product(a->window, a->n_spatial), plane = product(a->in, a->n_spatial);
    for (int64_t l = 0; l < lanes; l++) origin_of(a, j0 + l, origin[l]);
    for (int64_t k = 0; k < kc; k++, dst += NR) {
        const char *x = p->x + (k0 + k) / n_taps * plane;
        taps_of(a, (k0 + k) % n_taps, taps);
        for (int64_t l = 0; l < NR; l++) {
            int64_t at = l < lanes ? offset_of(a, origin[l], taps) : -1;
            dst[l] = at < 0 ? 0 : (int16_t)(int_at(a->x_type, x, at) - p->zero);
        }
    }
}

static void sizes(const nck_qconv_args *a, int64_t *M, int64_t *N, int64_t *K) {
    *M = a->K / a->group;
    *N = product(a->out, a->n_spatial);
    *K = a->C / a->group * product(a->window, a->n_spatial);
}

size_t nck_qconv_workspace(const nck_qconv_args *a) {
    int64_t M, N, K;
    sizes(a, &M, &N, &K);
    return nck_qgemm_workspace(M, N, K);
}

void nck_qconv(const nck_qconv_args *a, void *workspace, nc_pool *pool) {
    int64_t M, N, K, plane = product(a->in, a->n_spatial);
    sizes(a, &M, &N, &K);
    patches p = {.a = a, .zero = a->x_zero ? int_at(a->x_type, a->x_zero, 0) : 0};
    nck_qgemm_args g = {.M = M,
                        .N = N,
                        .K = K,
                        .a_type = a->w_type,
                        .b_type = a->x_type,
                        .a_rs = K,
                        .a_cs = 1,
                        .panel = panel,
                        .panel_ctx = &p,
                        .c_rs = N};
    for (int64_t i = 0; i < a->N * a->group; i++) {
        int64_t group = i % a->group;
        p.x = (const char *)a->x + i * (a->C / a->group) * plane;
        g.a = (const char *)a->w + group * M * K;
        g.a_zero = a->w_zero && a->w_zeros > 1 ? (const char *)a->w_zero + group * M : a->w_zero;
        g.a_zeros = a->w_zeros > 1 ? M : 1;
        g.c = a->y + i * M * N;
        nck_qgemm(&g, workspace, pool);
    }
}

void nck_qconv_ref(const nck_qconv_args *a) {
    int64_t M, N, K, plane = product(a->in, a->n_spatial), n_taps = product(a->window, a->n_spatial);
    sizes(a, &M, &N, &K);
    int zx = a->x_zero ? int_at(a->x_type, a->x_zero, 0) : 0;
    for (int64_t i = 0; i < a->N * a->K * N; i++) {
        int64_t j = i % N, m = i / N % a->K, n = i / N / a->K, c0 = m / M * (a->C / a->group), acc = 0;
        int64_t origin[NC_MAX_RANK], taps[NC_MAX_RANK];
        int zw = a->w_zero ? int_at(a->w_type, a->w_zero, m % a->w_zeros) : 0;
        origin_of(a, j, origin);
        for (int64_t k = 0; k < K; k++) {
            taps_of(a, k % n_taps, taps);
            int64_t at = offset_of(a, origin, taps);
            if (at < 0) continue;
            acc += (int64_t)(int_at(a->x_type, a->x, (n * a->C + c0 + k / n_taps) * plane + at) - zx) *
                   (int_at(a->w_type, a->w, m * K + k) - zw);
        }
        a->y[i] = (int32_t)(uint32_t)(uint64_t)acc;
    }
}
