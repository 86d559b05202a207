/* cuda/norm.c: launchers of norm.cu, see norm.h. Short rows take a warp each, eight to a block; long ones a block
 * each. */
#include "kernels/cuda/norm.h"

#include <stdio.h>

enum { LONG_ROW = 256, LONG_VECTOR_ROW = 1025, VECTOR_BYTES = 16, THREADS = 256, SEGMENT = 128 };

nc_code nck_cuda_norm_prepare(nc_device *d, nc_dtype x, nc_dtype y, nc_dtype stat, nck_cuda_norm *out, nc_diag *diag) {
    if (!nc_dtype_is_float(x) || nck_cuda_accumulator(x) != nck_cuda_accumulator(y) ||
        nck_cuda_accumulator(x) == NC_UNDEFINED || nck_cuda_type_name(stat) == NULL)
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "normalization of %s with a scale of %s",
                           nc_dtype_name(x), nc_dtype_name(y));
    char define[64];
    snprintf(define, sizeof define, "#define W %s\n#define M %s\n", nck_cuda_type_name(y), nck_cuda_type_name(stat));
    size_t widest = nc_dtype_bytes(x) > nc_dtype_bytes(y) ? nc_dtype_bytes(x) : nc_dtype_bytes(y);
    *out = (nck_cuda_norm){.type = x, .vector = VECTOR_BYTES / (int64_t)widest};
    const struct {
        const char *entry;
        nc_function **f;
    } wanted[] = {{"norm_rows", &out->rows},
                  {"norm_vectors", &out->vectors},
                  {"norm_grad_rows", &out->grad_rows},
                  {"norm_grad_columns", &out->grad_columns},
                  {"norm_grad_join", &out->grad_join}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_norm, x, define, wanted[i].entry, wanted[i].f, diag));
    return NC_OK;
}

static nc_code launch_rows(nck_cuda_at at, nc_function *f, const nck_cuda_norm_args *a, int64_t long_row, void **args) {
    nc_dim3 block = a->cols >= long_row ? (nc_dim3){THREADS, 1, 1} : (nc_dim3){32, 8, 1};
    nc_dim3 grid = {nck_cuda_blocks(at.device, a->rows, block.y), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, f, grid, block, 0, args, at.diag);
}

/* Rows of whole vectors, scale and bias side by side along the columns. */
static bool takes_vectors(const nck_cuda_norm *k, const nck_cuda_norm_args *a) {
    return a->cols % k->vector == 0 && a->pick.rank == 1 && a->pick.strides[0][0] == 1 && a->pick.strides[1][0] == 1 &&
           (a->mod == 1 || a->row_step % k->vector == 0);
}

nc_code nck_cuda_norm_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *x,
                          const void *scale, const void *bias, void *y, void *mean, void *inv_std) {
    nck_cuda_norm_args copy = *a;
    void *args[] = {&copy, &x, &scale, &bias, &y, &mean, &inv_std};
    uintptr_t addresses = (uintptr_t)x | (uintptr_t)y | (uintptr_t)scale | (uintptr_t)bias;
    bool vectors = addresses % VECTOR_BYTES == 0 && takes_vectors(k, a);
    return launch_rows(at, vectors ? k->vectors : k->rows, a, vectors ? LONG_VECTOR_ROW : LONG_ROW, args);
}

static int64_t n_segments_of(int64_t rows) { return rows / SEGMENT + (rows % SEGMENT != 0); }

/* Mean and inverse deviation of every row, then the partial sums of the columns. */
size_t nck_cuda_norm_grad_workspace(int64_t rows, int64_t cols) {
    int64_t partial;
    if (!nc_mul_i64(n_segments_of(rows), cols, &partial) || !nc_add_i64(partial, rows, &partial) ||
        !nc_mul_i64(partial, 2 * (int64_t)sizeof(double), &partial))
        return SIZE_MAX;
    return (size_t)partial;
}

nc_code nck_cuda_norm_grad_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *dy,
                               const void *x, const void *scale, void *dx, void *dscale, void *dbias, void *workspace) {
    nck_cuda_norm_args copy = *a;
    int64_t segment = SEGMENT, n_segments = n_segments_of(a->rows), cols = a->cols;
    void *stats = workspace, *partial = (char *)workspace + 2 * (size_t)a->rows * sizeof(double);
    void *row_args[] = {&copy, &dy, &x, &scale, &dx, &stats};
    NC_TRY(launch_rows(at, k->grad_rows, a, LONG_ROW, row_args));
    if (dscale == NULL && dbias == NULL) return NC_OK;
    void *args[] = {&copy, &segment, &dy, &x, &stats, &partial};
    nc_dim3 grid = {nck_cuda_blocks(at.device, (cols + 31) / 32 * n_segments, 1), 1, 1};
    NC_TRY(at.device->table->launch_function(at.device, at.stream, k->grad_columns, grid, (nc_dim3){32, 8, 1}, 0, args,
                                             at.diag));
    void *join_args[] = {&cols, &n_segments, &partial, &dscale, &dbias};
    return nck_cuda_launch(at, k->grad_join, nck_cuda_blocks(at.device, cols, THREADS), THREADS, join_args);
}
