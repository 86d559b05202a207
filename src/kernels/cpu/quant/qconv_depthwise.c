/* kernels/cpu/quant/qconv_depthwise.c: convolutions of 8-bit integers with one channel for each group. Channels lie
 * side by side, so a tap is a row of x times a row of weights, element by element; a few places and as many channels as
 * the integer product has columns stay in registers over all taps, and some of these are stored as a tile of that
 * product. Where the ISA has a kernel for it, sums that become codes, of weights small enough, go four taps at a time
 * instead. Taps in the padding read a row of x's zero point. Weights without zero points are laid out once. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/qconv_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 16, /* of a tile */
    SIDE = 3,    /* of windows whose columns are quads */
    MAX_NR = NCK_IGEMM_MAX_NR,
    SMALL = 1 << 21, /* two of these are what nck_igemm_columns calls so */
    NEAR = 31000,    /* and less than what it calls near */
    EXACT = 128      /* neighbouring weights whose products with 255 fit int16 */
};

typedef struct depth {
    const nck_qconv_args *a;
    const nck_qconv_job *j;
    const nck_igemm_table *u;
    int32_t *w, *sums;          /* (taps, ld) with the zero points taken off; (ld) */
    uint8_t *zeros;             /* (ld): x's zero point */
    nck_igemm_columns *columns; /* of each tile */
    int64_t taps, ld;
    int8_t *woven; /* by fours: (ld / width, quads, 4 * width) */
    int32_t *offset;
    float *scale;
    int64_t quads, width; /* width: a power of two */
    int64_t next;         /* quads from place to place; fewer than quads: they are columns of the window */
    bool near;            /* sums with offsets are */
} depth;

static int64_t depth_ld(int64_t C) { return nc_round_up(C, 64); }

static int64_t depth_quads(int64_t taps) { return nc_ceil_div(taps, 4); }

static size_t depth_columns(int64_t C) {
    return nc_align64((size_t)nc_ceil_div(C, nck_isa_get()->igemm->nr) * sizeof(nck_igemm_columns));
}

/* In front of laid out weights. */
typedef struct depth_head {
    _Alignas(64) bool woven; /* they fit the kernel that takes four taps at a time */
} depth_head;

size_t nck_qconv_depth_packed_bytes(int64_t C, int64_t taps) {
    size_t numbers = (size_t)(taps + 1) * sizeof(int32_t), woven = (size_t)depth_quads(taps) * 4;
    return sizeof(depth_head) + (size_t)depth_ld(C) * (numbers + woven);
}

size_t nck_qconv_depth_bytes(int64_t C, int64_t taps) {
    return depth_columns(C) + nck_qconv_depth_packed_bytes(C, taps) +
           (size_t)depth_ld(C) * (1 + sizeof(int32_t) + sizeof(float));
}

static int32_t depth_number(nc_dtype t, const void *p, int64_t i) {
    if (p == NULL) return 0;
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static void depth_weights(depth *d) {
    const nck_qconv_args *a = d->a;
    memset(d->w, 0, (size_t)(d->ld * (d->taps + 1)) * sizeof *d->w);
    for (int64_t c = 0; c < a->C; c++) {
        int32_t zero = depth_number(a->w_type, a->w_zero, a->w_zeros > 1 ? c : 0);
        for (int64_t t = 0; t < d->taps; t++) {
            int32_t w = depth_number(a->w_type, a->w, c * d->taps + t) - zero;
            d->w[t * d->ld + c] = w;
            d->sums[c] += w;
        }
    }
}

/* at[r*step + t]: what tap t sees from place o + r of the output row. */
static void depth_point(const depth *d, const uint8_t *x, const int64_t *rows, int64_t o, int64_t n, int64_t step,
                        const uint8_t **at) {
    const nck_qconv_args *a = d->j->a;
    int last = a->n_spatial - 1;
    int64_t width = a->window[last], dilation = a->dilation[last], in = a->in[last];
    for (int64_t r = 0; r < n; r++, at += step) {
        int64_t from = (o + r) * a->stride[last] - a->pad[last], k = 0;
        bool inside = from >= 0 && from + (width - 1) * dilation < in;
        for (const int64_t *row = rows; k < d->taps; row++)
            for (int64_t t = 0, i = from; t < width; t++, i += dilation)
                at[k++] = *row >= 0 && (inside || (i >= 0 && i < in)) ? x + (*row + i) * a->C : d->zeros;
        for (; k < step; k++) at[k] = d->zeros;
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
    int64_t cols = nc_min64(d->u->nr, d->j->a->C - c);
    depth_sums(d, at, n, c, cols, acc);
    d->u->store(&(nck_igemm_tile){
        .acc = acc, .rows = n, .cols = cols, .i = place, .j = c, .columns = &d->columns[c / d->u->nr], .out = out});
}

/* ---- four taps at a time ---- */

static uint8_t depth_flip(const depth *d) {
    return (d->j->a->x_type == NC_INT8) == (d->u->depth_form == NCK_DEPTH_DOTS) ? 0 : 0x80;
}

/* Are products of two neighbouring taps exact in int16, for n channels? */
static bool depth_is_exact(const int32_t *restrict w, const int32_t *restrict other, int64_t n) {
    int wrong = 0;
    for (int64_t c = 0; c < n; c++) wrong |= (abs(w[c]) + abs(other[c]) > EXACT) | (w[c] > INT8_MAX);
    return wrong == 0;
}

static bool depth_is_byte(const int32_t *w, int64_t n) {
    int wrong = 0;
    for (int64_t c = 0; c < n; c++) wrong |= (w[c] > INT8_MAX) | (w[c] < INT8_MIN);
    return wrong == 0;
}

/* The same by columns: at[i*4 + t] for row t of column i. */
static void depth_point_columns(const depth *d, const uint8_t *x, const int64_t *rows, int64_t o, int64_t n,
                                const uint8_t **at) {
    const nck_qconv_args *a = d->j->a;
    int last = a->n_spatial - 1;
    int64_t from = o * d->next - a->pad[last], in = a->in[last];
    for (int64_t i = from; i < from + (n - 1) * d->next + SIDE; i++, at += 4) {
        for (int t = 0; t < SIDE; t++) at[t] = rows[t] >= 0 && i >= 0 && i < in ? x + (rows[t] + i) * a->C : d->zeros;
        at[SIDE] = d->zeros;
    }
}

/* Quads from place to place, see depth. */
static int64_t depth_next(const depth *d) {
    const nck_qconv_args *a = d->a;
    int last = a->n_spatial - 1;
    int64_t stride = a->stride[last];
    bool columns = d->u->depth_form != NCK_DEPTH_PAIRS && d->taps == SIDE * SIDE && a->window[last] == SIDE;
    return columns && a->dilation[last] == 1 && stride < SIDE ? stride : d->quads;
}

/* Do the channels of the width that begins at `first` stand twice? */
static bool depth_twice(const depth *d, int64_t first) {
    return d->u->depth_twice && 2 * (d->a->C - first) <= d->width;
}

/* Weights as the kernel wants them; false: they do not fit it. A last tap without a neighbour has itself for one. */
static bool depth_weave(depth *d) {
    int64_t C = d->a->C, width = d->width, bytes = d->quads * 4 * width, place[NCK_IGEMM_MAX_DEPTH];
    nck_depth_form form = d->u->depth_form;
    if (width == 0) return false;
    for (int64_t t = 0; t < d->taps; t++) {
        const int32_t *w = d->w + t * d->ld, *other = t % 2 == 1 ? w - d->ld : t + 1 < d->taps ? w + d->ld : w;
        if (form == NCK_DEPTH_PAIRS ? !depth_is_exact(w, other, C) : !depth_is_byte(w, C)) return false;
    }
    memset(d->woven, 0, (size_t)(d->ld * d->quads * 4));
    for (int64_t c = 0; c < width; c++) place[c] = nck_igemm_weave(form, 0, c, width);
    for (int64_t t = 0; t < d->taps; t++) {
        bool columns = d->next < d->quads;
        int64_t quad = columns ? t % SIDE : t / 4, lane = columns ? t / SIDE : t % 4;
        int8_t *to = d->woven + quad * 4 * width + nck_igemm_weave(form, lane, 0, width);
        const int32_t *w = d->w + t * d->ld;
        for (int64_t first = 0; first < C; first += width, to += bytes)
            for (int64_t c = 0; c < nc_min64(width, C - first); c++) {
                to[place[c]] = (int8_t)w[first + c];
                if (depth_twice(d, first)) to[place[c + width / 2]] = to[place[c]];
            }
    }
    return true;
}

/* Offsets and scales in the order of the sums; x is uint8 there, for dots int8. */
static bool depth_by_fours(depth *d) {
    const nck_qconv_args *a = d->j->a;
    int nr = d->u->nr;
    float most = (float)d->taps * 128 * 128;
    d->near = most < SMALL;
    if (a->y.type != NC_UINT8 && a->y.type != NC_INT8) return false;
    memset(d->scale, 0, (size_t)d->ld * sizeof *d->scale); /* whatever stands there may be slow to multiply */
    memset(d->offset, 0, (size_t)d->ld * sizeof *d->offset);
    uint32_t moved = depth_flip(d) == 0 ? 0 : d->u->depth_form == NCK_DEPTH_DOTS ? (uint32_t)-128 : 128;
    for (int64_t first = 0; first < a->C; first += nr) {
        const nck_igemm_columns *k = &d->columns[first / nr];
        if (!k->finite) return false;
        for (int64_t c = first; c < nc_min64(first + nr, a->C); c++) {
            int64_t from = c & ~(d->width - 1), to = from + nck_igemm_sum_at(d->u->depth_form, c - from, d->width);
            d->offset[to] = (int32_t)((uint32_t)k->offset[c - first] - moved * (uint32_t)d->sums[c]);
            d->scale[to] = k->scale[c - first];
            if (depth_twice(d, from)) {
                int64_t twin = from + nck_igemm_sum_at(d->u->depth_form, c - from + d->width / 2, d->width);
                d->offset[twin] = d->offset[to], d->scale[twin] = d->scale[to];
            }
            float sum = most + fabsf((float)d->offset[to]);
            d->near = d->near && sum < 2 * SMALL && sum * fabsf(d->scale[to]) < NEAR;
        }
    }
    return true;
}

static void depth_row_by_fours(const depth *d, const uint8_t *x, const int64_t *rows, int64_t row, uint8_t *y) {
    const nck_qconv_args *a = d->j->a;
    int64_t width = a->out[a->n_spatial - 1], step = d->quads * 4;
    const uint8_t *at[PLACES * (NCK_QCONV_TAPS + 3)];
    for (int64_t o = 0; o < width; o += PLACES) {
        int64_t n = nc_min64(PLACES, width - o);
        if (d->next < d->quads)
            depth_point_columns(d, x, rows, o, n, at);
        else
            depth_point(d, x, rows, o, n, step, at);
        for (int64_t c = 0; c < a->C; c += d->width)
            d->u->depthwise(&(nck_igemm_depth){.quads = d->quads,
                                               .next = d->next,
                                               .c = c,
                                               .cols = nc_min64(d->width, a->C - c),
                                               .ld = a->K,
                                               .flip = depth_flip(d),
                                               .is_signed = a->y.type == NC_INT8,
                                               .near = d->near,
                                               .zero = a->y.y_zero,
                                               .w = d->woven + c * step,
                                               .offset = d->offset + c,
                                               .scale = d->scale + c},
                            n, at, y + (row * width + o) * a->K + c);
    }
}

/* ---- the convolution ---- */

/* One output row of one image. */
static void depth_item(void *ctx, int64_t item) {
    const depth *d = ctx;
    const nck_qconv_args *a = d->j->a;
    int last = a->n_spatial - 1;
    int64_t width = a->out[last], n_rows = d->j->places / width, i = item / n_rows, row = item % n_rows;
    int64_t rows[NCK_QCONV_TAPS];
    const uint8_t *at[PLACES * NCK_QCONV_TAPS], *x = (const uint8_t *)a->x + i * d->j->plane * a->C;
    nck_igemm_out out = a->y;
    out.c = (char *)a->y.c + i * d->j->places * a->K * (int64_t)nc_dtype_bytes(a->y.type);
    out.c_rs = a->K, out.c_cs = 1;
    for (int64_t t = 0; t < d->taps / a->window[last]; t++) rows[t] = nck_qconv_row(a, row, t);
    if (d->woven != NULL) {
        depth_row_by_fours(d, x, rows, row, out.c);
        return;
    }
    for (int64_t o = 0, n; o < width; o += n) {
        n = nc_min64(nc_min64(PLACES, d->u->mr), width - o);
        depth_point(d, x, rows, o, n, d->taps, at);
        for (int64_t c = 0; c < a->C; c += d->u->nr) depth_tile(d, at, n, c, row * width + o, &out);
    }
}

/* Weights laid out at `packed`, or to be. */
static depth depth_of(const nck_qconv_args *a, int64_t taps, depth_head *packed) {
    depth d = {.a = a, .u = nck_isa_get()->igemm, .taps = taps, .ld = depth_ld(a->C), .quads = depth_quads(taps)};
    d.width = d.u->depth_width, d.next = depth_next(&d);
    d.w = (int32_t *)(packed + 1), d.sums = d.w + taps * d.ld, d.woven = (int8_t *)(d.sums + d.ld);
    return d;
}

void nck_qconv_depth_pack(const nck_qconv_args *a, int64_t taps, void *dst) {
    depth_head *head = dst;
    depth d = depth_of(a, taps, head);
    depth_weights(&d);
    memset(head, 0, sizeof *head);
    head->woven = depth_weave(&d);
}

static bool depth_is_packed(const nck_qconv_args *a) {
    for (int64_t k = 0; k < a->w_zeros && a->w_packed; k++)
        if (depth_number(a->w_type, a->w_zero, k) != 0) return false;
    return a->w_packed != NULL;
}

void nck_qconv_depthwise(const nck_qconv_job *j, int64_t taps, char *room, nc_pool *pool) {
    const nck_qconv_args *a = j->a;
    bool packed = depth_is_packed(a);
    depth_head *head = (depth_head *)(packed ? (char *)(uintptr_t)a->w_packed : room);
    if (!packed) nck_qconv_depth_pack(a, taps, head);
    room += nck_qconv_depth_packed_bytes(a->C, taps);
    depth d = depth_of(a, taps, head);
    int32_t x_zero = depth_number(a->x_type, a->x_zero, 0);
    d.j = j;
    d.columns = (nck_igemm_columns *)room, room += depth_columns(a->C);
    d.offset = (int32_t *)room, d.scale = (float *)(d.offset + d.ld), d.zeros = (uint8_t *)(d.scale + d.ld);
    memset(d.zeros, a->x_zero ? *(const uint8_t *)a->x_zero : 0, (size_t)d.ld);
    for (int64_t c = 0; c < a->C; c += d.u->nr)
        d.u->columns(&a->y, c, nc_min64(d.u->nr, a->C - c), x_zero, INFINITY, d.sums + c, &d.columns[c / d.u->nr]);
    if (!head->woven || !depth_by_fours(&d)) d.woven = NULL;
    nc_parallel(pool, a->N * (j->places / a->out[a->n_spatial - 1]), depth_item, &d);
}
