/* cuda/sort.c: launchers of sort.cu, see sort.h. */
#include "kernels/cuda/sort.h"

#include "base/intmath.h"

enum { THREADS = 256, TILE = 4096, DIGITS = 256, STEP = 8 };

nc_code nck_cuda_sort_prepare(nc_device *d, nck_cuda_sort *out, nc_diag *diag) {
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_sort, NC_UNDEFINED, NULL, "sort_count", &out->count, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_sort, NC_UNDEFINED, NULL, "sort_add", &out->add, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_sort, NC_UNDEFINED, NULL, "sort_move", &out->move, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_sort, NC_UNDEFINED, NULL, "sort_one", &out->one, diag);
}

size_t nck_cuda_sort_workspace(int64_t n) {
    if (n < 0 || n >= UINT32_MAX) return SIZE_MAX;
    return 2 * (size_t)n * sizeof(uint64_t) + (size_t)(nc_ceil_div(n, TILE) + 1) * DIGITS * sizeof(uint32_t);
}

int nck_cuda_sort_bits(int64_t n) {
    int bits = 1;
    while (bits < 63 && (n - 1) >> bits > 0) bits++;
    return bits;
}

nc_code nck_cuda_sort_run(const nck_cuda_sort *k, nck_cuda_at at, int64_t n, int lo, int hi, void *workspace,
                          uint64_t **sorted) {
    uint64_t *from = workspace, *to = from + n;
    int64_t tiles = nc_ceil_div(n, TILE);
    uint32_t *counts = (uint32_t *)(to + n), *totals = counts + tiles * DIGITS;
    uint32_t blocks = nck_cuda_blocks(at.device, tiles, 1);
    *sorted = from;
    if (tiles <= 1) {
        int count = (int)n;
        void *args[] = {&count, &lo, &hi, &from};
        return n > 1 ? nck_cuda_launch(at, k->one, 1, THREADS, args) : NC_OK;
    }
    for (int shift = lo; shift < hi; shift += STEP) {
        uint64_t mask = hi - shift < STEP ? (1ull << (hi - shift)) - 1 : DIGITS - 1;
        void *count[] = {&n, &tiles, &shift, &mask, &from, &counts}, *add[] = {&tiles, &counts, &totals};
        void *move[] = {&n, &tiles, &shift, &mask, &counts, &totals, &from, &to};
        NC_TRY(nck_cuda_launch(at, k->count, blocks, THREADS, count));
        NC_TRY(nck_cuda_launch(at, k->add, DIGITS, THREADS, add));
        NC_TRY(nck_cuda_launch(at, k->move, blocks, THREADS, move));
        *sorted = to, to = from, from = *sorted;
    }
    return NC_OK;
}
