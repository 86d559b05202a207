/* kernels/cpu/move/convert.c: the copy that changes the element type, see move.h.
 * Elements go in chunks through one of three wide types: floats through double, signed integers through int64,
 * unsigned and bool through uint64. All are exact, so one rounding remains, at the store. Narrow elements are read
 * through a table of their values and written by base/narrow.h. Dense rows of the pairs that models cast between most
 * go from one type to the other at once. */
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

/* n elements, dense on both sides. */
typedef void direct_fn(const void *src, void *dst, int64_t n);

typedef struct convert_job {
    const nck_walk *walk;
    int64_t rows, row, ss, ds, piece, n_pieces, per_item;
    const nc_tensor *src, *dst;
    nc_narrowing how;
    direct_fn *direct; /* NULL: there is none */
    float values[256]; /* of src's codes, where it is a narrow float */
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
#define LOAD(NAME, T, lane, expr)         \
    case NC_##NAME: {                     \
        const T *p = (const T *)src + at; \
        EACH(w->lane[k] = (expr));        \
        return;                           \
    }

static void convert_load(nc_dtype t, const void *src, int64_t at, int64_t s, int64_t n, wide *w) {
    switch (t) {
        LOAD(FLOAT, float, f, (double)p[k * s])
        LOAD(DOUBLE, double, f, p[k * s])
        LOAD(FLOAT16, uint16_t, f, (double)nc_f16_to_f32(p[k * s]))
        LOAD(BFLOAT16, uint16_t, f, (double)nc_bf16_to_f32(p[k * s]))
        LOAD(INT8, int8_t, i, p[k * s])
        LOAD(INT16, int16_t, i, p[k * s])
        LOAD(INT32, int32_t, i, p[k * s])
        LOAD(INT64, int64_t, i, p[k * s])
        LOAD(UINT8, uint8_t, u, p[k * s])
        LOAD(UINT16, uint16_t, u, p[k * s])
        LOAD(UINT32, uint32_t, u, p[k * s])
        LOAD(UINT64, uint64_t, u, p[k * s])
        LOAD(BOOL, uint8_t, u, p[k * s] != 0)
    default: return;
    }
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

/* A store to one type from each of the three lanes; `from` is the lane's letter. */
#define STORE(NAME, T, of_f, of_i, of_u) \
    case NC_##NAME: {                    \
        T *p = (T *)dst + at;            \
        if (from == 'f')                 \
            EACH(p[k * s] = (of_f));     \
        else if (from == 'i')            \
            EACH(p[k * s] = (of_i));     \
        else                             \
            EACH(p[k * s] = (of_u));     \
        return;                          \
    }
#define STORE_INT(NAME, T, low, high) STORE(NAME, T, (T)f_to_i(w->f[k], low, high), (T)w->i[k], (T)w->u[k])

static void convert_store(nc_dtype t, char from, const wide *w, void *dst, int64_t at, int64_t s, int64_t n) {
    switch (t) {
        STORE(FLOAT, float, (float)w->f[k], (float)w->i[k], (float)w->u[k])
        STORE(DOUBLE, double, w->f[k], (double)w->i[k], (double)w->u[k])
        STORE(FLOAT16, uint16_t, nc_f64_to_f16(w->f[k]), nc_f64_to_f16((double)w->i[k]), nc_f64_to_f16((double)w->u[k]))
        STORE(BFLOAT16, uint16_t, nc_f32_to_bf16((float)w->f[k]), nc_f32_to_bf16((float)w->i[k]),
              nc_f32_to_bf16((float)w->u[k]))
        STORE_INT(INT8, int8_t, INT32_MIN, INT32_MAX)
        STORE_INT(INT16, int16_t, INT32_MIN, INT32_MAX)
        STORE_INT(INT32, int32_t, INT32_MIN, INT32_MAX)
        STORE(INT64, int64_t, f_to_i64(w->f[k]), w->i[k], (int64_t)w->u[k])
        STORE_INT(UINT8, uint8_t, INT32_MIN, INT32_MAX)
        STORE_INT(UINT16, uint16_t, INT32_MIN, INT32_MAX)
        STORE_INT(UINT32, uint32_t, 0, UINT32_MAX)
        STORE(UINT64, uint64_t, f_to_u64(w->f[k]), (uint64_t)w->i[k], w->u[k])
        STORE(BOOL, uint8_t, w->f[k] != 0, w->i[k] != 0, w->u[k] != 0)
    default: return;
    }
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

/* Steps of a known length become vectors. */
#define DIRECT(from, to, S, D, expr)                                 \
    static void from##_##to(const void *src, void *dst, int64_t n) { \
        const S *restrict x = src;                                   \
        D *restrict y = dst;                                         \
        for (; n >= STEP; n -= STEP, x += STEP, y += STEP)           \
            for (int k = 0; k < STEP; k++) y[k] = (expr);            \
        EACH(y[k] = (expr));                                         \
    }
DIRECT(FLOAT, INT32, float, int32_t, (int32_t)f_to_i((double)x[k], INT32_MIN, INT32_MAX))
DIRECT(FLOAT, BOOL, float, uint8_t, x[k] != 0)
DIRECT(INT64, FLOAT, int64_t, float, (float)x[k])
DIRECT(INT64, INT32, int64_t, int32_t, (int32_t)x[k])
DIRECT(INT32, FLOAT, int32_t, float, (float)x[k])
DIRECT(INT32, INT64, int32_t, int64_t, x[k])
DIRECT(BOOL, FLOAT, uint8_t, float, x[k] != 0 ? 1.0f : 0.0f)

/* What fits 32 bits, as nearly all does, goes through them: vectors know no other way. Sizes are compared by their
 * bits, which puts infinities and NaN above all numbers. */
static void FLOAT_INT64(const void *src, void *dst, int64_t n) {
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
static void UINT8_FLOAT(const void *x, void *y, int64_t n) {
    nck_isa_get()->linear->dequantize(x, n, (nck_linear_one){.scale = 1}, y);
}
static void INT8_FLOAT(const void *x, void *y, int64_t n) {
    nck_isa_get()->linear->dequantize(x, n, (nck_linear_one){.scale = 1, .low = INT8_MIN}, y);
}

static void FLOAT_FLOAT16(const void *x, void *y, int64_t n) { nck_isa_get()->tile->store_f16(y, x, n); }
static void FLOAT_BFLOAT16(const void *x, void *y, int64_t n) { nck_isa_get()->tile->store_bf16(y, x, n); }
static void FLOAT16_FLOAT(const void *x, void *y, int64_t n) { nck_isa_get()->tile->load_f16(y, x, n); }
static void BFLOAT16_FLOAT(const void *x, void *y, int64_t n) { nck_isa_get()->tile->load_bf16(y, x, n); }

static direct_fn *direct_of(nc_dtype from, nc_dtype to) {
#define PAIR(a, b) \
    { NC_##a, NC_##b, a##_##b }
    static const struct {
        nc_dtype from, to;
        direct_fn *fn;
    } pairs[] = {PAIR(FLOAT, FLOAT16), PAIR(FLOAT, BFLOAT16), PAIR(FLOAT16, FLOAT), PAIR(BFLOAT16, FLOAT),
                 PAIR(FLOAT, INT64),   PAIR(FLOAT, INT32),    PAIR(FLOAT, BOOL),    PAIR(INT64, FLOAT),
                 PAIR(INT64, INT32),   PAIR(INT32, FLOAT),    PAIR(INT32, INT64),   PAIR(UINT8, FLOAT),
                 PAIR(INT8, FLOAT),    PAIR(BOOL, FLOAT)};
#undef PAIR
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].from == from && pairs[i].to == to) return pairs[i].fn;
    return NULL;
}

static char lane_of(nc_dtype t) {
    char c = nc_dtype_class(t);
    return c == 'F' || c == 'N' ? 'f' : c == 'I' ? 'i' : 'u';
}

/* Elements [e, stop) of the row that begins at these offsets. */
static void convert_directly(const convert_job *j, const int64_t *offset, int64_t e, int64_t stop) {
    const char *src = (const char *)j->src->data + (offset[0] + e) * (int64_t)nc_dtype_bytes(j->src->dtype);
    char *dst = (char *)j->dst->data + (offset[1] + e) * (int64_t)nc_dtype_bytes(j->dst->dtype);
    j->direct(src, dst, stop - e);
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
                convert_load(j->src->dtype, j->src->data, w.offset[0] + e * j->ss, j->ss, n, &buffer);
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
