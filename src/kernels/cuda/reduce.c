/* cuda/reduce.c: launchers of reduce.cu, see reduce.h. Partial results of all segments go to the workspace, then one
 * kernel joins them. */
#include "kernels/cuda/reduce.h"

#include "base/intmath.h"

#include <math.h>

enum { SEGMENT = 4096, LONG = 256, THREADS = 128 };
enum { LEAST_LINES = 64, MOST_CUTS = 128, VECTOR_BYTES = 16 }; /* of column_vectors: enough blocks to fill a GPU */

_Static_assert(2 * sizeof(nck_cuda_walk) + 8 * sizeof(int64_t) <= 4096, "what one launch carries");

/* A number of the accumulator's type, as a kernel argument. */
typedef union number {
    float f32;
    double f64;
    int64_t i64;
} number;

nc_code nck_cuda_reduce_prepare(nc_device *d, nck_reduce_op op, nc_dtype t, nck_cuda_reduce *out, nc_diag *diag) {
    static const char *const joins[] = {
        [NCK_REDUCE_SUM] = "#define J sum\n",   [NCK_REDUCE_MEAN] = "#define J sum\n",
        [NCK_REDUCE_PROD] = "#define J prod\n", [NCK_REDUCE_MAX] = "#define J max\n",
        [NCK_REDUCE_MIN] = "#define J min\n",
    };
    bool picks = op == NCK_REDUCE_MAX || op == NCK_REDUCE_MIN;
    if (nck_cuda_type_name(t) == NULL || (t == NC_BOOL && !picks))
        return nc_diag_set(diag, NC_E_UNSUPPORTED, NULL, NULL, "%s is not reduced on a GPU", nc_dtype_name(t));
    *out = (nck_cuda_reduce){.op = op, .type = t};
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_reduce, t, joins[op], "rows", &out->rows, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_reduce, t, joins[op], "columns", &out->columns, diag));
    NC_TRY(nck_cuda_find(d, NCK_CUDA_TEXT_reduce, t, joins[op], "column_vectors", &out->column_vectors, diag));
    return nck_cuda_find(d, NCK_CUDA_TEXT_reduce, t, joins[op], "join", &out->join, diag);
}

static int64_t n_segments_of(int64_t n_reduced) { return n_reduced / SEGMENT + (n_reduced % SEGMENT != 0); }

/* Lines of a segment of column_vectors. */
static int64_t lines_of(int64_t n_reduced) {
    int64_t even = nc_ceil_div(n_reduced, MOST_CUTS);
    return even > LEAST_LINES ? even : LEAST_LINES;
}

size_t nck_cuda_reduce_workspace(int64_t n_out, int64_t n_reduced) {
    int64_t n, cuts = nc_max64(n_segments_of(n_reduced), nc_min64(MOST_CUTS, nc_ceil_div(n_reduced, LEAST_LINES)));
    if (!nc_mul_i64(n_out, cuts, &n) || !nc_mul_i64(n, (int64_t)sizeof(number), &n)) return SIZE_MAX;
    return (size_t)n;
}

/* The ends of an integer type, as its accumulator holds them. */
static int64_t end_of(nc_dtype t, bool least) {
    bool is_signed = nc_dtype_class(t) == 'I';
    int bits = t == NC_BOOL ? 1 : 8 * (int)nc_dtype_bytes(t) - is_signed;
    uint64_t top = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return least ? (is_signed ? -(int64_t)top - 1 : 0) : (int64_t)top;
}

/* What joins with anything to that thing. */
static number nothing_of(nck_reduce_op op, nc_dtype t) {
    nc_dtype a = nck_cuda_accumulator(t);
    if (op != NCK_REDUCE_MAX && op != NCK_REDUCE_MIN) {
        int one = op == NCK_REDUCE_PROD;
        return a == NC_FLOAT    ? (number){.f32 = (float)one}
               : a == NC_DOUBLE ? (number){.f64 = one}
                                : (number){.i64 = one};
    }
    bool max = op == NCK_REDUCE_MAX;
    if (a == NC_FLOAT) return (number){.f32 = max ? -INFINITY : INFINITY};
    if (a == NC_DOUBLE) return (number){.f64 = max ? -(double)INFINITY : (double)INFINITY};
    return (number){.i64 = end_of(t, max)};
}

static number divisor_of(nck_reduce_op op, nc_dtype t, int64_t n) {
    if (op != NCK_REDUCE_MEAN) return (number){0};
    nc_dtype a = nck_cuda_accumulator(t);
    return a == NC_FLOAT ? (number){.f32 = (float)n} : a == NC_DOUBLE ? (number){.f64 = (double)n} : (number){.i64 = n};
}

static void split(const nc_tensor *x, nc_axes axes, nck_cuda_walk *kept, nck_cuda_walk *reduced) {
    int64_t dims[2][NC_MAX_RANK], strides[2][NC_MAX_RANK];
    int rank[2] = {0};
    for (int d = 0; d < x->rank; d++) {
        int to = axes >> d & 1;
        dims[to][rank[to]] = x->dims[d];
        strides[to][rank[to]++] = x->strides[d];
    }
    *kept = nck_cuda_walk_of(rank[0], dims[0], strides[0], NULL);
    *reduced = nck_cuda_walk_of(rank[1], dims[1], strides[1], NULL);
}

static int64_t numel_of(const nck_cuda_walk *w) {
    int64_t n = 1;
    for (int64_t d = 0; d < w->rank; d++) n *= w->dims[d];
    return n;
}

/* The mean of no elements is NaN, which 0 / 0 would be had the join not taken a divisor of 0 for none. */
static number join_start(const nck_cuda_reduce *k, int64_t n_reduced) {
    bool nan = k->op == NCK_REDUCE_MEAN && n_reduced == 0;
    if (nan && nck_cuda_accumulator(k->type) == NC_FLOAT) return (number){.f32 = NAN};
    if (nan && nck_cuda_accumulator(k->type) == NC_DOUBLE) return (number){.f64 = (double)NAN};
    return nothing_of(k->op, k->type);
}

/* Lines of whole vectors, all aligned; *line: how far they are apart. */
static bool in_lines(const nck_cuda_reduce *k, const nck_cuda_walk *kept, const nck_cuda_walk *reduced, const void *x,
                     int64_t *line) {
    int64_t vector = VECTOR_BYTES / (int64_t)nc_dtype_bytes(k->type);
    *line = reduced->strides[0][0];
    return kept->rank == 1 && reduced->rank == 1 && kept->strides[0][0] == 1 && kept->dims[0] % vector == 0 &&
           *line % vector == 0 && *line >= 0 && (uintptr_t)x % VECTOR_BYTES == 0;
}

static nc_code run_lines(const nck_cuda_reduce *k, nck_cuda_at at, int64_t line, int64_t n_out, int64_t n_reduced,
                         void *data, void *partial, int64_t *n_segments) {
    int64_t segment = lines_of(n_reduced), wide = 32 * VECTOR_BYTES / (int64_t)nc_dtype_bytes(k->type);
    number nothing = nothing_of(k->op, k->type);
    void *args[] = {&line, &n_out, &n_reduced, &segment, &nothing, &data, &partial};
    *n_segments = nc_ceil_div(n_reduced, segment);
    nc_dim3 grid = {nck_cuda_blocks(at.device, nc_ceil_div(n_out, wide) * *n_segments, 1), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, k->column_vectors, grid, (nc_dim3){32, 8, 1}, 0,
                                             args, at.diag);
}

static nc_code run_walks(const nck_cuda_reduce *k, nck_cuda_at at, nck_cuda_walk *kept, nck_cuda_walk *reduced,
                         int64_t n_out, int64_t n_reduced, void *data, void *partial) {
    int64_t segment = SEGMENT, n_segments = n_segments_of(n_reduced);
    number nothing = nothing_of(k->op, k->type);
    void *args[] = {kept, reduced, &n_out, &n_reduced, &segment, &nothing, &data, &partial};
    bool columns = kept->strides[0][kept->rank - 1] == 1 && kept->dims[kept->rank - 1] > 1;
    if (columns) {
        uint32_t blocks = nck_cuda_blocks(at.device, nc_ceil_div(n_out, 32) * n_segments, 1);
        return at.device->table->launch_function(at.device, at.stream, k->columns, (nc_dim3){blocks, 1, 1},
                                                 (nc_dim3){32, 8, 1}, 0, args, at.diag);
    }
    uint32_t threads = n_reduced >= LONG ? THREADS : 32;
    return nck_cuda_launch(at, k->rows, nck_cuda_blocks(at.device, n_out * n_segments, 1), threads, args);
}

nc_code nck_cuda_reduce_run(const nck_cuda_reduce *k, nck_cuda_at at, const nc_tensor *x, nc_axes axes, void *out,
                            void *workspace) {
    nck_cuda_walk kept, reduced;
    split(x, axes, &kept, &reduced);
    int64_t n_out = numel_of(&kept), n_reduced = numel_of(&reduced), n_segments = n_segments_of(n_reduced), line;
    number start = join_start(k, n_reduced), divisor = divisor_of(k->op, k->type, n_reduced);
    if (n_out == 0) return NC_OK;
    if (n_reduced > 0 && in_lines(k, &kept, &reduced, x->data, &line))
        NC_TRY(run_lines(k, at, line, n_out, n_reduced, x->data, workspace, &n_segments));
    else
        NC_TRY(run_walks(k, at, &kept, &reduced, n_out, n_reduced, x->data, workspace));
    void *join_args[] = {&n_out, &n_segments, &divisor, &start, &workspace, &out};
    const nc_dim3 grid = {nck_cuda_blocks(at.device, n_out, 8), 1, 1};
    return at.device->table->launch_function(at.device, at.stream, k->join, grid, (nc_dim3){32, 8, 1}, 0, join_args,
                                             at.diag);
}
