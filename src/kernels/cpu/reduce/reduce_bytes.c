/* kernels/cpu/reduce/reduce_bytes.c: the largest or smallest of bytes, see reduce.h. Signs, and the smallest for the
 * largest, are bits to flip, so that one loop over unsigned bytes does for all. No order changes the result. */
#include "kernels/cpu/reduce/reduce.h"

#include "base/intmath.h"

#include <string.h>

enum { LANES = 64, ITEM_BYTES = 1 << 16 };

typedef struct bytes_job {
    const uint8_t *x; /* (outer, n, inner) */
    uint8_t *out, flip;
    int64_t n, inner;
    int64_t n_strips;         /* of LANES outputs side by side, in a row of inner */
    int64_t strips, per_item; /* of all rows */
} bytes_job;

static inline void fold_some(uint8_t *restrict acc, const uint8_t *restrict p, uint8_t flip, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint8_t v = p[i] ^ flip;
        acc[i] = acc[i] > v ? acc[i] : v;
    }
}

/* A known length becomes vectors. */
static void fold(uint8_t *acc, const uint8_t *p, uint8_t flip, int64_t n) {
    if (n == LANES)
        fold_some(acc, p, flip, LANES);
    else
        fold_some(acc, p, flip, n);
}

static void bytes_strip(const bytes_job *j, int64_t strip) {
    uint8_t acc[LANES] = {0};
    int64_t row = strip / j->n_strips, c = strip % j->n_strips * LANES, n = nc_min64(LANES, j->inner - c);
    const uint8_t *p = j->x + row * j->n * j->inner + c;
    int64_t step = j->inner > 1 ? j->inner : LANES, left = j->n * (j->inner > 1 ? n : 1);
    int64_t width = j->inner > 1 ? n : LANES;
    for (; left > 0; left -= width, p += step) fold(acc, p, j->flip, nc_min64(width, left));
    for (int64_t k = 1; j->inner == 1 && k < LANES; k++) acc[0] = acc[0] > acc[k] ? acc[0] : acc[k];
    for (int64_t k = 0; k < n; k++) j->out[row * j->inner + c + k] = acc[k] ^ j->flip;
}

static void bytes_item(void *ctx, int64_t item) {
    const bytes_job *j = ctx;
    int64_t s = item * j->per_item, end = nc_min64(s + j->per_item, j->strips);
    for (; s < end; s++) bytes_strip(j, s);
}

bool nck_reduce_bytes(bool least, const nc_tensor *x, nc_axes axes, void *out, nc_pool *pool) {
    int64_t size[3] = {1, 1, 1};
    int part = 0;
    for (int d = 0; d < x->rank; d++) {
        if (x->dims[d] == 1) continue;
        if ((axes >> d & 1) != (part == 1)) part++;
        if (part > 2) return false;
        size[part] *= x->dims[d];
    }
    if (!nc_is_dense(x)) return false;
    bytes_job j = {.x = x->data, .out = out, .n = size[1], .inner = size[2]};
    j.flip = (uint8_t)((least ? 0xff : 0) ^ (x->dtype == NC_INT8 ? 0x80 : 0));
    j.n_strips = nc_ceil_div(j.inner, LANES);
    j.strips = size[0] * j.n_strips;
    j.per_item = 1 + ITEM_BYTES / (j.n * nc_min64(j.inner, LANES));
    nc_parallel(pool, nc_ceil_div(j.strips, j.per_item), bytes_item, &j);
    return true;
}
