/* kernels/cpu/quant/qconv.c: the patches of an image as rows of the integer product, see qconv.h.
 *
 * Rows are handed over as lines (igemm.h): line k has element k of the patches of a block of output places, that is,
 * for one channel and one tap of the window a piece of the image, copied output row by output row, with x's zero point
 * where the window hangs over the edge. Where the window is one element that moves by one there is nothing to copy:
 * channels are lines already. */
#include "kernels/cpu/quant/qconv.h"

#include "base/intmath.h"

#include <string.h>

enum { LANES = 16 };

typedef struct patches {
    const nck_qconv_args *a;
    const uint8_t *x; /* of the image and group */
    uint8_t zero;
} patches;

static int64_t product(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}

static int64_t terms_of(const nck_qconv_args *a) { return a->C / a->group * product(a->window, a->n_spatial); }

/* ---- lines ---- */

/* The offset in a channel of the input row that tap `taps` sees from the output row of place j; -1: padding. */
static int64_t row_offset(const nck_qconv_args *a, int64_t j, const int64_t *taps) {
    int64_t at = 0, step = a->in[a->n_spatial - 1];
    for (int d = a->n_spatial - 2; d >= 0; j /= a->out[d--]) {
        int64_t i = j % a->out[d] * a->stride[d] - a->pad[d] + taps[d] * a->dilation[d];
        if (i < 0 || i >= a->in[d]) return -1;
        at += i * step;
        step *= a->in[d];
    }
    return at;
}

/* Places [o, o + n) of one output row: element from + p*stride of the row for place p, zero outside of [0, width). */
static void copy_run(const uint8_t *row, int64_t from, int64_t stride, int64_t width, int64_t n, uint8_t zero,
                     uint8_t *to) {
    int64_t first = from >= 0 ? 0 : nc_min64(n, nc_ceil_div(-from, stride));
    int64_t end = from >= width ? 0 : nc_min64(n, nc_ceil_div(width - from, stride));
    end = nc_max64(end, first);
    memset(to, zero, (size_t)first);
    if (stride == 1)
        memcpy(to + first, row + from + first, (size_t)(end - first));
    else
        for (int64_t p = first; p < end; p++) to[p] = row[from + p * stride];
    memset(to + end, zero, (size_t)(n - end));
}

/* One channel and tap for the places [i, i + n). */
static void copy_line(const patches *p, const uint8_t *channel, const int64_t *taps, int64_t i, int64_t n,
                      uint8_t *to) {
    const nck_qconv_args *a = p->a;
    int last = a->n_spatial - 1;
    int64_t width = a->in[last], out = a->out[last], shift = taps[last] * a->dilation[last] - a->pad[last];
    for (int64_t done = 0; done < n;) {
        int64_t o = (i + done) % out, run = nc_min64(out - o, n - done);
        int64_t row = row_offset(a, (i + done) / out, taps);
        if (row < 0)
            memset(to + done, p->zero, (size_t)run);
        else
            copy_run(channel + row, o * a->stride[last] + shift, a->stride[last], width, run, p->zero, to + done);
        done += run;
    }
}

static void patch_lines(const void *ctx, int64_t i, int64_t n, uint8_t *lines) {
    const patches *p = ctx;
    const nck_qconv_args *a = p->a;
    int64_t channels = a->C / a->group, plane = product(a->in, a->n_spatial);
    int64_t n_taps = product(a->window, a->n_spatial), taps[NC_MAX_RANK];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < n_taps; t++, lines += n) {
            int64_t rest = t;
            for (int d = a->n_spatial - 1; d >= 0; rest /= a->window[d--]) taps[d] = rest % a->window[d];
            copy_line(p, p->x + c * plane, taps, i, n, lines);
        }
}

/* ---- the product ---- */

size_t nck_qconv_packed_bytes(const nck_qconv_args *a) {
    return (size_t)a->group * nck_igemm_packed_b_bytes(terms_of(a), a->K / a->group);
}

void nck_qconv_pack(const nck_qconv_args *a, void *dst) {
    int64_t K = terms_of(a), N = a->K / a->group;
    size_t each = nck_igemm_packed_b_bytes(K, N);
    for (int64_t g = 0; g < a->group; g++)
        nck_igemm_pack_b(a->w_type, K, N, (const char *)a->w + g * N * K, 1, K, (char *)dst + (size_t)g * each, NULL);
}

size_t nck_qconv_workspace(const nck_qconv_args *a, bool packed) {
    return LANES * nck_igemm_block_bytes(terms_of(a), true) + (packed ? 0 : nck_qconv_packed_bytes(a));
}

typedef struct qconv_job {
    const nck_qconv_args *a;
    const char *w; /* packed */
    char *room;
    size_t bytes_lane, bytes_group;
    int64_t K, N, places, plane, blocks; /* of one image and group; blocks of places */
    bool in_place;
} qconv_job;

static bool qconv_in_place(const nck_qconv_args *a) {
    for (int d = 0; d < a->n_spatial; d++)
        if (a->window[d] != 1 || a->stride[d] != 1 || a->pad[d] != 0 || a->in[d] != a->out[d]) return false;
    return true;
}

/* The product of image i and group g. */
static nck_igemm_args qconv_product(const qconv_job *j, const patches *p, int64_t i, int64_t g) {
    const nck_qconv_args *a = j->a;
    int64_t es = (int64_t)nc_dtype_bytes(a->y.type);
    nck_igemm_args m = {.M = j->places,
                        .N = j->N,
                        .K = j->K,
                        .a_type = a->x_type,
                        .b_type = a->w_type,
                        .a = p->x,
                        .a_rs = 1,
                        .a_cs = j->plane,
                        .lines = j->in_place ? NULL : patch_lines,
                        .lines_ctx = p,
                        .a_zero = a->x_zero,
                        .a_zeros = 1,
                        .b_packed = j->w + (size_t)g * j->bytes_group,
                        .b_zero = a->w_zero,
                        .b_zeros = a->w_zeros > 1 ? j->N : 1,
                        .out = a->y};
    if (a->w_zeros > 1) m.b_zero = (const char *)a->w_zero + g * j->N;
    if (a->y.sum_bias) m.out.sum_bias = a->y.sum_bias + g * j->N;
    if (a->y.bias) m.out.bias = a->y.bias + g * j->N;
    if (a->y.b_scales > 1) m.out.b_scale = a->y.b_scale + g * j->N, m.out.b_scales = j->N;
    m.out.c = (char *)a->y.c + (i * a->K + g * j->N) * j->places * es;
    m.out.c_rs = 1, m.out.c_cs = j->places;
    return m;
}

static void qconv_item(void *ctx, int64_t item) {
    const qconv_job *j = ctx;
    const nck_qconv_args *a = j->a;
    int64_t block = item % j->blocks, g = item / j->blocks % a->group, i = item / j->blocks / a->group;
    int64_t from = j->places * block / j->blocks, end = j->places * (block + 1) / j->blocks;
    patches p = {.a = a, .zero = a->x_zero ? *(const uint8_t *)a->x_zero : 0};
    p.x = (const uint8_t *)a->x + (i * a->group + g) * (a->C / a->group) * j->plane;
    nck_igemm_args m = qconv_product(j, &p, i, g);
    nck_igemm_block(&m, from, end - from, j->room + (size_t)nc_parallel_lane() * j->bytes_lane);
}

void nck_qconv(const nck_qconv_args *a, void *workspace, nc_pool *pool) {
    qconv_job j = {.a = a,
                   .w = a->w_packed,
                   .room = workspace,
                   .K = terms_of(a),
                   .N = a->K / a->group,
                   .places = product(a->out, a->n_spatial),
                   .plane = product(a->in, a->n_spatial),
                   .in_place = qconv_in_place(a)};
    if (a->N * a->K * j.places == 0) return;
    j.bytes_lane = nck_igemm_block_bytes(j.K, true);
    j.bytes_group = nck_igemm_packed_b_bytes(j.K, j.N);
    j.blocks = nc_ceil_div(j.places, nck_igemm_block_rows(j.K));
    if (j.w == NULL) {
        char *w = (char *)workspace + LANES * j.bytes_lane;
        nck_qconv_pack(a, w);
        j.w = w;
    }
    pool = nc_pool_for(pool, nc_min64(NC_ALONE, a->N * a->K * j.places) * j.K);
    nc_parallel_upto(pool, LANES, a->N * a->group * j.blocks, qconv_item, &j);
}
