/* cuda/unique.c: launchers of unique.cu, see unique.h. */
#include "kernels/cuda/unique.h"

#include "base/intmath.h"
#include "kernels/cuda/move.h"

#include <string.h>

enum { THREADS = 256, PARTS = 5 }; /* of the workspace beside the order: start, number, first, count, inverse */

/* Mirror those of unique.cu. */
typedef struct unique_args {
    int64_t n, row_stride, outers, outer_stride, inners, n_sorted, sorted;
} unique_args;
typedef struct unique_out {
    int64_t *start, *number, *first, *count, *inverse, *total, *sizes;
    int64_t n_out, rank, axis, dims[NC_MAX_RANK];
} unique_out;

nc_code nck_cuda_unique_prepare(nc_device *d, nc_dtype t, nck_cuda_unique *out, nc_diag *diag) {
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_unique, t, NULL, "unique_sort", &out->sort, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_unique, t, NULL, "unique_groups", &out->groups, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_compact, NC_BOOL, nck_cuda_move_define(nc_dtype_bytes(t)), "compact_take",
                         &out->take, diag);
}

static int64_t power_of_two(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

/* The order, the parts, of which start has one more, and the total. */
size_t nck_cuda_unique_workspace(int64_t n) {
    return (size_t)(power_of_two(n) + PARTS * (n + 1) + 1) * sizeof(int64_t);
}

nc_code nck_cuda_unique_run(const nck_cuda_unique *k, nck_cuda_at at, const nck_cuda_unique_args *a,
                            const nck_cuda_compact_sizes *s, int64_t *sizes, void *workspace) {
    int64_t outer = a->outer, n = a->n, inner = a->inner, *order = workspace;
    unique_args u = {n, inner, outer, n * inner, inner, power_of_two(n), a->sorted};
    int64_t *part = order + u.n_sorted, step = n + 1;
    unique_out y = {.start = part,
                    .number = part + step,
                    .first = a->first != NULL ? a->first : part + 2 * step,
                    .count = a->count != NULL ? a->count : part + 3 * step,
                    .inverse = a->inverse != NULL ? a->inverse : part + 4 * step,
                    .total = part + PARTS * step,
                    .sizes = sizes,
                    .n_out = a->n_out,
                    .rank = s->rank,
                    .axis = s->axis};
    const void *x = a->x;
    void *to = a->y, *sort[] = {&u, &x, &order}, *groups[] = {&u, &y, &x, &order};
    void *take[] = {&outer, &n, &inner, &y.total, &y.first, &x, &to};
    memcpy(y.dims, s->dims, sizeof y.dims);
    NC_TRY(nck_cuda_launch(at, k->sort, 1, THREADS, sort));
    NC_TRY(nck_cuda_launch(at, k->groups, 1, THREADS, groups));
    return nck_cuda_launch(at, k->take, nck_cuda_blocks(at.device, outer * n * inner, THREADS), THREADS, take);
}
