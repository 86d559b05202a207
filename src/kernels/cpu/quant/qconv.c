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

/* n runs of `bytes` bytes, from_step and to_step apart. Of windows over a few channels runs are shorter than a call of
 * memcpy takes: in two pieces that may overlap. */
static void copy_runs(int64_t n, int64_t bytes, const uint8_t *restrict from, int64_t from_step, uint8_t *restrict to,
                      int64_t to_step) {
    if (bytes >= 8 && bytes <= 16) {
        for (; n > 0; n--, from += from_step, to += to_step)
            memcpy(to, from, 8), memcpy(to + bytes - 8, from + bytes - 8, 8);
        return;
    }
    if (bytes > 16 && bytes <= 32) {
        for (; n > 0; n--, from += from_step, to += to_step)
            memcpy(to, from, 16), memcpy(to + bytes - 16, from + bytes - 16, 16);
        return;
    }
    for (; n > 0; n--, from += from_step, to += to_step) memcpy(to, from, (size_t)bytes);
}

/* The taps of one row of the window at x + `row`, elements from + t * dilation of [0, in): as bytes to `to`. */
static void copy_taps(const patches *p, int64_t row, int64_t from, uint8_t *to) {
    const nck_qconv_args *a = p->a;
    int last = a->n_spatial - 1;
    int64_t n = a->window[last], dilation = a->dilation[last], width = a->in[last], c = p->channels;
    if (dilation == 1 && a->group == 1) {
        int64_t first = nc_min64(n, nc_max64(0, -from)), end = nc_max64(first, nc_min64(n, width - from));
        memset(to, p->zero, (size_t)(first * c));
        if (end > first) memcpy(to + first * c, p->x + (row + from + first) * c, (size_t)((end - first) * c));
        memset(to + end * c, p->zero, (size_t)((n - end) * c));
        return;
    }
    for (int64_t t = 0; t < n; t++, from += dilation, to += c) {
        if (from < 0 || from >= width)
            memset(to, p->zero, (size_t)c);
        else
            memcpy(to, p->x + (row + from) * a->C, (size_t)c);
    }
}

/* The same for n places of an output row from o on: those that hang over no edge are runs. */
static void copy_line(const patches *p, int64_t row, int64_t o, int64_t n, int64_t step, uint8_t *to) {
    const nck_qconv_args *a = p->a;
    int last = a->n_spatial - 1;
    int64_t taps = a->window[last], stride = a->stride[last], pad = a->pad[last], room = a->in[last] + pad - taps;
    int64_t first = nc_max64(o, nc_ceil_div(pad, stride)), end = room < 0 ? 0 : nc_min64(o + n, room / stride + 1);
    bool runs = a->dilation[last] == 1 && a->group == 1 && first < end;
    if (!runs) first = o + n, end = o + n;
    for (int64_t k = o; k < first; k++) copy_taps(p, row, k * stride - pad, to + (k - o) * step);
    if (runs)
        copy_runs(end - first, taps * p->channels, p->x + (row + first * stride - pad) * p->channels,
                  stride * p->channels, to + (first - o) * step, step);
    for (int64_t k = end; k < o + n; k++) copy_taps(p, row, k * stride - pad, to + (k - o) * step);
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
    for (int64_t end = i + n, places; i < end; i += places, to += places * step) {
        int64_t at = i / width, o = i % width;
        places = nc_min64(width - o, end - i);
        for (int64_t t = 0; t < n_rows; t++) {
            int64_t row = nck_qconv_row(a, at, t);
            uint8_t *line = to + t * bytes;
            if (row >= 0)
                copy_line(p, row, o, places, step, line);
            else
                for (int64_t k = 0; k < places; k++) memset(line + k * step, p->zero, (size_t)bytes);
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

/* Channels [first, last) of places [from, end) of image i. */
static void qconv_add(const nck_qconv_job *j, int64_t i, int64_t from, int64_t end, int64_t first, int64_t last) {
    const nck_qconv_args *a = j->a;
    const nck_qconv_sum *s = a->sum;
    bool all = last - first == a->K; /* are they one run? */
    int64_t runs = all ? 1 : end - from, n = all ? (end - from) * a->K : last - first;
    for (int64_t r = 0, at = (i * j->places + from) * a->K + first; r < runs; r++, at += a->K) {
        uint8_t *y = (uint8_t *)a->y.c + at;
        nck_add_codes(a->y.type, n, y, s->of_y, (const uint8_t *)s->other + at, s->of_other, y, s->of_sum, NULL);
    }
}

static patches patches_of(const nck_qconv_job *j, int64_t i, int64_t g) {
    const nck_qconv_args *a = j->a;
    patches p = {.a = a, .zero = a->x_zero ? *(const uint8_t *)a->x_zero : 0, .channels = a->C / a->group};
    p.x = (const uint8_t *)a->x + i * j->plane * a->C + g * p.channels;
    return p;
}

/* Items of one part of the columns come one after the other: their weights stay in the cache. */
static void qconv_item(void *ctx, int64_t item) {
    const nck_qconv_job *j = ctx;
    const nck_qconv_args *a = j->a;
    int64_t block = item % j->blocks, g = item / j->blocks % a->group, i = item / j->blocks / a->group % a->N;
    int64_t part = item / j->blocks / a->group / a->N, panel = nck_igemm_panel();
    int64_t panels = nc_ceil_div(a->K / a->group, panel);
    int64_t first = panels * part / j->parts, last = panels * (part + 1) / j->parts;
    int64_t step = nck_isa_get()->igemm->mr, steps = nc_ceil_div(j->places, step); /* of whole tiles */
    int64_t from = steps * block / j->blocks * step, end = nc_min64(j->places, steps * (block + 1) / j->blocks * step);
    patches p = patches_of(j, i, g);
    nck_igemm_args m = qconv_product(j, &p, i, g);
    nck_igemm_block(&m, from, end - from, first, last, j->room + (size_t)nc_parallel_lane() * j->bytes_lane);
    if (a->sum != NULL) qconv_add(j, i, from, end, first * panel, nc_min64(last * panel, a->K));
}

static bool qconv_in_place(const nck_qconv_args *a) {
    for (int d = 0; d < a->n_spatial; d++)
        if (a->window[d] != 1 || a->stride[d] != 1 || a->pad[d] != 0 || a->in[d] != a->out[d]) return false;
    return true;
}

/* As many items for each thread, where one image is all there is. Few blocks are cut into parts of the columns, so that
 * each thread reads its own weights; only where these are few as well, blocks become smaller, but not less than a tile.
 */
static void qconv_cut(nck_qconv_job *j, int threads) {
    const nck_qconv_args *a = j->a;
    patches p = patches_of(j, 0, 0);
    nck_igemm_args m = qconv_product(j, &p, 0, 0);
    j->blocks = nc_ceil_div(j->places, nck_igemm_block_rows(&m));
    j->parts = 1;
    if (a->N * a->group > 1 || threads == 1) return;
    int64_t panels = nc_ceil_div(a->K, nck_igemm_panel()), tiles = nc_ceil_div(j->places, nck_isa_get()->igemm->mr);
    if (j->blocks < threads) j->parts = nc_min64(panels, nc_ceil_div(threads, j->blocks));
    j->blocks = nc_min64(tiles, nc_round_up(j->blocks, nc_ceil_div(threads, j->parts)));
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
    if (j.w == NULL) {
        nck_qconv_pack(a, workspace + r->packed, workspace + r->order);
        j.w = workspace + r->packed;
    }
    qconv_cut(&j, pool ? nc_pool_threads(pool) : 1);
    nc_parallel_upto(pool, NCK_QCONV_LANES, a->N * a->group * j.blocks * j.parts, qconv_item, &j);
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
