/* cuda/sample.c: launchers of sample.cu, see sample.h. */
#include "kernels/cuda/sample.h"

#include "base/intmath.h"

#include <stdio.h>

enum { THREADS = 256, CHANNELS = 8, PLACES = 32 };

nc_code nck_cuda_sample_prepare(nc_device *d, nc_dtype x, nc_dtype grid, const nck_grid_sample *s, int axes,
                                bool gradient, nck_cuda_sample_kernel *out, nc_diag *diag) {
    int taps = s->mode == NCK_SAMPLE_NEAREST ? 1 : s->mode == NCK_SAMPLE_LINEAR ? 2 : 4;
    char define[96];
    const struct {
        const char *name;
        nc_function **to;
    } all[] = {{"sample", &out->sample},
               {"sample_words", &out->words},
               {"sample_begins", &out->begins},
               {"sample_dx", &out->dx},
               {"sample_dgrid", &out->dgrid}};
    snprintf(define, sizeof define, "#define TAPS %d\n#define AXES %d\n#define G %s\n", taps, axes,
             nck_cuda_type_name(grid));
    *out = (nck_cuda_sample_kernel){.taps = 1, .bytes_weight = nc_dtype_bytes(nck_cuda_accumulator(x))};
    for (int k = 0; k < axes; k++) out->taps *= taps;
    for (size_t i = gradient; i < (gradient ? sizeof all / sizeof *all : 1); i++)
        NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_sample, x, define, all[i].name, all[i].to, diag));
    return gradient ? nck_cuda_sort_prepare(d, &out->sort, diag) : NC_OK;
}

/* y: the result, or what arrives. */
static nck_cuda_sample args_of(const nck_grid_sample *s) {
    nck_cuda_sample a = {.N = s->x->dims[0],
                         .C = s->x->dims[1],
                         .P = 1,
                         .pixels = 1,
                         .padding = s->padding,
                         .align_corners = s->align_corners,
                         .in_pixels = s->in_pixels};
    for (int k = 2; k < s->x->rank; k++) {
        a.pixels *= a.d[k - 2] = s->x->dims[k];
        a.P *= s->y->dims[k];
    }
    return a;
}

nc_code nck_cuda_sample_run(const nck_cuda_sample_kernel *k, nck_cuda_at at, const nck_grid_sample *s) {
    nck_cuda_sample a = args_of(s);
    const void *x = s->x->data, *grid = s->grid->data;
    void *y = s->y->data, *args[] = {&a, &x, &grid, &y};
    int64_t items = a.N * nc_ceil_div(a.C, CHANNELS) * a.P;
    return nck_cuda_launch(at, k->sample, nck_cuda_blocks(at.device, items, THREADS), THREADS, args);
}

/* The words to sort, the weights of taps, where the words of pixels begin. */
typedef struct rooms {
    size_t sort, weights, begins;
} rooms;
static rooms rooms_of(const nck_cuda_sample_kernel *k, int64_t places, int64_t pixels) {
    int64_t taps;
    if (!nc_mul_i64(places, k->taps, &taps)) taps = INT64_MAX;
    rooms r = {.sort = nck_cuda_sort_workspace(taps)};
    if (r.sort == SIZE_MAX) return r;
    r.sort = nc_align64(r.sort);
    r.weights = nc_align64((size_t)taps * k->bytes_weight);
    r.begins = (size_t)(pixels + 1) * sizeof(uint32_t);
    return r;
}

size_t nck_cuda_sample_workspace(const nck_cuda_sample_kernel *k, const nc_tensor *x, const nc_tensor *grid) {
    int64_t places = 1, pixels = x->dims[0];
    for (int d = 0; d < grid->rank - 1; d++) places *= grid->dims[d];
    for (int d = 2; d < x->rank; d++) pixels *= x->dims[d];
    rooms r = rooms_of(k, places, pixels);
    return r.sort == SIZE_MAX ? SIZE_MAX : r.sort + r.weights + r.begins;
}

static nc_code run_dx(const nck_cuda_sample_kernel *k, nck_cuda_at at, const nck_grid_sample *s, nck_cuda_sample a,
                      char *workspace) {
    int64_t n = a.N * a.P * k->taps, pixels = a.N * a.pixels, items = a.N * nc_ceil_div(a.C, CHANNELS) * a.pixels;
    rooms r = rooms_of(k, a.N * a.P, pixels);
    uint64_t *words = (uint64_t *)workspace;
    const void *grid = s->grid->data, *dy = s->y->data;
    void *weights = workspace + r.sort, *begins = workspace + r.sort + r.weights, *dx = s->dx->data;
    void *of_words[] = {&a, &grid, &words, &weights}, *of_begins[] = {&a, &words, &begins};
    void *of_dx[] = {&a, &words, &weights, &begins, &dy, &dx};
    a.bits = nck_cuda_sort_bits(n);
    int end = a.bits + nck_cuda_sort_bits(pixels + 1);
    if (end > 64)
        return nc_diag_set(at.diag, NC_E_LIMIT, NULL, NULL, "%lld taps of %lld pixels are too many to sort",
                           (long long)n, (long long)pixels);
    NC_TRY(nck_cuda_launch(at, k->words, nck_cuda_blocks(at.device, a.N * a.P, THREADS), THREADS, of_words));
    NC_TRY(nck_cuda_sort_run(&k->sort, at, n, a.bits, end, workspace, &words));
    NC_TRY(nck_cuda_launch(at, k->begins, nck_cuda_blocks(at.device, n + 1, THREADS), THREADS, of_begins));
    return nck_cuda_launch(at, k->dx, nck_cuda_blocks(at.device, items, THREADS), THREADS, of_dx);
}

nc_code nck_cuda_sample_grad_run(const nck_cuda_sample_kernel *k, nck_cuda_at at, const nck_grid_sample *s,
                                 void *workspace) {
    nck_cuda_sample a = args_of(s);
    const void *x = s->x->data, *grid = s->grid->data, *dy = s->y->data;
    if (s->dx != NULL) NC_TRY(run_dx(k, at, s, a, workspace));
    if (s->dgrid == NULL) return NC_OK;
    void *dgrid = s->dgrid->data, *args[] = {&a, &x, &grid, &dy, &dgrid};
    return nck_cuda_launch(at, k->dgrid, nck_cuda_blocks(at.device, a.N * a.P, PLACES), THREADS, args);
}
