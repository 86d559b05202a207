/* kernels/cpu/move/convert.c: the copy that changes the element type, see move.h.
 * Elements go in chunks through one of three wide types: floats through double, signed integers through int64,
 * unsigned and bool through uint64. All are exact, so one rounding remains, at the store. Narrow elements are read
 * through a table of their values and written by base/narrow.h. Dense rows of the pairs that models cast between most
 * go from one type to the other at once. The loops are those of tiles, but for floats to integers. */
#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/quant/linear_kernel.h"
#include "kernels/cpu/tile_table.h"

#include <string.h>

enum { CHUNK = 256, ITEM = 1 << 14, STEP = 64 };

typedef union wide {
    double f[CHUNK];
    int64_t i[CHUNK];
    uint64_t u[CHUNK];
} wide;

typedef struct convert_job {
    const nck_walk *walk;
    int64_t rows, row, ss, ds, piece, n_pieces, per_item;
    const nc_tensor *src, *dst;
    nc_narrowing how;
    nck_tile_dense_fn direct; /* NULL: there is none */
    float values[256];        /* of src's codes, where it is a narrow float */
} convert_job;

static int64_t f_to_i(double v, double low, double high) {
    return v != v ? 0 : v <= low ? (int64_t)low : v >= high ? (int64_t)high : (int64_t)v;
}
/* 2^63 is no int64: the ends of 64-bit types are written out. */
static int64_t f_to_i64(double v) {
    return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}
static uint64_t f_to_u64(double v) { return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v; }

#define EACH(expr) \
    for (int64_t k = 0; k < n; k++) expr

/* What holds a lane's numbers; bytes become the same bits in both kinds of integers. */
static nc_dtype wide_of(char lane, nc_dtype t) {
    if (lane == 'f') return NC_DOUBLE;
    return lane == 'i' || t == NC_UINT8 || t == NC_BOOL ? NC_INT64 : NC_UINT64;
}

static void convert_load(nc_dtype t, char lane, const void *src, int64_t at, int64_t s, int64_t n, wide *w) {
    const char *p = (const char *)src + at * (int64_t)nc_dtype_bytes(t);
    nck_tile_dense_fn dense = s == 1 ? nck_tile_dense_get(t, wide_of(lane, t)) : NULL;
    if (dense != NULL)
        dense(w, p, n);
    else
        nck_tile_load_get(wide_of(lane, t), t)(w, p, s, n);
}

static void convert_load_narrow(const convert_job *j, int64_t at, int64_t n, wide *w) {
    nc_dtype t = j->src->dtype;
    const void *p = j->src->data;
    int64_t s = j->ss;
    char c = nc_dtype_class(t);
    if (c == 'N')
        EACH(w->f[k] = (double)j->values[nc_narrow_load(t, p, at + k * s)]);
    else if (c == 'I')
        EACH(w->i[k] = nc_narrow_to_int(t, nc_narrow_load(t, p, at + k * s)));
    else
        EACH(w->u[k] = nc_narrow_load(t, p, at + k * s));
}

/* Floats to the integers whose ends are not those that tiles know. */
#define STORE_INT(NAME, T, low, high)                   \
    case NC_##NAME: {                                   \
        T *p = dst;                                     \
        EACH(p[k * s] = (T)f_to_i(w->f[k], low, high)); \
        return true;                                    \
    }

static bool convert_store_f(nc_dtype t, const wide *w, void *dst, int64_t s, int64_t n) {
    uint64_t *u = dst;
    uint16_t *h = dst;
    switch (t) {
        STORE_INT(INT8, int8_t, INT32_MIN, INT32_MAX)
        STORE_INT(INT16, int16_t, INT32_MIN, INT32_MAX)
        STORE_INT(INT32, int32_t, INT32_MIN, INT32_MAX)
        STORE_INT(UINT8, uint8_t, INT32_MIN, INT32_MAX)
        STORE_INT(UINT16, uint16_t, INT32_MIN, INT32_MAX)
        STORE_INT(UINT32, uint32_t, 0, UINT32_MAX)
    case NC_UINT64: EACH(u[k * s] = f_to_u64(w->f[k])); return true;
    case NC_BFLOAT16: EACH(h[k * s] = nc_f32_to_bf16((float)w->f[k])); return true;
    default: return false;
    }
}

static void convert_store(nc_dtype t, char lane, const wide *w, void *dst, int64_t at, int64_t s, int64_t n) {
    char *p = (char *)dst + at * (int64_t)nc_dtype_bytes(t), c = nc_dtype_class(t);
    if (lane == 'f' && convert_store_f(t, w, p, s, n)) return;
    nc_dtype from = lane == 'u' && c == 'F' ? NC_UINT64 : wide_of(lane, NC_BOOL);
    nck_tile_dense_fn dense = s == 1 ? nck_tile_dense_get(from, t) : NULL;
    if (dense != NULL)
        dense(p, w, n);
    else
        nck_tile_store_get(from, t)(p, s, w, n);
}

static void convert_store_narrow(const convert_job *j, char from, const wide *w, int64_t at, int64_t n) {
    nc_dtype t = j->dst->dtype;
    void *p = j->dst->data;
    int64_t s = j->ds;
    uint8_t mask = (uint8_t)((1u << nc_dtype_bits(t)) - 1);
    if (from == 'f')
        EACH(nc_narrow_store(t, p, at + k * s, nc_f64_to_narrow(t, w->f[k], j->how)));
    else if (nc_dtype_class(t) != 'N')
        EACH(nc_narrow_store(t, p, at + k * s, (uint8_t)(w->u[k] & mask)));
    else if (from == 'i')
        EACH(nc_narrow_store(t, p, at + k * s, nc_f64_to_narrow(t, (double)w->i[k], j->how)));
    else
        EACH(nc_narrow_store(t, p, at + k * s, nc_f64_to_narrow(t, (double)w->u[k], j->how)));
}

/* ---- at once ---- */

/* What fits 32 bits, as nearly all does, goes through them: vectors know no other way. Sizes are compared by their
 * bits, which puts infinities and NaN above all numbers. */
static void i64_of_f32(void *dst, const void *src, int64_t n) {
    const float *restrict x = src;
    int64_t *restrict y = dst;
    for (; n >= STEP; n -= STEP, x += STEP, y += STEP) {
        const uint32_t too_large = 0x4f000000; /* 2^31 */
        uint32_t most = 0;
        for (int k = 0; k < STEP; k++) {
            uint32_t bits;
            memcpy(&bits, x + k, sizeof bits);
            bits &= 0x7fffffff;
            most = bits > most ? bits : most;
        }
        if (most < too_large)
            for (int k = 0; k < STEP; k++) y[k] = (int32_t)x[k];
        else
            for (int k = 0; k < STEP; k++) y[k] = f_to_i64((double)x[k]);
    }
    EACH(y[k] = f_to_i64((double)x[k]));
}

/* Bytes are codes of scale 1. */
static void f32_of_u8(void *y, const void *x, int64_t n) {
    nck_isa_get()->linear->dequantize(x, n, (nck_linear_one){.scale = 1}, y);
}
static void f32_of_i8(void *y, const void *x, int64_t n) {
    nck_isa_get()->linear->dequantize(x, n, (nck_linear_one){.scale = 1, .low = INT8_MIN}, y);
}

static nck_tile_dense_fn direct_of(nc_dtype from, nc_dtype to) {
    const nck_whole_table *whole = nck_isa_get()->whole;
    if (from == NC_FLOAT && to == NC_INT64) return i64_of_f32;
    if (from == NC_FLOAT && to == NC_INT32) return whole->i32_of_f32;
    if (from == NC_FLOAT && (to == NC_INT8 || to == NC_UINT8)) return whole->i8_of_f32;
    if (from == NC_UINT8 && to == NC_FLOAT) return f32_of_u8;
    if (from == NC_INT8 && to == NC_FLOAT) return f32_of_i8;
    return nck_tile_dense_get(from, to);
}

static char lane_of(nc_dtype t) {
    char c = nc_dtype_class(t);
    return c == 'F' || c == 'N' ? 'f' : c == 'I' ? 'i' : 'u';
}

/* Elements [e, stop) of the row that begins at these offsets. */
static void convert_directly(const convert_job *j, const int64_t *offset, int64_t e, int64_t stop) {
    const char *src = (const char *)j->src->data + (offset[0] + e) * (int64_t)nc_dtype_bytes(j->src->dtype);
    char *dst = (char *)j->dst->data + (offset[1] + e) * (int64_t)nc_dtype_bytes(j->dst->dtype);
    j->direct(dst, src, stop - e);
}

static void convert_item(void *ctx, int64_t item) {
    const convert_job *j = ctx;
    int64_t at = item * j->per_item, end = nc_min64(at + j->per_item, j->rows * j->n_pieces);
    nck_walk_at w;
    char lane = lane_of(j->src->dtype);
    wide buffer;
    nck_walk_start(&w, j->walk, at / j->n_pieces);
    for (int64_t p = at % j->n_pieces; at < end; at++) {
        int64_t stop = nc_min64((p + 1) * j->piece, j->row);
        if (j->direct != NULL) convert_directly(j, w.offset, p * j->piece, stop);
        for (int64_t e = p * j->piece; e < stop && j->direct == NULL; e += CHUNK) {
            int64_t n = nc_min64(CHUNK, stop - e);
            if (nc_dtype_is_narrow(j->src->dtype))
                convert_load_narrow(j, w.offset[0] + e * j->ss, n, &buffer);
            else
                convert_load(j->src->dtype, lane, j->src->data, w.offset[0] + e * j->ss, j->ss, n, &buffer);
            if (nc_dtype_is_narrow(j->dst->dtype))
                convert_store_narrow(j, lane, &buffer, w.offset[1] + e * j->ds, n);
            else
                convert_store(j->dst->dtype, lane, &buffer, j->dst->data, w.offset[1] + e * j->ds, j->ds, n);
        }
        if (++p == j->n_pieces) {
            p = 0;
            nck_walk_next(&w);
        }
    }
}

static bool is_plain(nc_dtype t) {
    char c = nc_dtype_class(t);
    return c == 'F' || c == 'N' || c == 'I' || c == 'U' || c == 'B';
}

/* Bits after the last element are 0. */
static void clear_tail(const nc_tensor *t) {
    size_t bytes;
    if (nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes) && bytes > 0) ((char *)t->data)[bytes - 1] = 0;
}

nc_code nck_convert(const nc_tensor *src, const nc_tensor *dst, nc_pool *pool) {
    return nck_convert_how(src, dst, (nc_narrowing){.saturate = true, .round = NC_ROUND_UP}, pool);
}

nc_code nck_convert_how(const nc_tensor *src, const nc_tensor *dst, nc_narrowing how, nc_pool *pool) {
    size_t es = nc_dtype_bytes(src->dtype);
    bool packed = nc_dtype_is_packed(dst->dtype);
    if (src->dtype == dst->dtype && packed) {
        nck_copy_packed(src, dst, pool);
        return NC_OK;
    }
    if (src->dtype == dst->dtype && es > 0) {
        nck_copy(src->rank, src->dims, es, src->data, src->strides, dst->data, dst->strides, pool);
        return NC_OK;
    }
    if (!is_plain(src->dtype) || !is_plain(dst->dtype)) return NC_E_UNSUPPORTED;
    if (nc_tensor_numel(src) == 0) return NC_OK;
    int64_t dims[NC_MAX_RANK], strides[2][NC_MAX_RANK];
    for (int d = 0; d < src->rank; d++) {
        dims[d] = src->dims[d];
        strides[0][d] = src->strides[d];
        strides[1][d] = dst->strides[d];
    }
    int rank = nc_coalesce(src->rank, dims, 2, strides);
    convert_job j = {
        .src = src, .dst = dst, .row = dims[rank - 1], .ss = strides[0][rank - 1], .ds = strides[1][rank - 1]};
    j.how = how;
    j.direct = j.ss == 1 && j.ds == 1 ? direct_of(src->dtype, dst->dtype) : NULL;
    for (unsigned k = 0; nc_dtype_class(src->dtype) == 'N' && k < 1u << nc_dtype_bits(src->dtype); k++)
        j.values[k] = nc_narrow_to_f32(src->dtype, (uint8_t)k);
    if (packed) clear_tail(dst);
    nck_walk walk;
    nck_walk_init(&walk, rank - 1, dims, 2, strides);
    j.walk = &walk;
    j.rows = nck_walk_rows(&walk);
    j.piece = nc_min64(j.row, ITEM);
    j.n_pieces = nc_ceil_div(j.row, j.piece);
    j.per_item = nc_max64(1, ITEM / j.piece);
    if (packed && j.rows > 1) pool = NULL; /* rows may share bytes; pieces of a row do not */
    nc_parallel(pool, nc_ceil_div(j.rows * j.n_pieces, j.per_item), convert_item, &j);
    return NC_OK;
}
