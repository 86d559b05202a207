/* kernels/cpu/reduce/along.c: see along.h. x is seen as (outer, n, inner), the axis in the middle; an item is a strip
 * of up to STRIP neighbouring lines, walked together row by row, so that memory is read in order. */
#include "kernels/cpu/reduce/along.h"

#include "base/intmath.h"

enum { STRIP = 64 };

typedef struct job {
    const void *x;
    void *out;
    int64_t n, inner, n_strips;
    bool smallest, last;
    bool product, exclusive, reverse;
} job;

/* The item's lines: x + *from, `width` of them side by side, rows `inner` apart. */
static int64_t strip_of(const job *j, int64_t item, int64_t *from, int64_t *first) {
    int64_t outer = item / j->n_strips, c = item % j->n_strips * STRIP;
    *from = outer * j->n * j->inner + c;
    *first = outer * j->inner + c;
    return j->inner - c < STRIP ? j->inner - c : STRIP;
}

#define IS_NAN_FLOAT(a) ((a) != (a))
#define IS_NAN_INT(a) false

#define ARG_ITEM(name, T, IS_NAN)                                                       \
    static void name(void *ctx, int64_t item) {                                         \
        const job *j = ctx;                                                             \
        int64_t from, first, width = strip_of(j, item, &from, &first);                  \
        const T *x = (const T *)j->x + from;                                            \
        int64_t *out = (int64_t *)j->out + first;                                       \
        T best[STRIP];                                                                  \
        for (int64_t i = 0; i < width; i++) best[i] = x[i], out[i] = 0;                 \
        for (int64_t k = 1; k < j->n; k++)                                              \
            for (int64_t i = 0; i < width; i++) {                                       \
                T v = x[k * j->inner + i], b = best[i];                                 \
                bool equal = v == b || (IS_NAN(v) && IS_NAN(b));                        \
                bool more = !IS_NAN(b) && (IS_NAN(v) || (j->smallest ? v < b : v > b)); \
                if (more || (equal && j->last)) best[i] = v, out[i] = k;                \
            }                                                                           \
    }
ARG_ITEM(arg_f32, float, IS_NAN_FLOAT)
ARG_ITEM(arg_f64, double, IS_NAN_FLOAT)
ARG_ITEM(arg_i32, int32_t, IS_NAN_INT)
ARG_ITEM(arg_i64, int64_t, IS_NAN_INT)
ARG_ITEM(arg_u64, uint64_t, IS_NAN_INT)

#define CUMULATE_ITEM(name, T, ACC)                                    \
    static void name(void *ctx, int64_t item) {                        \
        const job *j = ctx;                                            \
        int64_t from, first, width = strip_of(j, item, &from, &first); \
        const T *x = (const T *)j->x + from;                           \
        T *out = (T *)j->out + from;                                   \
        ACC acc[STRIP];                                                \
        for (int64_t i = 0; i < width; i++) acc[i] = j->product;       \
        for (int64_t k = 0; k < j->n; k++) {                           \
            int64_t row = (j->reverse ? j->n - 1 - k : k) * j->inner;  \
            for (int64_t i = 0; i < width; i++) {                      \
                ACC before = acc[i], v = (ACC)x[row + i];              \
                acc[i] = j->product ? before * v : before + v;         \
                out[row + i] = (T)(j->exclusive ? before : acc[i]);    \
            }                                                          \
        }                                                              \
    }
CUMULATE_ITEM(cumulate_f32, float, double)
CUMULATE_ITEM(cumulate_f64, double, double)
CUMULATE_ITEM(cumulate_i32, int32_t, uint64_t)
CUMULATE_ITEM(cumulate_i64, int64_t, uint64_t)

static const struct {
    nc_dtype type;
    void (*arg)(void *, int64_t), (*cumulate)(void *, int64_t);
} loops[] = {{NC_FLOAT, arg_f32, cumulate_f32},
             {NC_DOUBLE, arg_f64, cumulate_f64},
             {NC_INT32, arg_i32, cumulate_i32},
             {NC_INT64, arg_i64, cumulate_i64},
             {NC_UINT64, arg_u64, cumulate_i64}};
enum { N_LOOPS = sizeof loops / sizeof loops[0] };

/* Which loops; N_LOOPS: none. Fills in the job's sizes and the number of items. */
static int start(job *j, const nc_tensor *x, int axis, int64_t *n_items) {
    int type = 0;
    while (type < N_LOOPS && loops[type].type != x->dtype) type++;
    int64_t outer = 1;
    j->x = x->data, j->n = x->dims[axis], j->inner = 1;
    for (int d = 0; d < x->rank; d++) *(d < axis ? &outer : &j->inner) *= d == axis ? 1 : x->dims[d];
    j->n_strips = nc_ceil_div(j->inner, STRIP);
    *n_items = outer * j->n_strips;
    return type;
}

nc_code nck_arg(const nc_tensor *x, int axis, bool smallest, bool last, int64_t *out, nc_pool *pool) {
    job j = {.out = out, .smallest = smallest, .last = last};
    int64_t n_items;
    int type = start(&j, x, axis, &n_items);
    if (type == N_LOOPS) return NC_E_UNSUPPORTED;
    if (j.n > 0) nc_parallel(pool, n_items, loops[type].arg, &j);
    return NC_OK;
}

nc_code nck_cumulate(const nc_tensor *x, int axis, bool product, bool exclusive, bool reverse, void *out,
                     nc_pool *pool) {
    job j = {.out = out, .product = product, .exclusive = exclusive, .reverse = reverse};
    int64_t n_items;
    int type = start(&j, x, axis, &n_items);
    if (type == N_LOOPS) return NC_E_UNSUPPORTED;
    nc_parallel(pool, n_items, loops[type].cumulate, &j);
    return NC_OK;
}
