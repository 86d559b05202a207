/* cuda/rows.c: launchers of rows.cu, see rows.h. */
#include "kernels/cuda/rows.h"

#include "kernels/cuda/move.h"

enum { THREADS = 256 };

nc_code nck_cuda_rows_prepare(nc_device *d, const char *entry, size_t elem_bytes, nc_function **out, nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes);
    if (define == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s of elements of %zu bytes", entry, elem_bytes);
    return nck_cuda_find(d, NCK_CUDA_TEXT_rows, NC_UNDEFINED, define, entry, out, diag);
}

static nc_code launch(nc_function *f, const nc_call *c, int64_t n, void **args) {
    return nck_cuda_launch(nck_cuda_at_call(c), f, nck_cuda_blocks(c->device, n, THREADS), THREADS, args);
}

nc_code nck_cuda_reverse_run(nc_function *f, const nc_call *c, int64_t n_time, int64_t n_batch, int64_t inner,
                             bool time_first, const void *lens, const void *x, void *y) {
    nck_cuda_site site = nck_cuda_site_of(c);
    int64_t first = time_first;
    void *args[] = {&site, &n_time, &n_batch, &inner, &first, &lens, &x, &y};
    return launch(f, c, n_time * n_batch * inner, args);
}

nc_code nck_cuda_put_rows_run(nc_function *f, const nc_call *c, const nck_cuda_put *p) {
    nck_cuda_site site = nck_cuda_site_of(c);
    nck_cuda_put v = *p;
    int64_t circular = p->circular;
    void *args[] = {&site, &v.n_batch, &v.outer, &v.rows, &v.inner, &v.n, &circular, &v.at, &v.u, &v.y};
    return launch(f, c, p->n_batch * p->outer * p->n * p->inner, args);
}
