/* cpu/tile_small.c: a tile program over so few elements that one tile holds them all, with operands that are dense or
 * repeat: no walk, no merging of dims, no cutting. Other operands are tile.c's; the bits are the same. */
#include "kernels/cpu/tile_table.h"

#include "base/intmath.h"

#include <string.h>

enum { FILE_BYTES = 8192, MOST = 512 }; /* of all registers; elements */

typedef struct small {
    _Alignas(64) char file[FILE_BYTES];
    const void *now[NCK_TILE_MAX_REG]; /* where the register's value is: its part of the file, or memory of an input */
    int64_t n, padded;
    size_t bytes; /* of one element of the compute type */
} small;

static char *register_of(small *s, int i) { return s->file + (size_t)i * (size_t)s->padded * s->bytes; }

/* After how many elements t, spread over y's dims, begins anew: all of y's, a row of its last dims, or 1. 0: it lies
 * otherwise. */
static int64_t period(const nc_tensor *t, const nc_tensor *y) {
    int64_t n = 1;
    bool spread = false;
    for (int d = t->rank - 1, dy = y->rank - 1; d >= 0; d--, dy--) {
        if (t->dims[d] == 1) {
            spread |= y->dims[dy] != 1;
            continue;
        }
        if (spread || t->strides[d] != n) return 0;
        n *= t->dims[d];
    }
    return n;
}

/* The first `from` elements again and again, up to n: each copy doubles what there is. */
static void repeat(char *p, size_t bytes, int64_t from, int64_t n) {
    for (int64_t have = from; have < n; have *= 2)
        memcpy(p + (size_t)have * bytes, p, (size_t)nc_min64(have, n - have) * bytes);
}

static bool load(small *s, const nck_tile_prog *p, int i, const nc_tensor *t, const nc_tensor *y) {
    int64_t n = period(t, y);
    nck_tile_load_fn convert = nck_tile_load_get(p->compute, t->dtype);
    nck_tile_dense_fn dense;
    char *dst = register_of(s, i);
    if (n == 0 || convert == NULL) return false;
    if (n == s->n && n == s->padded && t->dtype == p->compute) {
        s->now[i] = t->data;
        return true;
    }
    if (t->dtype == p->compute)
        memcpy(dst, t->data, (size_t)n * s->bytes);
    else if ((dense = nck_tile_dense_get(t->dtype, p->compute)) != NULL)
        dense(dst, t->data, n);
    else
        convert(dst, t->data, 1, n);
    repeat(dst, s->bytes, n, s->n);
    memset(dst + (size_t)s->n * s->bytes, 0, (size_t)(s->padded - s->n) * s->bytes);
    s->now[i] = dst;
    return true;
}

static void compute(small *s, const nck_tile_prog *p, void *direct) {
    const nck_lane_fn *lanes = nck_tile_lanes(p->compute);
    for (int i = 0; i < p->n_op; i++) {
        const nck_tile_op *op = &p->op[i];
        int n_src = nck_lane_get(op->lane)->n_in;
        const void *src[3];
        for (int k = 0; k < 3; k++) src[k] = s->now[op->src[k < n_src ? k : 0]];
        void *dst = direct != NULL && i == p->n_op - 1 ? direct : register_of(s, op->dst);
        lanes[op->lane](s->padded, dst, src, op->param);
        s->now[op->dst] = dst;
    }
}

static void store(const small *s, const nck_tile_prog *p, int i, const nc_tensor *y) {
    const void *from = s->now[p->out_reg[i]];
    nck_tile_dense_fn dense;
    if (y->dtype == p->compute)
        memmove(y->data, from, (size_t)s->n * s->bytes);
    else if ((dense = nck_tile_dense_get(p->compute, y->dtype)) != NULL)
        dense(y->data, from, s->n);
    else
        nck_tile_store_get(p->compute, y->dtype)(y->data, 1, from, s->n);
}

/* An input that is also one of several outputs may be overwritten before it is stored: not here. */
static bool fits(const small *s, const nck_tile_prog *p, nc_tensor *const *out) {
    if (s->n > MOST || (size_t)s->padded * s->bytes * (size_t)p->n_reg > FILE_BYTES) return false;
    for (int i = 0; i < p->n_out; i++) {
        if (period(out[i], out[0]) != s->n || nck_tile_store_get(p->compute, out[i]->dtype) == NULL) return false;
        if (p->n_out > 1 && p->out_reg[i] < p->n_in) return false;
    }
    return true;
}

bool nck_tile_run_small(const nck_tile_prog *p, nc_tensor *const *in, nc_tensor *const *out, int64_t numel) {
    small s; /* the file is not cleared: that would cost more than the work */
    s.n = numel;
    s.padded = nc_round_up(numel, NCK_TILE_PAD);
    s.bytes = p->compute == NC_FLOAT ? sizeof(float) : sizeof(double);
    if (!fits(&s, p, out)) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!load(&s, p, i, in[i], out[0])) return false;
    bool last = p->n_out == 1 && p->n_op > 0 && p->op[p->n_op - 1].dst == p->out_reg[0];
    bool direct = last && s.n == s.padded && out[0]->dtype == p->compute;
    compute(&s, p, direct ? out[0]->data : NULL);
    for (int i = 0; i < p->n_out && !direct; i++) store(&s, p, i, out[i]);
    return true;
}
