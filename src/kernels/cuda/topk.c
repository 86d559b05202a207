/* cuda/topk.c: launchers of topk.cu, see topk.h. */
#include "kernels/cuda/topk.h"

#include "base/intmath.h"

enum { THREADS = 256, FEW = 64, MAX_LINES = 256 }; /* picked one by one; sorted at once */

/* Mirrors topk_args of topk.cu. */
typedef struct topk_args {
    int64_t outer, axis, inner, k, n_sorted;
    int largest, unused;
} topk_args;

nc_code nck_cuda_topk_prepare(nc_device *d, nc_dtype t, nck_cuda_topk *out, nc_diag *diag) {
    if (nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not sorted on a GPU", nc_dtype_name(t));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_topk, t, NULL, "topk_pick", &out->pick, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_topk, t, NULL, "topk_sort", &out->sort, diag);
}

static int64_t power_of_two(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

/* Booked whatever k is: a smaller one may be sorted where a larger one, of a longer axis, is picked. */
size_t nck_cuda_topk_workspace(int64_t lines, int64_t axis, int64_t k) {
    (void)k;
    return (size_t)nc_min64(lines, MAX_LINES) * (size_t)power_of_two(axis) * sizeof(int64_t);
}

nc_code nck_cuda_topk_run(const nck_cuda_topk *k, nck_cuda_at at, const nck_topk *t, void *workspace) {
    topk_args p = {t->outer, t->axis, t->inner, t->k, power_of_two(t->axis), t->largest, 0};
    int64_t lines = t->outer * t->inner;
    const void *x = t->x;
    void *values = t->values, *indices = t->indices, *args[] = {&p, &x, &values, &indices, &workspace};
    if (lines == 0 || t->k == 0) return NC_OK;
    if (t->k <= FEW) return nck_cuda_launch(at, k->pick, nck_cuda_blocks(at.device, lines, 1), THREADS, args);
    return nck_cuda_launch(at, k->sort, (uint32_t)nc_min64(lines, MAX_LINES), THREADS, args);
}
