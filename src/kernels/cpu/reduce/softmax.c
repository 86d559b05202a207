/* kernels/cpu/reduce/softmax.c: softmax rows cut into items; see softmax.h.
 * A row is handled in runs. Runs of dense rows are used where they lie; others are gathered into a small buffer and
 * scattered back, so one text serves every axis and stride. Forward, where rows lie side by side in memory, a strip of
 * them goes together instead: gathering would touch a cache line per element. */
#include "kernels/cpu/reduce/softmax.h"

#include "base/intmath.h"
#include "kernels/cpu/isa_narrow.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"
#include "kernels/cpu/tile_table.h"

#include <math.h>
#include <string.h>

enum { RUN = NCK_REDUCE_RUN, ITEM = 8192, STRIP = 64, STRIP_MIN = 8, PART = 16 };

typedef struct softmax_job {
    nck_softmax_kind kind;
    nck_walk walk; /* all dims but the axis */
    int64_t rows, n, per_item;
    int64_t width, n_strips; /* rows side by side and strips of them; 0: rows go singly */
    const void *x, *dy;      /* gradient: x is y */
    void *y;                 /* gradient: dx */
    int64_t xs, ds, ys;      /* strides along the axis */
    const nck_reduce_table *table;
} softmax_job;

#define TEXT "kernels/cpu/reduce/softmax_rows.inc"
#include "kernels/cpu/per_float.inc"

/* Dense rows one behind the other: no walk. */
static void softmax_dense(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, nc_pool *pool) {
    softmax_job j;
    j.kind = kind;
    j.n = x->dims[x->rank - 1];
    j.rows = 1;
    for (int d = 0; d < x->rank - 1; d++) j.rows *= x->dims[d];
    if (j.rows == 0 || j.n == 0) return;
    j.x = x->data, j.y = y->data;
    j.xs = j.ys = 1;
    j.table = j.n <= NCK_NARROW_ROW ? nck_narrow_reduce() : nck_isa_get()->reduce;
    j.per_item = j.rows;
    int64_t items = 1;
    if (j.rows * j.n > ITEM) {
        j.per_item = nc_max64(1, ITEM / j.n);
        items = nc_ceil_div(j.rows, j.per_item);
    }
    nc_parallel(pool, items, x->dtype == NC_FLOAT ? softmax_dense_item_f32 : softmax_dense_item_f64, &j);
}

static void softmax_run(softmax_job *j, const nc_tensor *x, const nc_tensor *y, const nc_tensor *dy, int axis,
                        nc_pool *pool) {
    int64_t dims[NC_MAX_RANK], strides[3][NC_MAX_RANK];
    int n = 0;
    for (int d = 0; d < x->rank; d++) {
        if (d == axis) continue;
        dims[n] = x->dims[d];
        strides[0][n] = x->strides[d];
        strides[1][n] = y->strides[d];
        strides[2][n++] = dy ? dy->strides[d] : 0;
    }
    bool strips = !dy && n > 0 && strides[0][n - 1] == 1 && strides[1][n - 1] == 1 && dims[n - 1] >= STRIP_MIN;
    nck_walk_init(&j->walk, strips ? n - 1 : n, dims, dy ? 3 : 2, strides);
    j->width = strips ? dims[n - 1] : 0;
    j->n_strips = nc_ceil_div(j->width, STRIP);
    j->rows = nck_walk_rows(&j->walk);
    j->n = x->dims[axis];
    if (j->rows == 0 || j->n == 0) return;
    j->xs = x->strides[axis];
    j->ys = y->strides[axis];
    j->ds = dy ? dy->strides[axis] : 0;
    j->x = x->data;
    j->y = y->data;
    j->dy = dy ? dy->data : NULL;
    j->per_item = j->n >= ITEM ? 1 : ITEM / j->n;
    j->table = nck_isa_get()->reduce;
    pool = nc_pool_for(pool, nc_tensor_numel(x));
    if (strips)
        nc_parallel(pool, j->rows * j->n_strips, x->dtype == NC_FLOAT ? softmax_strip_item_f32 : softmax_strip_item_f64,
                    j);
    else
        nc_parallel(pool, nc_ceil_div(j->rows, j->per_item), x->dtype == NC_FLOAT ? softmax_item_f32 : softmax_item_f64,
                    j);
}

void nck_softmax(nck_softmax_kind kind, const nc_tensor *x, const nc_tensor *y, int axis, nc_pool *pool) {
    if (axis == x->rank - 1 && nc_is_dense(x) && nc_is_dense(y)) {
        softmax_dense(kind, x, y, pool);
        return;
    }
    softmax_job j; /* filled by softmax_run: clearing it costs more than a small row */
    j.kind = kind;
    softmax_run(&j, x, y, NULL, axis, pool);
}

void nck_softmax_grad(nck_softmax_kind kind, const nc_tensor *y, const nc_tensor *dy, const nc_tensor *dx, int axis,
                      nc_pool *pool) {
    softmax_job j;
    j.kind = kind;
    softmax_run(&j, y, dx, dy, axis, pool);
}
