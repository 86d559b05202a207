/* cpu/tile_own.c: a tile program that is one word over tensors that need no wider type than their own: logic of bools,
 * sums, products and shifts of 32 bits, comparisons. As tiles of int64 or float they would be two to eight times as
 * large. Operands are dense or one element; everything else is tile.c's, and the results are the same. */
#include "kernels/cpu/tile_table.h"

#include "base/intmath.h"

#include <string.h>

/* Elements of an item, of the smallest, and of a step, whose known length makes vectors of it. */
enum { CHUNK = 1 << 15, LEAST = 1 << 12, STEP = 64 };

typedef void own_fn(const void *a, const void *b, void *y);

#define ANYWHERE __attribute__((aligned(1), may_alias))
/* STEP elements of type T to as many of type D; y may be a or b. */
#define OWN(name, T, D, expr)                                          \
    static void own_##name(const void *a_, const void *b_, void *y_) { \
        typedef T ANYWHERE from;                                       \
        typedef D ANYWHERE to;                                         \
        const from *a = a_, *b = b_;                                   \
        to *y = y_;                                                    \
        D t[STEP];                                                     \
        (void)b;                                                       \
        for (int k = 0; k < STEP; k++) t[k] = (D)(expr);               \
        for (int k = 0; k < STEP; k++) y[k] = t[k];                    \
    }
OWN(and, uint8_t, uint8_t, (a[k] != 0) & (b[k] != 0))
OWN(or, uint8_t, uint8_t, (a[k] | b[k]) != 0)
OWN(xor, uint8_t, uint8_t, (a[k] != 0) ^ (b[k] != 0))
OWN(not, uint8_t, uint8_t, a[k] == 0)
OWN(add_32, uint32_t, uint32_t, a[k] + b[k])
OWN(sub_32, uint32_t, uint32_t, a[k] - b[k])
OWN(mul_32, uint32_t, uint32_t, a[k] * b[k])
OWN(shift_left_32, uint32_t, uint32_t, a[k] << (b[k] & 31) & (uint32_t) - (b[k] < 32))
OWN(shift_right_32, uint32_t, uint32_t, a[k] >> (b[k] & 31) & (uint32_t) - (b[k] < 32))
OWN(equal_i32, int32_t, uint8_t, a[k] == b[k])
OWN(less_i32, int32_t, uint8_t, a[k] < b[k])
OWN(less_or_equal_i32, int32_t, uint8_t, a[k] <= b[k])
OWN(equal_i64, int64_t, uint8_t, a[k] == b[k])
OWN(is_nan_f32, float, uint8_t, a[k] != a[k])
OWN(equal_f32, float, uint8_t, a[k] == b[k])
OWN(less_f32, float, uint8_t, a[k] < b[k])
OWN(less_or_equal_f32, float, uint8_t, a[k] <= b[k])

/* What a lane does to operands of one type. */
typedef struct own_row {
    nck_lane lane;
    nc_dtype from, to;
    own_fn *fn;
    bool turned; /* a and b change places */
} own_row;

static const own_row rows[] = {
    {NCK_LANE_and, NC_BOOL, NC_BOOL, own_and, false},
    {NCK_LANE_or, NC_BOOL, NC_BOOL, own_or, false},
    {NCK_LANE_xor, NC_BOOL, NC_BOOL, own_xor, false},
    {NCK_LANE_not, NC_BOOL, NC_BOOL, own_not, false},
#define WRAPS(T)                                                                        \
    {NCK_LANE_add, T, T, own_add_32, false}, {NCK_LANE_sub, T, T, own_sub_32, false}, { \
        NCK_LANE_mul, T, T, own_mul_32, false                                           \
    }
    WRAPS(NC_INT32),
    WRAPS(NC_UINT32),
    {NCK_LANE_shift_left, NC_UINT32, NC_UINT32, own_shift_left_32, false},
    {NCK_LANE_shift_right, NC_UINT32, NC_UINT32, own_shift_right_32, false},
    {NCK_LANE_is_nan, NC_FLOAT, NC_BOOL, own_is_nan_f32, false},
#define COMPARES(T, S)                                                                                    \
    {NCK_LANE_equal, T, NC_BOOL, own_equal_##S, false}, {NCK_LANE_less, T, NC_BOOL, own_less_##S, false}, \
        {NCK_LANE_less_or_equal, T, NC_BOOL, own_less_or_equal_##S, false},                               \
        {NCK_LANE_greater, T, NC_BOOL, own_less_##S, true}, {                                             \
        NCK_LANE_greater_or_equal, T, NC_BOOL, own_less_or_equal_##S, true                                \
    }
    {NCK_LANE_equal, NC_INT64, NC_BOOL, own_equal_i64, false},
    COMPARES(NC_INT32, i32),
    COMPARES(NC_FLOAT, f32),
};

static const own_row *row_of(nck_lane lane, nc_dtype from, nc_dtype to) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].lane == lane && rows[i].from == from && rows[i].to == to) return &rows[i];
    return NULL;
}

typedef struct own_job {
    own_fn *fn;
    const char *in[2];
    char *y;
    int64_t n, chunk;
    size_t bytes[2], bytes_y;                         /* from element to element; 0: it is one for all */
    _Alignas(16) char one[2][STEP * sizeof(int64_t)]; /* that one, STEP times */
} own_job;

static void own_chunk(void *ctx, int64_t i) {
    const own_job *j = ctx;
    int64_t at = i * j->chunk, end = nc_min64(j->n, at + j->chunk);
    for (; at + STEP <= end; at += STEP)
        j->fn(j->bytes[0] ? j->in[0] + (size_t)at * j->bytes[0] : j->one[0],
              j->bytes[1] ? j->in[1] + (size_t)at * j->bytes[1] : j->one[1], j->y + (size_t)at * j->bytes_y);
    if (at == end) return;
    char last[3][STEP * sizeof(int64_t)] = {{0}};
    for (int k = 0; k < 2; k++)
        memcpy(last[k], j->bytes[k] ? j->in[k] + (size_t)at * j->bytes[k] : j->one[k],
               j->bytes[k] ? (size_t)(end - at) * j->bytes[k] : sizeof last[k]);
    j->fn(last[0], last[1], last[2]);
    memcpy(j->y + (size_t)at * j->bytes_y, last[2], (size_t)(end - at) * j->bytes_y);
}

/* Operand k of the job: false where it lies otherwise. */
static bool own_operand(own_job *j, int k, const nc_tensor *t, int64_t numel) {
    size_t bytes = nc_dtype_bytes(t->dtype);
    j->in[k] = t->data;
    if (nc_tensor_numel(t) == numel) {
        j->bytes[k] = bytes;
        return nc_is_dense(t);
    }
    for (int i = 0; i < STEP; i++) memcpy(j->one[k] + (size_t)i * bytes, t->data, bytes);
    return nc_tensor_numel(t) == 1;
}

bool nck_tile_run_own(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel,
                      nc_pool *pool) {
    if (p->n_op != 1 || p->n_out != 1 || p->out_reg[0] != p->op->dst) return false;
    bool unary = p->op->lane == NCK_LANE_not || p->op->lane == NCK_LANE_is_nan;
    const nc_tensor *a = in[p->op->src[0]], *b = in[p->op->src[unary ? 0 : 1]];
    bool own = a->dtype == b->dtype && nck_tile_compute(a->dtype) == p->compute;
    const own_row *row = own ? row_of(p->op->lane, a->dtype, out[0]->dtype) : NULL;
    if (row == NULL || !nc_is_dense(out[0]) || nc_tensor_numel(out[0]) != numel) return false;
    own_job j = {.fn = row->fn, .y = out[0]->data, .n = numel, .bytes_y = nc_dtype_bytes(out[0]->dtype)};
    if (!own_operand(&j, row->turned, a, numel) || !own_operand(&j, !row->turned, b, numel)) return false;
    pool = nc_pool_for(pool, numel / 2);
    j.chunk = nc_round_up(nc_pool_item(pool, numel, LEAST, CHUNK), STEP);
    nc_parallel(pool, nc_ceil_div(numel, j.chunk), own_chunk, &j);
    return true;
}
