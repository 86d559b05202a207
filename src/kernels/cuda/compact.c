/* cuda/compact.c: launchers of compact.cu, see compact.h. */
#include "kernels/cuda/compact.h"

#include "base/intmath.h"
#include "kernels/cuda/move.h"

#include <string.h>

enum { THREADS = 256, MAX_BLOCKS = 512 };

/* Mirrors compact_shape of compact.cu. */
typedef struct compact_shape {
    int64_t rank, dims[NC_MAX_RANK];
} compact_shape;

nc_code nck_cuda_compact_prepare(nc_device *d, nc_dtype t, size_t elem_bytes, nck_cuda_compact *out, nc_diag *diag) {
    const char *define = elem_bytes > 0 ? nck_cuda_move_define(elem_bytes) : NULL;
    if (nck_cuda_type_name(t) == NULL || (elem_bytes > 0 && define == NULL))
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not looked through on a GPU", nc_dtype_name(t));
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"compact_count", &out->count},
               {"compact_add", &out->add},
               {"compact_write", &out->write},
               {"compact_take", &out->take},
               {"compact_behind", &out->behind}};
    *out = (nck_cuda_compact){.count = NULL};
    for (size_t i = 0; i < (elem_bytes > 0 ? 5 : 3); i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_compact, t, define, all[i].name, all[i].to, diag));
    return NC_OK;
}

size_t nck_cuda_nonzero_workspace(void) { return (MAX_BLOCKS + 1) * sizeof(int64_t); }

size_t nck_cuda_compress_workspace(int64_t n) {
    return nck_cuda_nonzero_workspace() + (size_t)(n > 0 ? n : 0) * sizeof(int64_t);
}

/* counts: MAX_BLOCKS + 1 numbers, of which the one behind the blocks in use becomes the total: *total is its address.
 */
static nc_code find_places(const nck_cuda_compact *k, nck_cuda_at at, int64_t n, compact_shape shape, const void *x,
                           int64_t *places, const nck_cuda_compact_sizes *s, int64_t *sizes, int64_t *counts,
                           int64_t **total) {
    int64_t blocks = nc_max64(1, nc_min64(nc_ceil_div(n, THREADS), MAX_BLOCKS));
    nck_cuda_compact_sizes result = *s;
    void *count[] = {&n, &x, &counts}, *add[] = {&blocks, &counts, &result, &sizes};
    void *write[] = {&n, &shape, &x, &counts, &places};
    *total = counts + blocks;
    NC_TRY(nck_cuda_launch(at, k->count, (uint32_t)blocks, THREADS, count));
    NC_TRY(nck_cuda_launch(at, k->add, 1, 1, add));
    return nck_cuda_launch(at, k->write, (uint32_t)blocks, THREADS, write);
}

nc_code nck_cuda_nonzero_run(const nck_cuda_compact *k, nck_cuda_at at, const nc_tensor *x, int64_t *places,
                             const nck_cuda_compact_sizes *s, int64_t *sizes, void *workspace) {
    compact_shape shape = {.rank = x->rank};
    int64_t *total;
    memcpy(shape.dims, x->dims, (size_t)x->rank * sizeof *x->dims);
    return find_places(k, at, nc_tensor_numel(x), shape, x->data, places, s, sizes, workspace, &total);
}

nc_code nck_cuda_compress_run(const nck_cuda_compact *k, const nc_call *c, const nck_cuda_compress *a,
                              const nck_cuda_compact_sizes *s) {
    nck_cuda_at at = nck_cuda_at_call(c);
    int64_t axis = a->axis, n_flags = a->n_flags, n = nc_min64(axis, n_flags), outer = a->outer, inner = a->inner;
    int64_t *counts = c->workspace, *places = counts + MAX_BLOCKS + 1, *total;
    const void *flags = a->flags, *x = a->x;
    void *y = a->y, *take[] = {&outer, &axis, &inner, &total, &places, &x, &y};
    nck_cuda_site site = nck_cuda_site_of(c);
    void *behind[] = {&site, &axis, &n_flags, &flags};
    NC_TRY(find_places(k, at, n, (compact_shape){.rank = 1, .dims = {n}}, flags, places, s, c->sizes, counts, &total));
    if (n_flags > axis)
        NC_TRY(nck_cuda_launch(at, k->behind, nck_cuda_blocks(at.device, n_flags - axis, THREADS), THREADS, behind));
    return nck_cuda_launch(at, k->take, nck_cuda_blocks(at.device, outer * n * inner, THREADS), THREADS, take);
}
