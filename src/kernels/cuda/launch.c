/* cuda/launch.c: the shared parts of the launchers, see launch.h. */
#include "kernels/cuda/launch.h"

#include "base/intmath.h"
#include "device/cuda_api.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS_PER_MULTIPROCESSOR = 16, TILE_THREADS = 256 };

nc_code nck_cuda_find(nc_device *d, nck_cuda_text file, nc_dtype t, const char *define, const char *entry,
                      nc_function **out, nc_diag *diag) {
    if (d == NULL || d->table->compile == NULL)
        return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "kernel text '%s' needs a device with a compiler",
                           nck_cuda_text_name(file));
    nc_text source = {0};
    nck_cuda_text_join(&source, file, t, define);
    nc_code code = source.failed ? nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory")
                                 : d->table->compile(d, source.s, entry, out, diag);
    nc_text_release(&source);
    return code;
}

nck_cuda_site nck_cuda_site_of(const nc_call *c) {
    nck_cuda_site s = {.to = nc_cuda_fault_of(c->device, c->stream)};
    snprintf(s.node, sizeof s.node, "%s", c->node != NULL ? c->node : "");
    snprintf(s.op, sizeof s.op, "%s", c->op != NULL ? c->op : "");
    return s;
}

nc_code nck_cuda_describe_boxes(const void *data, int rank, const int64_t *dims, const int64_t *strides,
                                const uint32_t *box, nck_cuda_map *out, nc_diag *diag) {
    enum { WORDS_OF_2 = 1, SWIZZLE_128 = 3, PROMOTE_128 = 2 };
    static const uint32_t steps[NCK_CUDA_MAX_BOX_RANK] = {1, 1, 1, 1};
    uint64_t sizes[NCK_CUDA_MAX_BOX_RANK] = {0}, apart[NCK_CUDA_MAX_BOX_RANK] = {0};
    for (int i = 0; i < rank; i++) sizes[i] = (uint64_t)dims[i];
    for (int i = 0; i + 1 < rank; i++) apart[i] = (uint64_t)strides[i] * 2;
    return nc_cuda_check(nc_cuda_api_get()->cuTensorMapEncodeTiled(out->words, WORDS_OF_2, (uint32_t)rank,
                                                                   (void *)(uintptr_t)data, sizes, apart, box, steps, 0,
                                                                   SWIZZLE_128, PROMOTE_128, 0),
                         "cuTensorMapEncodeTiled", diag);
}

nck_cuda_walk nck_cuda_walk_of(int rank, const int64_t *dims, const int64_t *strides0, const int64_t *strides1) {
    nck_cuda_walk w = {0};
    memcpy(w.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(w.strides[0], strides0, (size_t)rank * sizeof *dims);
    if (strides1 != NULL) memcpy(w.strides[1], strides1, (size_t)rank * sizeof *dims);
    w.rank = nc_coalesce(rank, w.dims, strides1 != NULL ? 2 : 1, w.strides);
    return w;
}

uint32_t nck_cuda_blocks(nc_device *d, int64_t n, int64_t per_block) {
    const nc_cuda *c = nc_device_cuda(d);
    int64_t most = (c != NULL && c->n_multiprocessors > 0 ? c->n_multiprocessors : 1) * BLOCKS_PER_MULTIPROCESSOR;
    int64_t blocks = n / per_block + (n % per_block != 0);
    return (uint32_t)nc_min64(blocks, most);
}

nc_code nck_cuda_launch(nck_cuda_at at, nc_function *f, uint32_t blocks, uint32_t threads, void **args) {
    return at.device->table->launch_function(at.device, at.stream, f, (nc_dim3){blocks, 1, 1}, (nc_dim3){threads, 1, 1},
                                             0, args, at.diag);
}

nck_cuda_tiles nck_cuda_tiles_of(int64_t rows, int64_t columns) {
    nck_cuda_tiles t = {.x = 1};
    while (t.x < TILE_THREADS && t.x < columns) t.x *= 2;
    t.y = TILE_THREADS / t.x;
    t.across = nc_ceil_div(columns, (int64_t)t.x * NCK_CUDA_TURNS);
    t.count = t.across * nc_ceil_div(rows, t.y);
    return t;
}

/* A block for every tile: one that goes over several asks for the next only when it has written the last. */
nc_code nck_cuda_launch_tiles(nck_cuda_at at, nc_function *f, const nck_cuda_tiles *t, void **args) {
    nc_dim3 grid = {(uint32_t)nc_min64(t->count, INT32_MAX), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, (nc_dim3){t->x, t->y, 1}, 0, args, at.diag);
}
