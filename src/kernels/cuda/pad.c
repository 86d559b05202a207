/* cuda/pad.c: the launcher of pad.cu, see pad.h. */
#include "kernels/cuda/pad.h"

#include "base/intmath.h"
#include "kernels/cuda/move.h"

enum { THREADS = 256 };

/* Mirrors pad_args of pad.cu. */
typedef struct device_pad {
    int64_t rank, mode;
    int64_t dims[NC_MAX_RANK], sizes[NC_MAX_RANK], begin[NC_MAX_RANK], strides[NC_MAX_RANK];
} device_pad;

nc_code nck_cuda_pad_prepare(nc_device *d, size_t elem_bytes, nck_cuda_pad *out, nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes);
    if (define == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "elements of %zu bytes are not padded on a GPU",
                           elem_bytes);
    return nck_cuda_find(d, NCK_CUDA_TEXT_pad, NC_UNDEFINED, define, "pad", &out->pad, diag);
}

nc_code nck_cuda_pad_run(const nck_cuda_pad *k, nck_cuda_at at, nck_pad_mode mode, const nc_tensor *x,
                         const int64_t *begin, const void *given, const uint64_t *value, const nc_tensor *y) {
    device_pad p = {.rank = y->rank, .mode = (int64_t)mode};
    uint64_t word = *value;
    int64_t n = nc_tensor_numel(y);
    const char *from = x->data;
    for (int d = 0; d < y->rank; d++) {
        int64_t first;
        p.dims[d] = y->dims[d];
        p.sizes[d] = nck_pad_left(y->dims[d], x->dims[d], begin[d], &first);
        p.begin[d] = nc_max64(begin[d], 0);
        p.strides[d] = x->strides[d];
        from += first * x->strides[d] * (int64_t)nc_dtype_bytes(x->dtype);
    }
    void *to = y->data, *args[] = {&p, &n, &word, &given, &from, &to};
    return nck_cuda_launch(at, k->pad, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}
