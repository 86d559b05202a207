/* kernels/cpu/quant/qconv.c: convolutions of 8-bit integers over images whose channels lie side by side, see qconv.h.
 *
 * So a tap of the window is a run of bytes, and where neighbouring taps of a row lie in the image they are one run: the
 * patch of a place is a few copies, one row of the integer product, whose terms come tap by tap. Where the window is
 * one element that moves by one, places are rows already. With one channel for each group (qconv_depthwise.c) channels
 * are columns. Images with channels first are turned before and back behind. */
#include "kernels/cpu/quant/qconv.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/quant/qconv_job.h"

#include <string.h>

enum { ROWS = 32 }; /* rows of a window that are found once for all places of an output row */

static int64_t product(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}

static int64_t taps_of(const nck_qconv_args *a) { return product(a->window, a->n_spatial); }
static int64_t terms_of(const nck_qconv_args *a) { return a->C / a->group * taps_of(a); }

static bool is_depthwise(const nck_qconv_args *a) {
    return a->group > 1 && a->group == a->C && a->group == a->K && taps_of(a) <= NCK_QCONV_TAPS;
}

/* ---- rows of patches ---- */

typedef struct patches {
    const nck_qconv_args *a;
    const uint8_t *x; /* of the image, from the group's first channel on */
    uint8_t zero;
    int64_t channels; /* of the group */
} patches;

/* Of windows over a few channels runs are shorter than a call of memcpy takes: in two pieces that may overlap. */
static void copy_run(uint8_t *restrict to, const uint8_t *restrict from, int64_t n) {
    if (n >= 8 && n <= 16)
        memcpy(to, from, 8), memcpy(to + n - 8, from + n - 8, 8);
    else if (n > 16 && n <= 32)
        memcpy(to, from, 16), memcpy(to + n - 16, from + n - 16, 16);
    else
        memcpy(to, from, (size_t)n);
}

/* The taps of one row of the window at x + `row`, elements from + t * dilation of [0, in): as bytes to `to`. */
static uint8_t *copy_taps(const patches *p, int64_t row, int64_t from, uint8_t *to) {
    const nck_qconv_args *a = p->a;
    int last = a->n_spatial - 1;
    int64_t n = a->window[last], dilation = a->dilation[last], width = a->in[last], c = p->channels;
    if (dilation == 1 && a->group == 1) {
        if (from >= 0 && from + n <= width) {
            copy_run(to, p->x + (row + from) * c, n * c);
            return to + n * c;
        }
        int64_t first = nc_min64(n, nc_max64(0, -from)), end = nc_max64(first, nc_min64(n, width - from));
        memset(to, p->zero, (size_t)(first * c));
        if (end > first) memcpy(to + first * c, p->x + (row + from + first) * c, (size_t)((end - first) * c));
        memset(to + end * c, p->zero, (size_t)((n - end) * c));
        return to + n * c;
    }
    for (int64_t t = 0; t < n; t++, from += dilation, to += c) {
        if (from < 0 || from >= width)
            memset(to, p->zero, (size_t)c);
        else
            memcpy(to, p->x + (row + from) * a->C, (size_t)c);
    }
    return to;
}

/* The element that row `tap` of the window's rows begins at, seen from the output row `at`; -1: in the padding. */
int64_t nck_qconv_row(const nck_qconv_args *a, int64_t at, int64_t tap) {
    int64_t row = 0, step = a->in[a->n_spatial - 1];
    for (int d = a->n_spatial - 2; d >= 0; at /= a->out[d], tap /= a->window[d--]) {
        int64_t i = at % a->out[d] * a->stride[d] - a->pad[d] + tap % a->window[d] * a->dilation[d];
        if (i < 0 || i >= a->in[d]) return -1;
        row += i * step;
        step *= a->in[d];
    }
    return row;
}

static void patch_rows(const void *ctx, int64_t i, int64_t n, int64_t step, uint8_t *to) {
    const patches *p = ctx;
    const nck_qconv_args *a = p->a;
    int last = a->n_spatial - 1;
    int64_t n_rows = product(a->window, last), bytes = a->window[last] * p->channels, width = a->out[last];
    int64_t at = i / width, o = i % width, rows[ROWS];
    for (int64_t place = 0; place < n; place++, o++, to += step) {
        uint8_t *next = to;
        if (o == width) o = 0, at++;
        for (int64_t t = 0; t < n_rows && t < ROWS && (o == 0 || place == 0); t++) rows[t] = nck_qconv_row(a, at, t);
        for (int64_t t = 0; t < n_rows; t++) {
            int64_t row = t < ROWS ? rows[t] : nck_qconv_row(a, at, t);
            if (row >= 0)
                next = copy_taps(p, row, o * a->stride[last] - a->pad[last], next);
            else
                memset(next, p->zero, (size_t)bytes), next += bytes;
        }
    }
}

/* ---- weights ---- */

size_t nck_qconv_packed_bytes(const nck_qconv_args *a) {
    if (is_depthwise(a)) return nck_qconv_depth_packed_bytes(a->C, taps_of(a));
    return (size_t)a->group * nck_igemm_packed_b_bytes(terms_of(a), a->K / a->group);
}

size_t nck_qconv_pack_room(const nck_qconv_args *a) {
    return is_depthwise(a) ? 0 : nc_align64((size_t)(a->K * terms_of(a)));
}

void nck_qconv_pack(const nck_qconv_args *a, void *dst, void *room) {
    int64_t K = terms_of(a), N = a->K / a->group, taps = taps_of(a), channels = a->C / a->group;
    size_t each = nck_igemm_packed_b_bytes(K, N);
    const int64_t dims[3] = {a->K, taps, channels}, from[3] = {K, 1, taps}, to[3] = {K, channels, 1};
    if (is_depthwise(a)) {
        nck_qconv_depth_pack(a, taps, dst);
        return;
    }
    nck_copy(3, dims, 1, a->w, from, room, to, NULL);
    for (int64_t g = 0; g < a->group; g++)
        nck_igemm_pack_b(a->w_type, K, N, (const char *)room + g * N * K, 1, K, (char *)dst + (size_t)g * each, NULL);
}

/* ---- sizes ---- */

typedef struct qconv_room {
    size_t x, y, packed, order, lanes, depth, all; /* where each begins, and the end */
} qconv_room;

/* Room for both ways: a smaller convolution than one that room was booked for may take the other. */
static qconv_room room_of(const nck_qconv_args *a, bool packed) {
    qconv_room r = {0};
    size_t plane = (size_t)product(a->in, a->n_spatial), places = (size_t)product(a->out, a->n_spatial);
    r.y = a->last ? 0 : nc_align64((size_t)(a->N * a->C) * plane);
    r.packed = r.y + (a->last ? 0 : nc_align64((size_t)(a->N * a->K) * places * nc_dtype_bytes(a->y.type)));
    r.order = r.packed + (packed || is_depthwise(a) ? 0 : nck_qconv_packed_bytes(a));
    r.lanes = r.order + (packed ? 0 : nck_qconv_pack_room(a));
    r.depth = r.lanes + NCK_QCONV_LANES * nck_igemm_block_bytes(terms_of(a), true);
    r.all = r.depth + (a->group == 1 ? 0 : nck_qconv_depth_bytes(a->C, taps_of(a)));
    return r;
}

size_t nck_qconv_workspace(const nck_qconv_args *a, bool packed) { return room_of(a, packed).all; }

/* ---- the product ---- */

/* That of image i and group g. */
static nck_igemm_args qconv_product(const nck_qconv_job *j, const patches *p, int64_t i, int64_t g) {
    const nck_qconv_args *a = j->a;
    int64_t N = a->K / a->group, K = terms_of(a);
    nck_igemm_args m = {.M = j->places,
                        .N = N,
                        .K = K,
                        .a_type = a->x_type,
                        .b_type = a->w_type,
                        .a = p->x,
                        .a_rs = a->C,
                        .a_cs = 1,
                        .rows = j->in_place ? NULL : patch_rows,
                        .rows_ctx = p,
                        .a_zero = a->x_zero,
                        .a_zeros = 1,
                        .b_packed = j->w + (size_t)g * nck_igemm_packed_b_bytes(K, N),
                        .b_zero = a->w_zero,
                        .b_zeros = a->w_zeros > 1 ? N : 1,
                        .out = a->y};
    if (a->w_zeros > 1) m.b_zero = (const char *)a->w_zero + g * N;
    if (a->y.sum_bias) m.out.sum_bias = a->y.sum_bias + g * N;
    if (a->y.bias) m.out.bias = a->y.bias + g * N;
    if (a->y.b_scales > 1) m.out.b_scale = a->y.b_scale + g * N, m.out.b_scales = N;
    m.out.c = (char *)a->y.c + (i * j->places * a->K + g * N) * (int64_t)nc_dtype_bytes(a->y.type);
    m.out.c_rs = a->K, m.out.c_cs = 1;
    return m;
}

static void qconv_item(void *ctx, int64_t item) {
    const nck_qconv_job *j = ctx;
    const nck_qconv_args *a = j->a;
    int64_t block = item % j->blocks, g = item / j->blocks % a->group, i = item / j->blocks / a->group;
    int64_t step = nck_isa_get()->igemm->mr, steps = nc_ceil_div(j->places, step); /* of whole tiles */
    int64_t from = steps * block / j->blocks * step, end = nc_min64(j->places, steps * (block + 1) / j->blocks * step);
    patches p = {.a = a, .zero = a->x_zero ? *(const uint8_t *)a->x_zero : 0, .channels = a->C / a->group};
    p.x = (const uint8_t *)a->x + i * j->plane * a->C + g * p.channels;
    nck_igemm_args m = qconv_product(j, &p, i, g);
    nck_igemm_block(&m, from, end - from, j->room + (size_t)nc_parallel_lane() * j->bytes_lane);
}

static bool qconv_in_place(const nck_qconv_args *a) {
    for (int d = 0; d < a->n_spatial; d++)
        if (a->window[d] != 1 || a->stride[d] != 1 || a->pad[d] != 0 || a->in[d] != a->out[d]) return false;
    return true;
}

/* As many for each thread, where one image is all there is; none is less than a tile. */
static int64_t blocks_of(const nck_qconv_args *a, int64_t places, int threads) {
    int64_t blocks = nc_ceil_div(places, nck_igemm_block_rows(terms_of(a)));
    if (a->N * a->group > 1) return blocks;
    return nc_min64(nc_ceil_div(places, nck_isa_get()->igemm->mr), nc_round_up(blocks, threads));
}

/* Channels last on both sides. */
static void qconv_last(const nck_qconv_args *a, const qconv_room *r, char *workspace, nc_pool *pool) {
    nck_qconv_job j = {.a = a,
                       .w = a->w_packed,
                       .room = workspace + r->lanes,
                       .places = product(a->out, a->n_spatial),
                       .plane = product(a->in, a->n_spatial),
                       .in_place = qconv_in_place(a)};
    pool = nc_pool_for(pool, nc_min64(NC_ALONE, a->N * a->K * j.places) * terms_of(a));
    if (is_depthwise(a)) {
        nck_qconv_depthwise(&j, taps_of(a), workspace + r->depth, pool);
        return;
    }
    j.bytes_lane = nck_igemm_block_bytes(terms_of(a), true);
    j.blocks = blocks_of(a, j.places, pool ? nc_pool_threads(pool) : 1);
    if (j.w == NULL) {
        nck_qconv_pack(a, workspace + r->packed, workspace + r->order);
        j.w = workspace + r->packed;
    }
    nc_parallel_upto(pool, NCK_QCONV_LANES, a->N * a->group * j.blocks, qconv_item, &j);
}

/* (N, C, plane) to (N, plane, C), and back. */
static void turn(const nck_qconv_args *a, int64_t C, int64_t plane, size_t es, const void *from, void *to, bool back,
                 nc_pool *pool) {
    const int64_t dims[3] = {a->N, back ? C : plane, back ? plane : C};
    const int64_t dense[3] = {C * plane, dims[2], 1}, turned[3] = {C * plane, 1, dims[1]};
    nck_copy(3, dims, es, from, turned, to, dense, pool);
}

void nck_qconv(const nck_qconv_args *a, void *workspace, nc_pool *pool) {
    int64_t places = product(a->out, a->n_spatial), plane = product(a->in, a->n_spatial);
    size_t es = nc_dtype_bytes(a->y.type);
    qconv_room r = room_of(a, a->w_packed != NULL);
    char *room = workspace;
    if (a->N * a->K * places == 0) return;
    if (a->last) {
        qconv_last(a, &r, room, pool);
        return;
    }
    nck_qconv_args last = *a;
    last.x = room + r.x, last.y.c = room + r.y;
    turn(a, a->C, plane, 1, a->x, room + r.x, false, pool);
    qconv_last(&last, &r, room, pool);
    turn(a, a->K, places, es, room + r.y, a->y.c, true, pool);
}
