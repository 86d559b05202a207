/* cpu/tile_flat.c: a tile program over one run of floats; see nck_tile_run_flat in tile.h. Operands that repeat lie in
 * registers filled once; the others and the result are used where they are, but for a last tile that is no multiple of
 * what lane functions take. */
#include "kernels/cpu/tile.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tile_table.h"

#include <string.h>

enum { FLAT_FLOATS = 3072, FLAT_TILE = 512 }; /* of all registers, which lie on the stack; of one at most */

typedef struct flat_registers {
    _Alignas(64) float file[FLAT_FLOATS];
    const void *now[NCK_TILE_MAX_REG];
    int64_t tile; /* floats of a register */
} flat_registers;
_Static_assert(FLAT_FLOATS / NCK_TILE_MAX_REG >= NCK_TILE_PAD, "a register holds a vector at least");

static float *flat_register(flat_registers *r, int i) { return r->file + i * r->tile; }

static void flat_fill(float *dst, const nck_tile_run_in *in, int64_t n) {
    const float one = in->data[0];
    for (int64_t i = 0; in->period == 1 && i < n; i++) dst[i] = one;
    for (int64_t i = 0; in->period > 1 && i < n; i += in->period)
        memcpy(dst + i, in->data, (size_t)in->period * sizeof *dst);
}

/* out: where the last operation may write; NULL: into its register. */
static void flat_ops(const nck_tile_prog *p, const nck_lane_fn *lanes, flat_registers *r, int64_t n, float *out) {
    for (int i = 0; i < p->n_op; i++) {
        const nck_tile_op *op = &p->op[i];
        int n_src = nck_lane_get(op->lane)->n_in;
        const void *src[3];
        for (int k = 0; k < 3; k++) src[k] = r->now[op->src[k < n_src ? k : 0]];
        float *dst = out != NULL && i == p->n_op - 1 ? out : flat_register(r, op->dst);
        lanes[op->lane](n, dst, src, op->param);
        r->now[op->dst] = dst;
    }
}

/* n floats from number `at` on; padded: n rounded up to what lane functions take. */
static void flat_tile(const nck_tile_prog *p, const nck_lane_fn *lanes, flat_registers *r, const nck_tile_run_in *in,
                      float *out, int64_t at, int64_t n, int64_t padded) {
    for (int i = 0; i < p->n_in; i++) {
        if (in[i].period != 0) {
            r->now[i] = flat_register(r, i);
            continue;
        }
        r->now[i] = in[i].data + at;
        if (n == padded) continue;
        float *copy = flat_register(r, i);
        memset(copy, 0, (size_t)padded * sizeof *copy);
        memcpy(copy, in[i].data + at, (size_t)n * sizeof *copy);
        r->now[i] = copy;
    }
    bool direct = n == padded && p->n_op > 0 && p->op[p->n_op - 1].dst == p->out_reg[0];
    flat_ops(p, lanes, r, padded, direct ? out + at : NULL);
    if (!direct) memmove(out + at, r->now[p->out_reg[0]], (size_t)n * sizeof *out);
}

void nck_tile_run_flat(const nck_tile_prog *p, const nck_tile_run_in *in, float *out, int64_t n) {
    const nck_lane_fn *lanes = nck_isa_get()->tile->f32;
    flat_registers r;
    r.tile = nc_min64(FLAT_TILE, FLAT_FLOATS / p->n_reg / NCK_TILE_PAD * NCK_TILE_PAD);
    for (int i = 0; i < p->n_in; i++)
        if (in[i].period != 0) flat_fill(flat_register(&r, i), &in[i], nc_min64(r.tile, nc_round_up(n, NCK_TILE_PAD)));
    for (int64_t at = 0, m; at < n; at += m) {
        m = nc_min64(r.tile, n - at);
        if (m > NCK_TILE_PAD) m -= m % NCK_TILE_PAD; /* only what is left behind whole vectors is copied */
        flat_tile(p, lanes, &r, in, out, at, m, nc_round_up(m, NCK_TILE_PAD));
    }
}
