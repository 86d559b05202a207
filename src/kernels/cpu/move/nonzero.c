/* kernels/cpu/move/nonzero.c: where a tensor is not zero, in row-major order; see move.h.
 * Two passes over fixed blocks: count, sum the counts in order, then each block writes from its own place on. */
#include "base/intmath.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/move/walk.h"

enum { BLOCK = 1 << 14 };

typedef struct nonzero_job {
    const nc_tensor *x;
    const nck_walk *walk; /* over all dims, element by element */
    int64_t numel, total;
    int64_t *starts; /* counts first, then where each block begins */
    int64_t *out;
} nonzero_job;

static int64_t n_blocks(int64_t numel) { return nc_ceil_div(numel, BLOCK); }

size_t nck_nonzero_workspace(int64_t numel) { return (size_t)n_blocks(numel) * sizeof(int64_t); }

static bool is_set(nc_dtype t, const void *p, int64_t at) {
    switch (t) {
    case NC_FLOAT: return ((const float *)p)[at] != 0;
    case NC_DOUBLE: return ((const double *)p)[at] != 0;
    case NC_FLOAT16:
    case NC_BFLOAT16: return (((const uint16_t *)p)[at] & 0x7fff) != 0;
    case NC_COMPLEX64: return ((const float *)p)[2 * at] != 0 || ((const float *)p)[2 * at + 1] != 0;
    case NC_COMPLEX128: return ((const double *)p)[2 * at] != 0 || ((const double *)p)[2 * at + 1] != 0;
    default: break;
    }
    switch (nc_dtype_bytes(t)) {
    case 1: return ((const uint8_t *)p)[at] != 0;
    case 2: return ((const uint16_t *)p)[at] != 0;
    case 4: return ((const uint32_t *)p)[at] != 0;
    default: return ((const uint64_t *)p)[at] != 0;
    }
}

static int64_t block_end(const nonzero_job *j, int64_t block) {
    return (block + 1) * BLOCK < j->numel ? (block + 1) * BLOCK : j->numel;
}

static void count_item(void *ctx, int64_t block) {
    nonzero_job *j = ctx;
    nck_walk_at w;
    int64_t n = 0, end = block_end(j, block);
    nck_walk_start(&w, j->walk, block * BLOCK);
    for (int64_t i = block * BLOCK; i < end; i++, nck_walk_next(&w)) n += is_set(j->x->dtype, j->x->data, w.offset[0]);
    j->starts[block] = n;
}

static void write_item(void *ctx, int64_t block) {
    const nonzero_job *j = ctx;
    nck_walk_at w;
    int64_t at = j->starts[block], end = block_end(j, block);
    nck_walk_start(&w, j->walk, block * BLOCK);
    for (int64_t i = block * BLOCK; i < end; i++, nck_walk_next(&w)) {
        if (!is_set(j->x->dtype, j->x->data, w.offset[0])) continue;
        for (int d = 0; d < w.of->n_dims; d++) j->out[d * j->total + at] = w.at[d];
        at++;
    }
}

int64_t nck_nonzero(const nc_tensor *x, int64_t *out, void *workspace, nc_pool *pool) {
    nonzero_job j = {.x = x, .numel = nc_tensor_numel(x), .starts = workspace, .out = out};
    int64_t strides[1][NC_MAX_RANK], blocks = n_blocks(j.numel);
    nck_walk walk;
    for (int d = 0; d < x->rank; d++) strides[0][d] = x->strides[d];
    nck_walk_init(&walk, x->rank, x->dims, 1, strides);
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
