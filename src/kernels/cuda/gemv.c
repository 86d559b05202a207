/* cuda/gemv.c: launchers of gemv.cu, see gemv.h. */
#include "kernels/cuda/gemv.h"

#include "base/intmath.h"

enum { THREADS = 512, ROW_THREADS = 128, ROWS = 4, VECTOR_BYTES = 16 };
/* Vectors of a row of B from which a block takes eight of them, whole lines of the cache: there are blocks enough. With
 * less than four a block the H200 reads at two thirds of the rate. */
enum { WIDE = 2048 };

/* Mirrors gemv_args in gemv.cu. */
typedef struct gemv_args {
    int64_t N, K, step;
    float alpha;
    const void *x, *b, *bias, *other;
    void *y;
} gemv_args;

nc_code nck_cuda_gemv_prepare(nc_device *d, nc_dtype t, nck_cuda_gemv *out, nc_diag *diag) {
    *out = (nck_cuda_gemv){.vector = VECTOR_BYTES / (int64_t)nc_dtype_bytes(t)};
    const struct {
        const char *entry;
        nc_function **f;
    } wanted[] = {
        {"gemv_columns_4", &out->columns[0]}, {"gemv_columns_8", &out->columns[1]}, {"gemv_rows", &out->rows}};
    if (nck_cuda_accumulator(t) != NC_FLOAT) return NC_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_gemv, t, NULL, wanted[i].entry, wanted[i].f, diag));
    return NC_OK;
}

static bool aligned(const void *p) { return (uintptr_t)p % VECTOR_BYTES == 0; }

/* Elements lie side by side along N, lines of V whole vectors. */
static bool along_n(const nck_cuda_gemm_args *g, int64_t V) {
    return g->b.cs == 1 && g->N % V == 0 && g->b.rs % V == 0;
}
static bool along_k(const nck_cuda_gemm_args *g, int64_t V) {
    return g->b.rs == 1 && g->K % V == 0 && g->b.cs % V == 0 && aligned(g->a.data);
}

bool nck_cuda_gemv_takes(const nck_cuda_gemv *k, const nck_cuda_gemm_args *g) {
    if (k->rows == NULL || g->M != 1 || g->n_batch != 1 || g->K == 0 || g->beta != 0 || g->gelu) return false;
    if (g->c.cs != 1 || (g->a.cs != 1 && g->K != 1) || !aligned(g->b.data) || g->N > (int64_t)INT32_MAX * ROWS)
        return false;
    return along_n(g, k->vector) || along_k(g, k->vector);
}

nc_code nck_cuda_gemv_run(const nck_cuda_gemv *k, nck_cuda_at at, const nck_cuda_gemm_args *g) {
    gemv_args v = {.N = g->N,
                   .K = g->K,
                   .alpha = (float)g->alpha,
                   .x = g->a.data,
                   .b = g->b.data,
                   .bias = g->bias,
                   .other = g->other,
                   .y = g->c.data};
    void *args[] = {&v};
    if (!along_n(g, k->vector)) {
        v.step = g->b.cs;
        return nck_cuda_launch(at, k->rows, (uint32_t)nc_ceil_div(g->N, ROWS), ROW_THREADS, args);
    }
    int64_t vectors = g->N / k->vector, wide = vectors >= WIDE;
    v.step = g->b.rs;
    return nck_cuda_launch(at, k->columns[wide], (uint32_t)nc_ceil_div(vectors, (int64_t)4 << wide), THREADS, args);
}
