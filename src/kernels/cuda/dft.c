/* cuda/dft.c: launchers of dft.cu, see dft.h. */
#include "kernels/cuda/dft.h"

#include "base/intmath.h"

#include <stdio.h>

enum { THREADS = 256, PASS_THREADS = 128, MAX_STEPS = 4 };

/* Mirrors that of dft.cu. */
typedef struct dft_args {
    int64_t outer, inner, x_dim, y_dim, n, m;
    int x_parts, y_parts, inverse, onesided, chirp, unused;
} dft_args;

nc_code nck_cuda_dft_prepare(nc_device *d, nc_dtype t, nck_cuda_dft *out, nc_diag *diag) {
    static const char *const defines[] = {"#define T float\n", "#define T double\n"};
    *out = (nck_cuda_dft){.type = t};
    for (int i = t == NC_DOUBLE; i < 2; i++) {
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dft, t, defines[i], "dft_load", &out->of[i].load, diag));
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dft, t, defines[i], "dft_multiply", &out->of[i].multiply, diag));
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dft, t, defines[i], "dft_store", &out->of[i].store, diag));
        for (int k = 0; k < MAX_STEPS; k++) {
            char name[16];
            snprintf(name, sizeof name, "dft_pass_%d", 2 << k);
            NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_dft, t, defines[i], name, &out->of[i].pass[k], diag));
        }
    }
    return NC_OK;
}

static bool is_power(int64_t n) { return (n & (n - 1)) == 0; }

/* The power of two that is transformed for a length. */
static int64_t whole_of(int64_t n) {
    int64_t m = 1;
    while (m < (is_power(n) ? n : 2 * n - 1)) m *= 2;
    return m;
}

static bool is_wide(nc_dtype t, int64_t n) { return t == NC_DOUBLE || !is_power(n); }

size_t nck_cuda_dft_workspace(nc_dtype t, int64_t rows, int64_t length) {
    if (length < 1) return 0;
    return 2 * (size_t)(rows + !is_power(length)) * (size_t)whole_of(length) * 2 *
           (is_wide(t, length) ? sizeof(double) : sizeof(float));
}

/* All passes over rows of m; *from and *to: the buffers, which change places. */
static nc_code transform(const nck_cuda_dft *k, nck_cuda_at at, int wide, int64_t rows, int64_t m, int forward,
                         void **from, void **to) {
    for (int64_t done = 1; done < m;) {
        int steps = 1;
        while (steps < MAX_STEPS && done << (steps + 1) <= m) steps++;
        void *args[] = {&rows, &m, &done, &forward, from, to}, *was = *from;
        uint32_t blocks = nck_cuda_blocks(at.device, rows * (m >> steps), PASS_THREADS);
        NC_TRY(nck_cuda_launch(at, k->of[wide].pass[steps - 1], blocks, PASS_THREADS, args));
        *from = *to, *to = was;
        done <<= steps;
    }
    return NC_OK;
}

nc_code nck_cuda_dft_run(const nck_cuda_dft *k, nck_cuda_at at, const nc_tensor *x, int axis, int64_t length,
                         bool inverse, bool onesided, const nc_tensor *y, void *workspace) {
    int last = x->rank - 1, wide = is_wide(k->type, length);
    dft_args a = {1,
                  1,
                  x->dims[axis],
                  y->dims[axis],
                  length,
                  whole_of(length),
                  (int)x->dims[last],
                  (int)y->dims[last],
                  inverse,
                  onesided,
                  !is_power(length),
                  0};
    for (int d = 0; d < last; d++)
        if (d != axis) *(d < axis ? &a.outer : &a.inner) *= x->dims[d];
    int64_t rows = a.outer * a.inner, all = rows + a.chirp, bytes = all * a.m * 2 * (wide ? 8 : 4);
    const void *in = x->data;
    void *from = workspace, *to = (char *)workspace + bytes, *out = y->data;
    void *load[] = {&a, &in, &from}, *multiply[] = {&rows, &a.m, &from}, *store[] = {&a, &from, &out};
    if (nc_tensor_numel(y) == 0) return NC_OK;
    NC_TRY(nck_cuda_launch(at, k->of[wide].load, nck_cuda_blocks(at.device, all * a.m, THREADS), THREADS, load));
    NC_TRY(transform(k, at, wide, all, a.m, a.chirp || !inverse, &from, &to));
    if (a.chirp) {
        uint32_t blocks = nck_cuda_blocks(at.device, rows * a.m, THREADS);
        NC_TRY(nck_cuda_launch(at, k->of[wide].multiply, blocks, THREADS, multiply));
        NC_TRY(transform(k, at, wide, rows, a.m, false, &from, &to));
    }
    uint32_t blocks = nck_cuda_blocks(at.device, rows * a.y_dim, THREADS);
    return nck_cuda_launch(at, k->of[wide].store, blocks, THREADS, store);
}
