/* cuda/norm.c: launchers of norm.cu, norm_sum.cu and norm_grad.cu, see norm.h. Short rows take a warp each, eight to a
 * block; long ones a block each. */
#include "kernels/cuda/norm.h"

#include "base/intmath.h"
#include "kernels/cuda/random.h"

#include <stdio.h>

enum { LONG_ROW = 256, LONG_VECTOR_ROW = 1025, VECTOR_BYTES = 16, THREADS = 256, COLUMNS = 4 };
enum { LEAST_ROWS = 16, COLUMN_ROWS = 128, MOST_SEGMENTS = 1024, MOST_SUMS = 3 };

static nc_dtype narrow_of(const nck_cuda_norm_types *t) { return t->narrow != NC_UNDEFINED ? t->narrow : t->dx; }

static nc_code check_types(const nck_cuda_norm_types *t, nc_diag *diag) {
    const nc_dtype all[] = {t->x, t->scale, t->y, t->dx, narrow_of(t)};
    nc_dtype wide = nck_cuda_accumulator(t->x);
    bool known = nc_dtype_is_float(t->x) && wide != NC_UNDEFINED && nck_cuda_type_name(t->stat) != NULL;
    for (int i = 0; known && i < 5; i++) known = nck_cuda_accumulator(all[i]) == wide;
    if (known) return NC_OK;
    return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "normalization of %s to %s with a scale of %s",
                       nc_dtype_name(t->x), nc_dtype_name(t->y), nc_dtype_name(t->scale));
}

typedef struct wanted {
    const char *entry;
    nc_function **f;
} wanted;

/* Elements of a vector, and the functions that are wanted of a text. */
static nc_code find_all(nc_device *d, nck_cuda_text file, const nck_cuda_norm_types *t, nck_cuda_norm *out,
                        const wanted *w, size_t n, nc_diag *diag) {
    NC_TRY(check_types(t, diag));
    char define[160];
    snprintf(define, sizeof define, "#define W %s\n#define Y %s\n#define X %s\n#define M %s\n#define H %s\n%s",
             nck_cuda_type_name(t->scale), nck_cuda_type_name(t->y), nck_cuda_type_name(t->dx),
             nck_cuda_type_name(t->stat), nck_cuda_type_name(narrow_of(t)), t->drops ? "#define DROPOUT\n" : "");
    const size_t bytes[] = {nc_dtype_bytes(t->x), nc_dtype_bytes(t->y), nc_dtype_bytes(t->dx),
                            nc_dtype_bytes(t->scale)};
    size_t least = bytes[0], most = bytes[0];
    for (int i = 1; i < 4; i++) {
        least = i < 3 && bytes[i] < least ? bytes[i] : least;
        most = bytes[i] > most ? bytes[i] : most;
    }
    *out = (nck_cuda_norm){.vector = (int64_t)(VECTOR_BYTES / least), .widest = most};
    for (size_t i = 0; i < n; i++) NC_TRY(nck_cuda_find(d, file, t->x, define, w[i].entry, w[i].f, diag));
    return NC_OK;
}

nc_code nck_cuda_norm_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out, nc_diag *diag) {
    const wanted w[] = {{"norm_rows", &out->rows}, {"norm_vectors", &out->vectors}};
    return find_all(d, NCK_CUDA_TEXT_norm, t, out, w, sizeof w / sizeof *w, diag);
}

nc_code nck_cuda_norm_sum_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out, nc_diag *diag) {
    const wanted w[] = {{"norm_sum_rows", &out->sum_rows}, {"norm_sum_vectors", &out->sum_vectors}};
    return find_all(d, NCK_CUDA_TEXT_norm_sum, t, out, w, sizeof w / sizeof *w, diag);
}

nc_code nck_cuda_norm_grad_prepare(nc_device *d, const nck_cuda_norm_types *t, nck_cuda_norm *out, nc_diag *diag) {
    const wanted w[] = {{"norm_grad_rows", &out->grad_rows},
                        {"norm_grad_vectors", &out->grad_vectors},
                        {"norm_grad_sums", &out->grad_sums},
                        {"norm_grad_columns", &out->grad_columns},
                        {"norm_grad_columns_4", &out->grad_columns_4},
                        {"norm_grad_narrow", &out->grad_narrow},
                        {"norm_grad_join", &out->grad_join}};
    return find_all(d, NCK_CUDA_TEXT_norm_grad, t, out, w, sizeof w / sizeof *w, diag);
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
    bool vectors = addresses % (k->vector * k->widest) == 0 && takes_vectors(k, a);
    return launch_rows(at, vectors ? k->vectors : k->rows, a, vectors ? LONG_VECTOR_ROW : LONG_ROW, args);
}

nck_cuda_norm_drop nck_cuda_norm_drop_of(const void *state, int64_t node, double ratio) {
    return (nck_cuda_norm_drop){state, (uint32_t)node, nck_cuda_drop_limit(ratio), 1.0 / (1.0 - ratio)};
}

nc_code nck_cuda_norm_sum_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a,
                              const nck_cuda_norm_sum *of, const void *scale, const void *bias, void *y, void *mean,
                              void *inv_std) {
    nck_cuda_norm_args copy = *a;
    nck_cuda_norm_sum sum = *of;
    void *args[] = {&copy, &sum, &scale, &bias, &y, &mean, &inv_std};
    uintptr_t addresses = (uintptr_t)sum.part | (uintptr_t)sum.other | (uintptr_t)sum.sum | (uintptr_t)y |
                          (uintptr_t)scale | (uintptr_t)bias;
    bool vectors = addresses % (k->vector * k->widest) == 0 && takes_vectors(k, a);
    return launch_rows(at, vectors ? k->sum_vectors : k->sum_rows, a, vectors ? LONG_VECTOR_ROW : LONG_ROW, args);
}

/* Rows of a segment: enough blocks to fill a GPU where one block is a segment, and partial sums that stay small. */
static int64_t segment_of(int64_t rows) { return nc_max64(LEAST_ROWS, nc_ceil_div(rows, MOST_SEGMENTS)); }

/* Mean and inverse deviation of every row, then the partial sums of the columns. */
size_t nck_cuda_norm_grad_workspace(int64_t rows, int64_t cols) {
    int64_t partial;
    if (!nc_mul_i64(nc_ceil_div(rows, segment_of(rows)), cols, &partial) || !nc_add_i64(partial, rows, &partial) ||
        !nc_mul_i64(partial, MOST_SUMS * (int64_t)sizeof(double), &partial))
        return SIZE_MAX;
    return (size_t)partial;
}

/* n_sums 3: those of the narrow gradient too. */
static nc_code join_segments(const nck_cuda_norm *k, nck_cuda_at at, int64_t cols, int64_t n_segments, int64_t n_sums,
                             void *partial, const nck_cuda_norm_grads *to) {
    nck_cuda_norm_grads out = *to;
    void *args[] = {&cols, &n_segments, &n_sums, &partial, &out.dscale, &out.dbias, &out.narrow_sums};
    const nc_dim3 grid = {(uint32_t)nc_ceil_div(cols, 32), (uint32_t)n_sums, 1}, block = {32, 32, 1};
    return at.device->table->launch_function(at.device, at.stream, k->grad_join, grid, block, 0, args, at.diag);
}

static nc_code by_columns(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *dy,
                          const void *x, const nck_cuda_norm_grads *to, void *stats, void *partial) {
    nck_cuda_norm_args copy = *a;
    int64_t segment = nc_max64(COLUMN_ROWS, segment_of(a->rows)), cols = a->cols;
    int64_t n_segments = nc_ceil_div(a->rows, segment);
    bool four = cols % COLUMNS == 0 && ((uintptr_t)dy | (uintptr_t)x) % (COLUMNS * k->widest) == 0;
    int64_t groups = nc_ceil_div(cols, four ? 32 * COLUMNS : 32);
    const nc_dim3 block = {32, 8, 1}, grid = {nck_cuda_blocks(at.device, groups * n_segments, 1), 1, 1};
    void *args[] = {&copy, &segment, &dy, &x, &stats, &partial};
    nc_function *columns = four ? k->grad_columns_4 : k->grad_columns;
    NC_TRY(at.device->table->launch_function(at.device, at.stream, columns, grid, block, 0, args, at.diag));
    return join_segments(k, at, cols, n_segments, 2, partial, to);
}

/* Mirrors norm_dx of norm_grad.cu. */
typedef struct device_dx {
    void *dx;
    const void *other;
    void *narrow;
    int64_t n_sums;
    const void *mean, *inv_std;
    nck_cuda_norm_drop drop;
} device_dx;

static device_dx dx_of(const nck_cuda_norm_grads *to) {
    return (device_dx){to->dx, to->other, to->narrow, to->narrow_sums ? 3 : 2, to->mean, to->inv_std, to->drop};
}

/* Rows that a block holds, a vector a thread. */
static nc_code by_segments(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *dy,
                           const void *x, const void *scale, const nck_cuda_norm_grads *to, void *partial) {
    nck_cuda_norm_args copy = *a;
    device_dx into = dx_of(to);
    int64_t segment = segment_of(a->rows), n_segments = nc_ceil_div(a->rows, segment);
    void *args[] = {&copy, &segment, &dy, &x, &scale, &into, &partial};
    const nc_dim3 grid = {(uint32_t)n_segments, 1, 1};
    const nc_dim3 block = {(uint32_t)nc_ceil_div(a->cols / k->vector, 32) * 32, 1, 1};
    NC_TRY(at.device->table->launch_function(at.device, at.stream, k->grad_sums, grid, block, 0, args, at.diag));
    return join_segments(k, at, a->cols, n_segments, into.n_sums, partial, to);
}

/* The sums of a narrow gradient that is there, for rows that no block holds: slow. */
static nc_code sum_narrow(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a,
                          const nck_cuda_norm_grads *to) {
    device_dx from = dx_of(to);
    void *sums = to->narrow_sums;
    int64_t rows = a->rows, cols = a->cols;
    void *args[] = {&rows, &cols, &from, &sums};
    return nck_cuda_launch(at, k->grad_narrow, nck_cuda_blocks(at.device, cols, THREADS), THREADS, args);
}

nc_code nck_cuda_norm_grad_run(const nck_cuda_norm *k, nck_cuda_at at, const nck_cuda_norm_args *a, const void *dy,
                               const void *x, const void *scale, const nck_cuda_norm_grads *to, void *workspace) {
    nck_cuda_norm_args copy = *a;
    device_dx into = dx_of(to);
    void *stats = workspace, *partial = (char *)workspace + 2 * (size_t)a->rows * sizeof(double);
    void *row_args[] = {&copy, &dy, &x, &scale, &into, &stats};
    uintptr_t addresses = (uintptr_t)dy | (uintptr_t)x | (uintptr_t)to->dx | (uintptr_t)scale | (uintptr_t)to->other |
                          (uintptr_t)to->narrow;
    bool vectors = addresses % (k->vector * k->widest) == 0 && takes_vectors(k, a), sums = to->dscale || to->dbias;
    if ((sums || to->narrow_sums) && vectors && a->cols <= THREADS * k->vector && a->rows > 0)
        return by_segments(k, at, a, dy, x, scale, to, partial);
    NC_TRY(
        launch_rows(at, vectors ? k->grad_vectors : k->grad_rows, a, vectors ? LONG_VECTOR_ROW : LONG_ROW, row_args));
    if (to->narrow_sums) NC_TRY(sum_narrow(k, at, a, to));
    return sums ? by_columns(k, at, a, dy, x, to, stats, partial) : NC_OK;
}
