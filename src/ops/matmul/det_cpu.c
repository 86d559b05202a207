/* ops/matmul/det_cpu.c: Det and its gradient on the CPU by elimination with row pivots in double, one item per matrix.
 * The cofactor of an element is the signed determinant of what remains without its row and column, found by elimination
 * too: n^5 in all, exact for singular matrices, meant for the small matrices that Det is used on. */
#include "ops/matmul/einsum_cpu.h"

#include "base/real.h"

#include <math.h>

typedef struct det_job {
    const nc_call *c;
    int64_t n;
    double *scratch; /* n*n per matrix */
} det_job;

/* The determinant of a (n,n), which is overwritten. */
static double eliminate(double *a, int64_t n) {
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t top = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[top * n + k]) || isnan(a[i * n + k])) top = i;
        if (a[top * n + k] == 0) return 0;
        if (top != k) det = -det;
        for (int64_t j = k; j < n && top != k; j++) {
            double t = a[k * n + j];
            a[k * n + j] = a[top * n + j];
            a[top * n + j] = t;
        }
        det *= a[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            double f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
        }
    }
    return det;
}

/* Matrix i of x without row r and column s (-1: whole), as doubles. */
static double minor_of(const det_job *j, const nc_tensor *x, int64_t i, int64_t r, int64_t s) {
    double *a = j->scratch + i * j->n * j->n;
    int64_t n = 0;
    for (int64_t row = 0; row < j->n; row++)
        for (int64_t col = 0; col < j->n; col++)
            if (row != r && col != s) a[n++] = nc_tensor_get(x, (i * j->n + row) * j->n + col);
    return eliminate(a, r < 0 ? j->n : j->n - 1);
}

static void det_item(void *ctx, int64_t i) {
    const det_job *j = ctx;
    nc_tensor_put(j->c->out[0], i, minor_of(j, j->c->in[0], i, -1, -1));
}

static void grad_item(void *ctx, int64_t i) {
    const det_job *j = ctx;
    double dy = nc_tensor_get(j->c->in[0], i);
    for (int64_t r = 0; r < j->n; r++)
        for (int64_t s = 0; s < j->n; s++) {
            double d = dy * minor_of(j, j->c->in[1], i, r, s);
            nc_tensor_put(j->c->out[0], (i * j->n + r) * j->n + s, (r + s) % 2 == 0 ? d : -d);
        }
}

size_t nc_det_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)out, (void)n_out;
    return (size_t)nc_tensor_numel(&in[n_in - 1]) * sizeof(double);
}

static nc_code det_run(const nc_call *c, const nc_tensor *x, void (*item)(void *, int64_t)) {
    det_job j = {.c = c, .n = x->dims[x->rank - 1], .scratch = c->workspace};
    if (x->dims[x->rank - 2] != j.n)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "matrices of %lld rows and %lld columns are not square",
                           (long long)x->dims[x->rank - 2], (long long)j.n);
    int64_t count = 1;
    for (int k = 0; k < x->rank - 2; k++) count *= x->dims[k];
    nc_parallel(nc_pool_for(c->pool, count * j.n * j.n * j.n), count, item, &j);
    return NC_OK;
}

nc_code nc_det_run(const nc_call *c) { return det_run(c, c->in[0], det_item); }
nc_code nc_det_grad_run(const nc_call *c) { return det_run(c, c->in[1], grad_item); }
