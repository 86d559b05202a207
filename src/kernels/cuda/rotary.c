/* cuda/rotary.c: the launcher of rotary.cu, see rotary.h. */
#include "kernels/cuda/rotary.h"

enum { THREADS = 256 };

nc_code nck_cuda_rotary_prepare(nc_device *d, nc_dtype t, nck_cuda_rotary *out, nc_diag *diag) {
    if (nck_cuda_accumulator(t) != NC_FLOAT)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "rotary embedding of %s", nc_dtype_name(t));
    return nck_cuda_find(d, NCK_CUDA_TEXT_rotary, t, NULL, "rotary", &out->function, diag);
}

nc_code nck_cuda_rotary_run(const nck_cuda_rotary *k, const nc_call *c, const nck_cuda_rotary_args *a, const void *x,
                            const void *cosine, const void *sine, const void *ids, void *y) {
    nck_cuda_rotary_args copy = *a;
    nck_cuda_site site = nck_cuda_site_of(c);
    int64_t n = a->batches * a->heads * a->rows * (a->columns - a->turned / 2);
    void *args[] = {&copy, &site, &x, &cosine, &sine, &ids, &y};
    return nck_cuda_launch(nck_cuda_at_call(c), k->function, nck_cuda_blocks(c->device, n, THREADS), THREADS, args);
}
