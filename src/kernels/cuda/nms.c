/* cuda/nms.c: launchers of nms.cu, see nms.h. */
#include "kernels/cuda/nms.h"

#include "base/intmath.h"

enum { THREADS = 256, PIECE = 512, KEPT = 256, BOX = 4 * sizeof(float) };

nc_code nck_cuda_nms_prepare(nc_device *d, nck_cuda_nms_kernel *out, nc_diag *diag) {
    NC_TRY(nck_cuda_topk_prepare(d, NC_FLOAT, &out->sort, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_begin", &out->begin, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_cover", &out->cover, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_settle", &out->settle, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_nms, NC_FLOAT, NULL, "nms_write", &out->write, diag);
}

/* Sorting; then where the kept ones lie, the order, the kept ones and their counts, which of a piece are covered. */
static size_t sort_bytes(int64_t lines, int64_t n) { return nc_align64(nck_cuda_topk_workspace(lines, n, n)); }

size_t nck_cuda_nms_workspace(int64_t images, int64_t classes, int64_t n) {
    int64_t lines = images * classes;
    return sort_bytes(lines, n) + (size_t)lines * (size_t)n * BOX +
           (size_t)lines * (size_t)(2 * n + 1) * sizeof(int64_t) + (size_t)lines * PIECE;
}

/* The boxes from `from` on: against those kept, of which there are at most as many as came before; then one by one. */
static nc_code take_piece(const nck_cuda_nms_kernel *k, nck_cuda_at at, nck_cuda_nms *a, int64_t from, void *cover[],
                          void *settle[]) {
    int64_t lines = a->images * a->classes, tiles = nc_ceil_div(nc_min64(from, a->most), KEPT);
    cover[1] = settle[1] = &from;
    cover[2] = &tiles;
    NC_TRY(nck_cuda_launch(at, k->cover, nck_cuda_blocks(at.device, lines * tiles, 1), THREADS, cover));
    return nck_cuda_launch(at, k->settle, nck_cuda_blocks(at.device, lines, 1), PIECE, settle);
}

nc_code nck_cuda_nms_run(const nck_cuda_nms_kernel *k, nck_cuda_at at, const nck_cuda_nms *how, const void *boxes,
                         const void *scores, int64_t *y, int64_t *sizes, void *workspace) {
    nck_cuda_nms a = *how;
    int64_t lines = a.images * a.classes, n = a.most > 0 ? a.n : 0;
    char *seen = (char *)workspace + sort_bytes(lines, a.n);
    int64_t *order = (int64_t *)(void *)(seen + (size_t)(lines * a.n) * BOX), *kept = order + lines * a.n,
            *counts = kept + lines * a.n;
    uint8_t *covered = (uint8_t *)(counts + lines);
    nck_topk t = {.type = NC_FLOAT, .outer = lines, .axis = a.n, .inner = 1, .k = a.n, .largest = true};
    t.x = scores, t.indices = order;
    void *begin[] = {&a, &counts, &covered}, *write[] = {&a, &kept, &counts, &y, &sizes};
    void *cover[] = {&a, NULL, NULL, &boxes, &order, &seen, &counts, &covered};
    void *settle[] = {&a, NULL, &boxes, &scores, &order, &seen, &kept, &counts, &covered};
    NC_TRY(nck_cuda_topk_run(&k->sort, at, &t, workspace));
    NC_TRY(nck_cuda_launch(at, k->begin, nck_cuda_blocks(at.device, lines * PIECE, THREADS), THREADS, begin));
    for (int64_t from = 0; from < n; from += PIECE) NC_TRY(take_piece(k, at, &a, from, cover, settle));
    return nck_cuda_launch(at, k->write, nck_cuda_blocks(at.device, lines + 1, 1), THREADS, write);
}
