/* cuda/move.c: launchers of copy.cu, see move.h. */
#include "kernels/cuda/move.h"

#include <string.h>

enum { THREADS = 256 };

const char *nck_cuda_move_define(size_t bytes) {
    static const char *const defines[9] = {[1] = "#define U uint8_t\n",
                                           [2] = "#define U uint16_t\n",
                                           [4] = "#define U uint32_t\n",
                                           [8] = "#define U uint64_t\n"};
    return bytes < 9 ? defines[bytes] : NULL;
}

nc_code nck_cuda_move_prepare(nc_device *d, size_t elem_bytes, nck_cuda_move *out, nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes == 16 ? 8 : elem_bytes);
    if (define == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not moved on a GPU",
                           elem_bytes);
    *out = (nck_cuda_move){.bytes = elem_bytes};
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_copy, NC_UNDEFINED, define, "copy", &out->copy, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_copy, NC_UNDEFINED, define, "fill", &out->fill, diag);
}

/* Elements of 16 bytes as a last dim of two halves; false when the rank leaves no room for it. */
static bool halve(nck_cuda_walk *w) {
    if (w->rank == NC_MAX_RANK) return false;
    for (int64_t d = 0; d < w->rank; d++) w->strides[0][d] *= 2, w->strides[1][d] *= 2;
    w->dims[w->rank] = 2;
    w->strides[0][w->rank] = w->strides[1][w->rank] = 1;
    w->rank++;
    return true;
}

nc_code nck_cuda_copy(const nck_cuda_move *k, nck_cuda_at at, int rank, const int64_t *dims, const void *src,
                      const int64_t *src_strides, void *dst, const int64_t *dst_strides) {
    nck_cuda_walk w = nck_cuda_walk_of(rank, dims, dst_strides, src_strides);
    int64_t n = 1;
    for (int64_t d = 0; d < w.rank; d++) n *= w.dims[d];
    if (n == 0) return NC_OK;
    if (w.rank == 1 && (n == 1 || (w.strides[0][0] == 1 && w.strides[1][0] == 1)))
        return at.device->table->copy(at.device, at.stream, dst, false, src, false, (size_t)n * k->bytes, at.diag);
    if (k->bytes == 16) {
        if (!halve(&w)) return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "a copy of too many dims");
        n *= 2;
    }
    void *args[] = {&w, &n, &dst, &src};
    return nck_cuda_launch(at, k->copy, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

nc_code nck_cuda_fill(const nck_cuda_move *k, nck_cuda_at at, const nc_tensor *dst, const void *value) {
    uint64_t word = 0;
    if (k->bytes > sizeof word)
        return nc_diag_set(at.diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not filled on a GPU",
                           k->bytes);
    memcpy(&word, value, k->bytes);
    nck_cuda_walk w = nck_cuda_walk_of(dst->rank, dst->dims, dst->strides, NULL);
    int64_t n = nc_tensor_numel(dst);
    void *data = dst->data, *args[] = {&w, &n, &data, &word};
    return nck_cuda_launch(at, k->fill, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}
