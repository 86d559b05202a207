/* kernels/cpu/move/nonzero.c: where a tensor is not zero, in row-major order; see move.h.
 * Two passes over fixed blocks: count, sum the counts in order, then each block writes from its own place on. */
#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/walk.h"

enum { BLOCK = 1 << 14, RUN = 512 }; /* RUN: elements of a row at a time */

typedef struct nonzero_job {
    const nc_tensor *x;
    const nck_walk *walk; /* over all dims but the last */
    int64_t row, stride;  /* the last */
    int64_t numel, total;
    int64_t *starts; /* counts first, then where each block begins */
    int64_t *out;
} nonzero_job;

static int64_t n_blocks(int64_t numel) { return nc_ceil_div(numel, BLOCK); }

size_t nck_nonzero_workspace(int64_t numel) { return (size_t)n_blocks(numel) * sizeof(int64_t); }

/* Which of n elements, `s` apart, are set: places[0 .. count). Every place is written and counts if it is one, so that
 * nothing is guessed. -0 is 0: the sign of floats is masked off. */
#define FIND(T, expr)                               \
    do {                                            \
        const T *p = (const T *)x->data + at * per; \
        for (int64_t k = 0; k < n; k++) {           \
            places[count] = (int32_t)k;             \
            count += (expr);                        \
        }                                           \
        return count;                               \
    } while (0)

static int64_t find(const nc_tensor *x, int64_t at, int64_t s, int64_t n, int32_t *places) {
    char c = nc_dtype_class(x->dtype);
    bool complex = x->dtype == NC_COMPLEX64 || x->dtype == NC_COMPLEX128;
    int64_t count = 0, per = complex ? 2 : 1, bits = 8 * (int64_t)nc_dtype_bytes(x->dtype) / per;
    uint64_t mask = c == 'F' || complex ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX;
    if (complex && bits == 32) FIND(uint32_t, ((p[2 * k * s] | p[2 * k * s + 1]) & mask) != 0);
    if (complex) FIND(uint64_t, ((p[2 * k * s] | p[2 * k * s + 1]) & mask) != 0);
    switch (bits) {
    case 8: FIND(uint8_t, p[k * s] != 0);
    case 16: FIND(uint16_t, (p[k * s] & mask) != 0);
    case 32: FIND(uint32_t, (p[k * s] & mask) != 0);
    default: FIND(uint64_t, (p[k * s] & mask) != 0);
    }
}

static int64_t block_end(const nonzero_job *j, int64_t block) {
    return (block + 1) * BLOCK < j->numel ? (block + 1) * BLOCK : j->numel;
}

/* The run of a row that begins at element i: its row, where it begins there and how long it is. */
typedef struct run {
    nck_walk_at w;
    int64_t first, n;
} run;

static void run_at(const nonzero_job *j, int64_t i, int64_t end, run *r) {
    nck_walk_start(&r->w, j->walk, i / j->row);
    r->first = i % j->row;
    r->n = nc_min64(nc_min64(RUN, j->row - r->first), end - i);
}

static void run_next(const nonzero_job *j, int64_t i, int64_t end, run *r) {
    r->first += r->n;
    if (r->first == j->row) {
        r->first = 0;
        nck_walk_next(&r->w);
    }
    r->n = nc_min64(nc_min64(RUN, j->row - r->first), end - i);
}

static void count_item(void *ctx, int64_t block) {
    nonzero_job *j = ctx;
    int32_t places[RUN];
    int64_t count = 0, end = block_end(j, block);
    run r;
    run_at(j, block * BLOCK, end, &r);
    for (int64_t i = block * BLOCK; i < end; i += r.n, run_next(j, i, end, &r))
        count += find(j->x, r.w.offset[0] + r.first * j->stride, j->stride, r.n, places);
    j->starts[block] = count;
}

static void write_item(void *ctx, int64_t block) {
    const nonzero_job *j = ctx;
    int32_t places[RUN];
    int64_t at = j->starts[block], end = block_end(j, block), rank = j->x->rank;
    run r;
    run_at(j, block * BLOCK, end, &r);
    for (int64_t i = block * BLOCK; i < end; i += r.n, run_next(j, i, end, &r)) {
        int64_t n = find(j->x, r.w.offset[0] + r.first * j->stride, j->stride, r.n, places);
        for (int64_t d = 0; d < rank - 1; d++)
            for (int64_t k = 0; k < n; k++) j->out[d * j->total + at + k] = r.w.at[d];
        for (int64_t k = 0; k < n && rank > 0; k++) j->out[(rank - 1) * j->total + at + k] = r.first + places[k];
        at += n;
    }
}

int64_t nck_nonzero(const nc_tensor *x, int64_t *out, void *workspace, nc_pool *pool) {
    nonzero_job j = {.x = x, .numel = nc_tensor_numel(x), .starts = workspace, .out = out};
    int64_t strides[1][NC_MAX_RANK], blocks = n_blocks(j.numel);
    nck_walk walk;
    for (int d = 0; d < x->rank; d++) strides[0][d] = x->strides[d];
    j.row = x->rank > 0 ? x->dims[x->rank - 1] : 1;
    j.stride = x->rank > 0 ? x->strides[x->rank - 1] : 1;
    nck_walk_init(&walk, x->rank > 0 ? x->rank - 1 : 0, x->dims, 1, strides);
    j.walk = &walk;
    nc_parallel(pool, blocks, count_item, &j);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t n = j.starts[b];
        j.starts[b] = j.total;
        j.total += n;
    }
    nc_parallel(pool, blocks, write_item, &j);
    return j.total;
}
