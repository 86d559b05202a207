/* cuda/pool.c: launchers of pool.cu and pool_max.cu, see pool.h. */
#include "kernels/cuda/pool.h"

#include "kernels/cuda/window.h"

enum { THREADS = 256, VECTOR_BYTES = 16 };

nc_code nck_cuda_pool_prepare(nc_device *d, nc_dtype t, nck_cuda_pool_kind kind, nck_cuda_pool *out, nc_diag *diag) {
    const char *least = t == NC_INT8    ? "#define LEAST -128\n"
                        : t == NC_UINT8 ? "#define LEAST 0\n"
                                        : "#define LEAST -INF\n";
    *out = (nck_cuda_pool){0};
    if (kind == NCK_CUDA_POOL_MAX) {
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_pool_max, t, least, "pool_max_last", &out->max_last, diag));
        return nck_cuda_find(d, NCK_CUDA_TEXT_pool_max, t, least, "pool_max", &out->max, diag);
    }
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_pool, t, NULL, "pool_average", &out->average, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_pool, t, NULL, "pool_average_grad", &out->average_grad, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_pool, t, NULL, "pool_lp", &out->lp, diag);
}

/* One thread for each of n elements of every plane. */
static nc_code launch(nck_cuda_at at, nc_function *f, const nck_pool_args *a, int64_t n, void **args) {
    return nck_cuda_launch(at, f, nck_cuda_blocks(at.device, a->planes * n, THREADS), THREADS, args);
}

/* The last dim is not pooled, and vectors of it lie aligned. */
static bool has_channels_last(const nck_cuda_window *w, const nck_pool_args *a) {
    size_t es = nc_dtype_bytes(a->type);
    return w->k[2] == 1 && w->stride[2] == 1 && w->pad[2] == 0 && w->in[2] == w->out[2] &&
           (size_t)w->in[2] * es % VECTOR_BYTES == 0 && ((uintptr_t)a->x | (uintptr_t)a->y) % VECTOR_BYTES == 0;
}

nc_code nck_cuda_pool_max(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, int64_t *index,
                          bool column_major) {
    nck_pool_args v = *a;
    nck_cuda_window w;
    int by_columns = column_major;
    NC_TRY(nck_cuda_window_of(&a->w, &w, at.diag));
    void *args[] = {&w, &v.planes, &by_columns, &v.x, &v.y, &index}, *last[] = {&w, &v.planes, &v.x, &v.y};
    if (index == NULL && has_channels_last(&w, a))
        return launch(at, k->max_last, a, nck_window_n_out(&a->w) * (int64_t)nc_dtype_bytes(a->type) / VECTOR_BYTES,
                      last);
    return launch(at, k->max, a, nck_window_n_out(&a->w), args);
}

static nc_code average(nc_function *f, nck_cuda_at at, const nck_pool_args *a, nck_pool_divide by, int64_t n) {
    nck_pool_args v = *a;
    nck_cuda_window w;
    int how = (int)by;
    NC_TRY(nck_cuda_window_of(&a->w, &w, at.diag));
    void *args[] = {&w, &v.planes, &how, &v.x, &v.y};
    return launch(at, f, a, n, args);
}

nc_code nck_cuda_pool_average(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, nck_pool_divide by) {
    return average(k->average, at, a, by, nck_window_n_out(&a->w));
}

nc_code nck_cuda_pool_average_grad(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, nck_pool_divide by) {
    return average(k->average_grad, at, a, by, nck_window_n_in(&a->w));
}

nc_code nck_cuda_pool_lp(const nck_cuda_pool *k, nck_cuda_at at, const nck_pool_args *a, double p) {
    nck_pool_args v = *a;
    nck_cuda_window w;
    NC_TRY(nck_cuda_window_of(&a->w, &w, at.diag));
    void *args[] = {&w, &v.planes, &p, &v.x, &v.y};
    return launch(at, k->lp, a, nck_window_n_out(&a->w), args);
}
