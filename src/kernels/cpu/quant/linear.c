/* kernels/cpu/quant/linear.c: quantize and dequantize, see linear.h. Elements are cut into flat chunks, at whole
 * bytes of packed data; no element depends on where. Between f32 and 8-bit integers runs of a chunk go to
 * linear.simd.c, int32 to f32 has a loop here; everything else goes through doubles. */
#include "kernels/cpu/quant/linear.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/quant/linear_kernel.h"

#include <math.h>

enum { CHUNK = 1024, ITEM = 1 << 14, LEAST = 1 << 12, RANGES = 64 };

typedef struct place {
    int64_t at;  /* of the scale */
    int64_t run; /* elements from here on that have the same, or whose scales follow one another */
    bool steps;  /* the latter */
} place;

static place linear_place_of(const nck_linear *a, int64_t i) {
    int64_t in = i % a->inner, ax = i / a->inner % a->axis, o = i / a->inner / a->axis;
    place p = {.at = o * a->s_outer + ax / a->block * a->s_axis + in * a->s_inner, .run = a->inner - in};
    if (a->s_inner)
        p.steps = true;
    else if (a->inner == 1 && a->block == 1 && a->s_axis == 1)
        p.steps = true, p.run = a->axis - ax;
    else if (!a->s_axis && !a->s_outer)
        p.run = INT64_MAX;
    else if (a->block > 1)
        p.run += (nc_min64(a->axis, (ax / a->block + 1) * a->block) - ax - 1) * a->inner;
    return p;
}

/* ---- f32 and 8-bit integers ---- */

static bool is_byte(nc_dtype t) { return t == NC_UINT8 || t == NC_INT8; }

static nck_linear_one one_at(const nck_linear *a, int64_t at, nc_dtype code) {
    return (nck_linear_one){(float)a->scale[at], (int)a->zero[at], code == NC_INT8 ? INT8_MIN : 0};
}

static nck_linear_each each_from(const nck_linear *a, int64_t at, nc_dtype code) {
    return (nck_linear_each){a->scale + at, a->zero + at, code == NC_INT8 ? INT8_MIN : 0};
}

static void quantize_bytes(const nck_linear *a, int64_t i, int64_t end) {
    const nck_linear_table *t = nck_isa_get()->linear;
    for (int64_t n; i < end; i += n) {
        place p = linear_place_of(a, i);
        n = nc_min64(p.run, end - i);
        if (p.steps)
            t->quantize_each((const float *)a->x + i, n, each_from(a, p.at, a->y_type), (uint8_t *)a->y + i);
        else
            t->quantize((const float *)a->x + i, n, one_at(a, p.at, a->y_type), (uint8_t *)a->y + i);
    }
}

static void dequantize_bytes(const nck_linear *a, int64_t i, int64_t end) {
    const nck_linear_table *t = nck_isa_get()->linear;
    for (int64_t n; i < end; i += n) {
        place p = linear_place_of(a, i);
        n = nc_min64(p.run, end - i);
        if (p.steps)
            t->dequantize_each((const uint8_t *)a->x + i, n, each_from(a, p.at, a->x_type), (float *)a->y + i);
        else
            t->dequantize((const uint8_t *)a->x + i, n, one_at(a, p.at, a->x_type), (float *)a->y + i);
    }
}

/* As dequantize_chunk has it, without the doubles in memory. */
static void dequantize_words(const nck_linear *a, int64_t i, int64_t end) {
    while (i < end) {
        place p = linear_place_of(a, i);
        for (int64_t stop = p.run < end - i ? i + p.run : end; i < stop; i++, p.at += p.steps)
            ((float *)a->y)[i] = (float)(((const int32_t *)a->x)[i] - a->zero[p.at]) * (float)a->scale[p.at];
    }
}

/* ---- all types ---- */

/* Elements [i, i+n) of dense data; i is a multiple of 8. */
static void part(nc_dtype t, const void *data, int64_t i, int64_t n, nc_tensor *out) {
    nc_tensor_set(out, (char *)(uintptr_t)data + i / 8 * nc_dtype_bits(t) + i % 8 * nc_dtype_bits(t) / 8, t, 1);
    out->dims[0] = n;
    out->strides[0] = 1;
}

static double in_precision(nc_dtype t, double q) {
    switch (t) {
    case NC_FLOAT16: return (double)nc_f16_to_f32(nc_f64_to_f16(q));
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(nc_f32_to_bf16((float)q));
    case NC_FLOAT: return (double)(float)q;
    default: return q;
    }
}

static bool is_integer(nc_dtype t) { return nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U'; }

static void ends(nc_dtype t, double *low, double *high) {
    double n = ldexp(1, (int)nc_dtype_bits(t));
    *low = nc_dtype_class(t) == 'I' ? -n / 2 : 0;
    *high = *low + n - 1;
}

static void quantize_chunk(const nck_linear *a, int64_t i, int64_t n) {
    double v[CHUNK], low = 0, high = 0;
    bool integer = is_integer(a->y_type);
    nc_tensor x, y, wide;
    part(a->x_type, a->x, i, n, &x);
    part(a->y_type, a->y, i, n, &y);
    part(NC_DOUBLE, v, 0, n, &wide);
    if (nck_convert(&x, &wide, NULL) != NC_OK) return;
    if (integer) ends(a->y_type, &low, &high);
    for (int64_t k = 0; k < n;) {
        place p = linear_place_of(a, i + k);
        for (int64_t end = p.run < n - k ? k + p.run : n; k < end; k++, p.at += p.steps) {
            double q = in_precision(a->precision, v[k] / a->scale[p.at]);
            if (integer) q = q == q ? rint(q) : 0;
            q += a->zero[p.at];
            v[k] = !integer ? q : q < low ? low : q > high ? high : q;
        }
    }
    if (nck_convert_how(&wide, &y, a->how, NULL) != NC_OK) return;
}

static void dequantize_chunk(const nck_linear *a, int64_t i, int64_t n) {
    double v[CHUNK];
    nc_tensor x, y, wide;
    part(a->x_type, a->x, i, n, &x);
    part(a->y_type, a->y, i, n, &y);
    part(NC_DOUBLE, v, 0, n, &wide);
    if (nck_convert(&x, &wide, NULL) != NC_OK) return;
    for (int64_t k = 0; k < n;) {
        place p = linear_place_of(a, i + k);
        for (int64_t end = p.run < n - k ? k + p.run : n; k < end; k++, p.at += p.steps)
            v[k] = (double)((float)(v[k] - a->zero[p.at]) * (float)a->scale[p.at]);
    }
    if (nck_convert(&wide, &y, NULL) != NC_OK) return;
}

static int64_t linear_count(const nck_linear *a) { return a->outer * a->axis * a->inner; }

static int64_t item_of(const nc_pool *pool, int64_t n) {
    return nc_round_up(nc_pool_item(pool, n, LEAST, ITEM), CHUNK);
}

typedef struct linear_job {
    const nck_linear *a;
    int64_t n, item; /* elements of all, and of an item */
} linear_job;

static void quantize_item(void *ctx, int64_t item) {
    const linear_job *j = ctx;
    const nck_linear *a = j->a;
    int64_t i = item * j->item, end = nc_min64(i + j->item, j->n);
    if (a->x_type == NC_FLOAT && a->precision == NC_FLOAT && is_byte(a->y_type)) {
        quantize_bytes(a, i, end);
        return;
    }
    for (; i < end; i += CHUNK) quantize_chunk(a, i, nc_min64(CHUNK, end - i));
}

static void dequantize_item(void *ctx, int64_t item) {
    const linear_job *j = ctx;
    const nck_linear *a = j->a;
    int64_t i = item * j->item, end = nc_min64(i + j->item, j->n);
    if (is_byte(a->x_type) && a->y_type == NC_FLOAT) {
        dequantize_bytes(a, i, end);
        return;
    }
    if (a->x_type == NC_INT32 && a->y_type == NC_FLOAT) {
        dequantize_words(a, i, end);
        return;
    }
    for (; i < end; i += CHUNK) dequantize_chunk(a, i, nc_min64(CHUNK, end - i));
}

static void run_linear(const nck_linear *a, void (*fn)(void *ctx, int64_t item), nc_pool *pool) {
    linear_job j = {.a = a, .n = linear_count(a)};
    pool = nc_pool_for(pool, j.n);
    j.item = item_of(pool, j.n);
    nc_parallel(pool, nc_ceil_div(j.n, j.item), fn, &j);
}

void nck_quantize(const nck_linear *a, nc_pool *pool) { run_linear(a, quantize_item, pool); }

void nck_dequantize(const nck_linear *a, nc_pool *pool) { run_linear(a, dequantize_item, pool); }

/* ---- sums of codes ---- */

typedef struct add_job {
    int64_t n, item;
    const uint8_t *a, *b;
    uint8_t *y;
    nck_linear_sum s;
} add_job;

static void add_item(void *ctx, int64_t item) {
    const add_job *j = ctx;
    int64_t i = item * j->item, n = nc_min64(j->item, j->n - i);
    nck_isa_get()->linear->add(j->a + i, j->b + i, n, &j->s, j->y + i);
}

void nck_add_codes(nc_dtype type, int64_t n, const void *a, nck_codes pa, const void *b, nck_codes pb, void *y,
                   nck_codes py, nc_pool *pool) {
    pool = nc_pool_for(pool, n);
    add_job j = {.n = n, .item = item_of(pool, n), .a = a, .b = b, .y = y};
    if (nck_linear_sum_of(type, pa, pb, py, &j.s))
        nc_parallel(pool, nc_ceil_div(n, j.item), add_item, &j);
    else
        nck_add_codes_ref(type, n, a, pa, b, pb, y, py);
}

/* ---- maps of codes ---- */

typedef struct map_job {
    int64_t n, item;
    const uint8_t *x, *table;
    uint8_t *y;
} map_job;

static void map_item(void *ctx, int64_t item) {
    const map_job *j = ctx;
    int64_t i = item * j->item, n = nc_min64(j->item, j->n - i);
    nck_isa_get()->linear->map(j->x + i, n, j->table, j->y + i);
}

void nck_map_codes(int64_t n, const uint8_t *x, const uint8_t *table, uint8_t *y, nc_pool *pool) {
    pool = nc_pool_for(pool, n);
    map_job j = {.n = n, .item = item_of(pool, n), .x = x, .table = table, .y = y};
    nc_parallel(pool, nc_ceil_div(n, j.item), map_item, &j);
}

/* ---- ranges ---- */

typedef struct range_job {
    const float *x;
    int64_t n, n_parts;
    float low[RANGES], high[RANGES];
} range_job;

static void range_item(void *ctx, int64_t i) {
    range_job *j = ctx;
    int64_t from = j->n * i / j->n_parts, end = j->n * (i + 1) / j->n_parts;
    nck_isa_get()->linear->range(j->x + from, end - from, &j->low[i], &j->high[i]);
}

void nck_range_f32(const float *x, int64_t n, float *low, float *high, nc_pool *pool) {
    range_job j = {.x = x, .n = n, .n_parts = nc_min64(RANGES, nc_max64(1, nc_ceil_div(n, ITEM)))};
    nc_parallel(pool, j.n_parts, range_item, &j);
    *low = 0, *high = 0;
    for (int64_t i = 0; i < j.n_parts; i++) {
        *low = j.low[i] < *low ? j.low[i] : *low;
        *high = j.high[i] > *high ? j.high[i] : *high;
    }
}

void nck_quantize_dynamic(const float *x, int64_t n, uint8_t *codes, float *scale, uint8_t *zero, nc_pool *pool) {
    float low, high;
    nck_range_f32(x, n, &low, &high, pool);
    *scale = low == high ? 1 : (high - low) / 255;
    *zero = (uint8_t)rintf(fminf(fmaxf(0 - low / *scale, 0), 255));
    if (codes == NULL) return;
    nck_quantize(&(nck_linear){.outer = 1,
                               .axis = n,
                               .inner = 1,
                               .block = 1,
                               .scale = &(double){(double)*scale},
                               .zero = &(double){*zero},
                               .x_type = NC_FLOAT,
                               .y_type = NC_UINT8,
                               .x = x,
                               .y = codes,
                               .precision = NC_FLOAT},
                 pool);
}
