/* cuda/place.c: launchers of place.cu, see place.h. */
#include "kernels/cuda/place.h"

#include "base/real.h"
#include "kernels/cuda/move.h"

enum { THREADS = 256 };

nc_code nck_cuda_place_prepare(nc_device *d, const char *entry, nc_dtype t, size_t elem_bytes, nck_cuda_place *out,
                               nc_diag *diag) {
    const char *define = nck_cuda_move_define(elem_bytes);
    if (define == NULL || nck_cuda_type_name(t) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s of elements of %zu bytes by %s", entry, elem_bytes,
                           nc_dtype_name(t));
    *out = (nck_cuda_place){.type = t};
    return nck_cuda_find(d, NCK_CUDA_TEXT_place, t, define, entry, &out->function, diag);
}

static nc_code launch(const nck_cuda_place *k, nck_cuda_at at, int64_t n, void **args) {
    return nck_cuda_launch(at, k->function, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}

nc_code nck_cuda_trilu_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, int64_t rows, int64_t cols, bool upper,
                           const void *diagonal, const void *x, void *y) {
    int flag = upper;
    void *args[] = {&n, &rows, &cols, &flag, &diagonal, &x, &y};
    return launch(k, at, n, args);
}

nc_code nck_cuda_eye_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, int64_t cols, int64_t diagonal,
                         uint64_t one, void *y) {
    void *args[] = {&n, &cols, &diagonal, &one, &y};
    return launch(k, at, n, args);
}

nc_code nck_cuda_one_hot_run(const nck_cuda_place *k, nck_cuda_at at, int64_t outer, int64_t depth, int64_t inner,
                             const void *index, const void *values, void *y) {
    void *args[] = {&outer, &depth, &inner, &index, &values, &y};
    return launch(k, at, outer * depth * inner, args);
}

/* A number of the accumulator's type, as a kernel argument. */
typedef union number {
    float f32;
    double f64;
    int64_t i64;
} number;

static number number_of(nc_dtype t, const void *p) {
    if (nck_cuda_accumulator(t) == NC_FLOAT) return (number){.f32 = (float)nc_real_get_any(t, p, 0)};
    if (nck_cuda_accumulator(t) == NC_DOUBLE) return (number){.f64 = *(const double *)p};
    return (number){.i64 = t == NC_INT64   ? *(const int64_t *)p
                           : t == NC_INT32 ? *(const int32_t *)p
                                           : *(const int16_t *)p};
}

nc_code nck_cuda_range_run(const nck_cuda_place *k, nck_cuda_at at, int64_t n, const void *start, const void *delta,
                           void *y) {
    number first = number_of(k->type, start), step = number_of(k->type, delta);
    void *args[] = {&n, &first, &step, &y};
    return launch(k, at, n, args);
}

nc_code nck_cuda_triangles_run(const nck_cuda_place *k, nck_cuda_at at, int64_t rows, int64_t cols,
                               const nck_cuda_triangles *t, double *y) {
    nck_cuda_triangles edges = *t;
    void *args[] = {&rows, &cols, &edges, &y};
    return launch(k, at, rows * t->n, args);
}
