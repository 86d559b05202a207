/* cuda/nms.c: launchers of nms.cu, see nms.h. */
#include "kernels/cuda/nms.h"

#include "base/intmath.h"

enum { THREADS = 256 };

nc_code nck_cuda_nms_prepare(nc_device *d, nck_cuda_nms_kernel *out, nc_diag *diag) {
    NC_TRY(nck_cuda_topk_prepare(d, NC_FLOAT, &out->sort, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_keep", &out->keep, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_write", &out->write, diag);
}

/* Sorting; then the order, the kept ones and their counts. */
static size_t sort_bytes(int64_t lines, int64_t n) { return nc_align64(nck_cuda_topk_workspace(lines, n, n)); }

size_t nck_cuda_nms_workspace(int64_t images, int64_t classes, int64_t n) {
    int64_t lines = images * classes;
    return sort_bytes(lines, n) + (size_t)lines * (size_t)(2 * n + 1) * sizeof(int64_t);
}

nc_code nck_cuda_nms_run(const nck_cuda_nms_kernel *k, nck_cuda_at at, const nck_cuda_nms *how, const void *boxes,
                         const void *scores, int64_t *y, int64_t *sizes, void *workspace) {
    nck_cuda_nms a = *how;
    int64_t lines = a.images * a.classes;
    int64_t *order = (int64_t *)(void *)((char *)workspace + sort_bytes(lines, a.n)), *kept = order + lines * a.n,
            *counts = kept + lines * a.n;
    nck_topk t = {.type = NC_FLOAT, .outer = lines, .axis = a.n, .inner = 1, .k = a.n, .largest = true};
    t.x = scores, t.indices = order;
    void *keep[] = {&a, &boxes, &scores, &order, &kept, &counts}, *write[] = {&a, &kept, &counts, &y, &sizes};
    NC_TRY(nck_cuda_topk_run(&k->sort, at, &t, workspace));
    NC_TRY(nck_cuda_launch(at, k->keep, nck_cuda_blocks(at.device, lines, 1), THREADS, keep));
    return nck_cuda_launch(at, k->write, nck_cuda_blocks(at.device, lines + 1, 1), THREADS, write);
}
