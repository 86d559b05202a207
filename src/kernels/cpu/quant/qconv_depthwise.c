/* kernels/cpu/quant/qconv_depthwise.c: convolutions of 8-bit integers with one channel for each group. Channels lie
 * side by side, so a tap is a row of x times a row of weights, element by element; a few places and as many channels as
 * the integer product has columns stay in registers over all taps, and some of these are stored as a tile of that
 * product. Taps in the padding read a row of x's zero point. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/qconv_job.h"

#include <string.h>

enum { PLACES = NCK_IGEMM_MAX_MR, MAX_NR = NCK_IGEMM_MAX_NR }; /* of a tile */

typedef struct depth {
    const nck_qconv_job *j;
    const nck_igemm_table *u;
    int32_t *w, *sums; /* (taps, ld) with the zero points taken off; (ld) */
    uint8_t *zeros;    /* (ld): x's zero point */
    int64_t taps, ld;
    int32_t x_zero;
} depth;

static int64_t depth_ld(int64_t C) { return nc_round_up(C, 64); }

size_t nck_qconv_depth_bytes(int64_t C, int64_t taps) {
    return (size_t)depth_ld(C) * ((size_t)(taps + 1) * sizeof(int32_t) + 1);
}

static int32_t depth_number(nc_dtype t, const void *p, int64_t i) {
    if (p == NULL) return 0;
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static void depth_weights(depth *d) {
    const nck_qconv_args *a = d->j->a;
    memset(d->w, 0, (size_t)(d->ld * (d->taps + 1)) * sizeof *d->w);
    memset(d->zeros, a->x_zero ? *(const uint8_t *)a->x_zero : 0, (size_t)d->ld);
    for (int64_t c = 0; c < a->C; c++) {
        int32_t zero = depth_number(a->w_type, a->w_zero, a->w_zeros > 1 ? c : 0);
        for (int64_t t = 0; t < d->taps; t++) {
            int32_t w = depth_number(a->w_type, a->w, c * d->taps + t) - zero;
            d->w[t * d->ld + c] = w;
            d->sums[c] += w;
        }
    }
}

/* at[r*taps + t]: what tap t sees from place o + r of the output row. */
static void depth_point(const depth *d, const uint8_t *x, const int64_t *rows, int64_t o, int64_t n,
                        const uint8_t **at) {
    const nck_qconv_args *a = d->j->a;
    int last = a->n_spatial - 1;
    int64_t width = a->window[last];
    for (int64_t r = 0; r < n; r++) {
        int64_t from = (o + r) * a->stride[last] - a->pad[last];
        for (int64_t k = 0; k < d->taps / width; k++)
            for (int64_t t = 0, i = from; t < width; t++, i += a->dilation[last])
                *at++ = rows[k] < 0 || i < 0 || i >= a->in[last] ? d->zeros : x + (rows[k] + i) * a->C;
    }
}

/* The sums of `cols` channels from c on of n places. Fewer than a tile has are copied: nothing behind x is read. */
static void depth_sums(const depth *d, const uint8_t *const *at, int64_t n, int64_t c, int64_t cols, int32_t *acc) {
    enum { MOST = NCK_IGEMM_PLACES * NCK_QCONV_TAPS };
    bool is_signed = d->j->a->x_type == NC_INT8;
    uint8_t rest[MOST * MAX_NR];
    const uint8_t *copied[MOST];
    for (int64_t r = 0; r < n; r += NCK_IGEMM_PLACES, at += NCK_IGEMM_PLACES * d->taps) {
        int64_t some = nc_min64(NCK_IGEMM_PLACES, n - r);
        for (int64_t i = 0; i < some * d->taps && cols < d->u->nr; i++) {
            copied[i] = memcpy(rest + i * MAX_NR, at[i] + c, (size_t)cols);
            memset(rest + i * MAX_NR + cols, 0, (size_t)(MAX_NR - cols));
        }
        bool whole = cols == d->u->nr;
        d->u->taps((int)some, d->taps, whole ? at : copied, whole ? c : 0, is_signed, d->w + c, d->ld,
                   acc + r * d->u->nr);
    }
}

/* Channels from c on of n places. */
static void depth_tile(const depth *d, const uint8_t *const *at, int64_t n, int64_t c, int64_t place,
                       const nck_igemm_out *out) {
    _Alignas(64) int32_t acc[PLACES * MAX_NR];
    static const int32_t none[MAX_NR];
    int32_t zero[PLACES];
    int64_t cols = nc_min64(d->u->nr, d->j->a->C - c);
    for (int i = 0; i < PLACES; i++) zero[i] = d->x_zero;
    depth_sums(d, at, n, c, cols, acc);
    d->u->store(&(nck_igemm_tile){.acc = acc,
                                  .rows = n,
                                  .cols = cols,
                                  .i = place,
                                  .j = c,
                                  .shifted = d->x_zero != 0,
                                  .a_zero = zero,
                                  .a_rest = none,
                                  .b_sum = d->sums + c,
                                  .b_zero = none,
                                  .out = out});
}

/* One output row of one image. */
static void depth_item(void *ctx, int64_t item) {
    const depth *d = ctx;
    const nck_qconv_args *a = d->j->a;
    int last = a->n_spatial - 1;
    int64_t width = a->out[last], n_rows = d->j->places / width, i = item / n_rows, row = item % n_rows;
    int64_t rows[NCK_QCONV_TAPS];
    const uint8_t *at[PLACES * NCK_QCONV_TAPS];
    nck_igemm_out out = a->y;
    out.c = (char *)a->y.c + i * d->j->places * a->K * (int64_t)nc_dtype_bytes(a->y.type);
    out.c_rs = a->K, out.c_cs = 1;
    for (int64_t t = 0; t < d->taps / a->window[last]; t++) rows[t] = nck_qconv_row(a, row, t);
    for (int64_t o = 0; o < width; o += d->u->mr) {
        int64_t n = nc_min64(d->u->mr, width - o);
        depth_point(d, (const uint8_t *)a->x + i * d->j->plane * a->C, rows, o, n, at);
        for (int64_t c = 0; c < a->C; c += d->u->nr) depth_tile(d, at, n, c, row * width + o, &out);
    }
}

void nck_qconv_depthwise(const nck_qconv_job *j, int64_t taps, char *room, nc_pool *pool) {
    const nck_qconv_args *a = j->a;
    depth d = {.j = j, .u = nck_isa_get()->igemm, .taps = taps, .ld = depth_ld(a->C)};
    d.w = (int32_t *)room, d.sums = d.w + taps * d.ld, d.zeros = (uint8_t *)(d.sums + d.ld);
    d.x_zero = depth_number(a->x_type, a->x_zero, 0);
    depth_weights(&d);
    nc_parallel(pool, a->N * (j->places / a->out[a->n_spatial - 1]), depth_item, &d);
}
