/* ops/matmul/inverse_cpu.c: Inverse on the CPU by elimination with row pivots in double, one item per matrix. A
 * singular matrix gives infinities and NaN, as a division by zero does. */
#include "ops/matmul/einsum_cpu.h"

#include "base/real.h"

#include <math.h>

typedef struct inverse_job {
    const nc_call *c;
    int64_t n;
    double *scratch; /* per matrix (n,2n): the matrix, and what becomes its inverse */
} inverse_job;

static void swap_rows(double *a, double *b, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        double t = a[j];
        a[j] = b[j];
        b[j] = t;
    }
}

/* [a | e] (n,2n) to [e | inverse of a]. */
static void reduce(double *a, int64_t n) {
    int64_t wide = 2 * n;
    for (int64_t k = 0; k < n; k++) {
        int64_t top = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * wide + k]) > fabs(a[top * wide + k]) || isnan(a[i * wide + k])) top = i;
        if (top != k) swap_rows(a + top * wide, a + k * wide, wide);
        double pivot = a[k * wide + k];
        for (int64_t j = k; j < wide; j++) a[k * wide + j] /= pivot;
        for (int64_t i = 0; i < n; i++) {
            double f = a[i * wide + k];
            for (int64_t j = k; j < wide && i != k; j++) a[i * wide + j] -= f * a[k * wide + j];
        }
    }
}

static void inverse_item(void *ctx, int64_t i) {
    const inverse_job *job = ctx;
    int64_t n = job->n;
    double *a = job->scratch + i * 2 * n * n;
    for (int64_t r = 0; r < n; r++)
        for (int64_t s = 0; s < n; s++) {
            a[r * 2 * n + s] = nc_tensor_get(job->c->in[0], (i * n + r) * n + s);
            a[r * 2 * n + n + s] = r == s;
        }
    reduce(a, n);
    for (int64_t r = 0; r < n; r++)
        for (int64_t s = 0; s < n; s++) nc_tensor_put(job->c->out[0], (i * n + r) * n + s, a[r * 2 * n + n + s]);
}

size_t nc_inverse_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)nc_tensor_numel(&in[0]) * 2 * sizeof(double);
}

nc_code nc_inverse_run(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    inverse_job job = {.c = c, .n = x->dims[x->rank - 1], .scratch = c->workspace};
    if (x->dims[x->rank - 2] != job.n)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "matrices of %lld rows and %lld columns are not square",
                           (long long)x->dims[x->rank - 2], (long long)job.n);
    int64_t count = 1;
    for (int k = 0; k < x->rank - 2; k++) count *= x->dims[k];
    nc_parallel(nc_pool_for(c->pool, count * job.n * job.n * job.n), count, inverse_item, &job);
    return NC_OK;
}
