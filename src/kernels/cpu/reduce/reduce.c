/* kernels/cpu/reduce/reduce.c: cuts a reduction into items and joins the parts; see reduce.h.
 *
 * Dims are split into kept and reduced ones and each group merged where memory allows. Two shapes of loop follow: rows
 * (one output after another, its elements in runs) and columns (a strip of outputs that lie side by side, summed row by
 * row). An item is one segment of the reduced elements for some outputs; where there are several segments their results
 * go to the workspace and a second pass joins them. The typed loops are in reduce_type.inc. */
#include "kernels/cpu/reduce/reduce.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_job.h"

#include <math.h>

#define SUFFIX f32
#define ELEM float
#define ACC float
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define IS_NAN IS_NAN_FLOAT
#define LOW -INFINITY
#define HIGH INFINITY
#define FINISH_MEAN_F32(a, n) (float)((double)(a) / (double)(n))
#define FINISH_MEAN FINISH_MEAN_F32
#define VECTORS
#define DENSE(op) (is_sum(op) ? j->table->f32.sum : op == NCK_REDUCE_MAX ? j->table->f32.max : j->table->f32.min)
#include "kernels/cpu/reduce/reduce_type.inc"

static const reduce_loops f32_loops = REDUCE_LOOPS(NC_FLOAT, f32);

static const reduce_loops *loops_of(nc_dtype type) {
    if (type == NC_FLOAT) return &f32_loops;
    for (int i = 0; i < N_REDUCE_REST; i++)
        if (nck_reduce_rest[i].type == type) return &nck_reduce_rest[i];
    return NULL;
}

float nck_reduce_line(nck_reduce_op op, const float *x, int64_t n) {
    const reduce_job j = {.op = op, .n_reduced = n, .inner_stride = 1, .table = nck_isa_get()->reduce};
    reduce_tree_f32 t;
    t.depth = 0, t.count = 0;
    for (int64_t i = 0; i < n; i += RUN) reduce_tree_add_f32(&t, op, reduce_run_f32(&j, x + i, nc_min64(RUN, n - i)));
    float v = reduce_tree_end_f32(&t, op);
    return op == NCK_REDUCE_MEAN ? FINISH_MEAN_F32(v, n) : v;
}

size_t nck_reduce_workspace(int64_t n_out, int64_t n_reduced) {
    return n_reduced <= SEGMENT ? 0 : (size_t)(n_out * nc_ceil_div(n_reduced, SEGMENT)) * sizeof(int64_t);
}

static int reduce_merge(int n, int64_t *dims, int64_t (*strides)[NC_MAX_RANK]) {
    if (n > 0) return nc_coalesce(n, dims, 1, strides);
    dims[0] = 1;
    strides[0][0] = 1;
    return 1;
}

/* Fills in the walks; true: columns. Neither group of dims is empty of elements. */
static bool reduce_split(reduce_job *j, nc_axes axes, nck_walk *kept, nck_walk *rest) {
    int64_t dims[2][NC_MAX_RANK], strides[2][1][NC_MAX_RANK];
    int n[2] = {0, 0};
    for (int d = 0; d < j->x->rank; d++) {
        int reduced = axes >> d & 1;
        dims[reduced][n[reduced]] = j->x->dims[d];
        strides[reduced][0][n[reduced]++] = j->x->strides[d];
    }
    for (int i = 0; i < 2; i++) n[i] = reduce_merge(n[i], dims[i], strides[i]);
    int64_t width = dims[0][n[0] - 1], step = strides[1][0][n[1] - 1];
    bool columns = strides[0][0][n[0] - 1] == 1 && width > 1 && j->n_reduced > 1 && step != 1;
    nck_walk_init(kept, n[0] - columns, dims[0], 1, strides[0]);
    nck_walk_init(rest, n[1] - !columns, dims[1], 1, strides[1]);
    j->kept = kept;
    j->reduced = rest;
    j->inner = columns ? width : dims[1][n[1] - 1];
    j->inner_stride = columns ? 1 : step;
    return columns;
}

/* Every result is the one element that it is made of. */
static void reduce_nothing(const nc_tensor *x, void *out, nc_pool *pool) {
    int64_t dense[NC_MAX_RANK];
    nc_dense_strides(x->dims, x->rank, dense);
    nck_copy(x->rank, x->dims, nc_dtype_bytes(x->dtype), x->data, x->strides, out, dense, pool);
}

nc_code nck_reduce(nck_reduce_op op, const nc_tensor *x, nc_axes axes, void *out, void *workspace, nc_pool *pool) {
    const reduce_loops *loops = loops_of(x->dtype);
    if (loops == NULL) return NC_E_UNSUPPORTED;
    reduce_job j = {
        .op = op, .x = x, .out = out, .parts = workspace, .n_out = 1, .n_reduced = 1, .table = nck_isa_get()->reduce};
    for (int d = 0; d < x->rank; d++) *(axes >> d & 1 ? &j.n_reduced : &j.n_out) *= x->dims[d];
    if (j.n_out == 0) return NC_OK;
    if (j.n_reduced == 1) {
        reduce_nothing(x, out, pool);
        return NC_OK;
    }
    j.n_segments = nc_ceil_div(j.n_reduced, SEGMENT);
    if (j.n_reduced > 0) {
        nck_walk kept, reduced;
        bool columns = reduce_split(&j, axes, &kept, &reduced);
        int64_t span = nc_min64(j.n_reduced, SEGMENT);
        j.n_strips = nc_ceil_div(j.inner, STRIP);
        j.group = nc_max64(1, ITEM / (columns ? span * STRIP : span));
        j.n_groups = nc_ceil_div(columns ? j.n_out / j.inner * j.n_strips : j.n_out, j.group);
        nc_parallel(pool, j.n_groups * j.n_segments, columns ? loops->columns : loops->rows, &j);
    }
    if (j.n_segments != 1) nc_parallel(pool, nc_ceil_div(j.n_out, JOIN_ITEM), loops->join, &j);
    return NC_OK;
}
