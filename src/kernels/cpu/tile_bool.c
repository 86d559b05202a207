/* cpu/tile_bool.c: a tile program that is one word of logic over dense tensors of bool, byte by byte: as tiles of int64
 * they would be eight times as large. Everything else is tile.c's; the results are the same. */
#include "kernels/cpu/tile_table.h"

#include "base/intmath.h"

enum { CHUNK = 1 << 16, STEP = 64 };

typedef struct bool_job {
    int lane;
    const uint8_t *a, *b;
    uint8_t *y;
    int64_t n;
} bool_job;

/* y may be a or b; steps of a known length become vectors. */
#define LOGIC(name, expr)                                                                 \
    static void logic_##name(const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t n) { \
        uint8_t t[STEP];                                                                  \
        (void)b;                                                                          \
        for (; n >= STEP; n -= STEP, a += STEP, b += STEP, y += STEP) {                   \
            for (int k = 0; k < STEP; k++) t[k] = (expr);                                 \
            for (int k = 0; k < STEP; k++) y[k] = t[k];                                   \
        }                                                                                 \
        for (int64_t k = 0; k < n; k++) y[k] = (expr);                                    \
    }
LOGIC(and, (a[k] != 0) & (b[k] != 0))
LOGIC(or, (a[k] | b[k]) != 0)
LOGIC(xor, (a[k] != 0) ^ (b[k] != 0))
LOGIC(not, a[k] == 0)

static void bool_chunk(void *ctx, int64_t i) {
    const bool_job *j = ctx;
    int64_t at = i * CHUNK, n = nc_min64(CHUNK, j->n - at);
    (j->lane == NCK_LANE_and   ? logic_and
     : j->lane == NCK_LANE_or  ? logic_or
     : j->lane == NCK_LANE_xor ? logic_xor
                               : logic_not)(j->a + at, j->b + at, j->y + at, n);
}

static bool is_dense_bool(const nc_tensor *t, int64_t numel) {
    return t->dtype == NC_BOOL && nc_is_dense(t) && nc_tensor_numel(t) == numel;
}

bool nck_tile_run_bool(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel,
                       nc_pool *pool) {
    if (p->n_op != 1 || p->n_out != 1 || p->out_reg[0] != p->op->dst || !is_dense_bool(out[0], numel)) return false;
    int lane = p->op->lane, second = p->op->src[lane == NCK_LANE_not ? 0 : 1];
    if (lane != NCK_LANE_and && lane != NCK_LANE_or && lane != NCK_LANE_xor && lane != NCK_LANE_not) return false;
    const nc_tensor *a = in[p->op->src[0]], *b = in[second];
    if (!is_dense_bool(a, numel) || !is_dense_bool(b, numel)) return false;
    bool_job j = {lane, a->data, b->data, out[0]->data, numel};
    nc_parallel(pool, nc_ceil_div(numel, CHUNK), bool_chunk, &j);
    return true;
}
