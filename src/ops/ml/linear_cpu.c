/* ops/ml/linear_cpu.c: host kernels of LinearRegressor and LinearClassifier. Sums in float, as the coefficients are. */
#include "ops/ml/linear.h"

#include "base/intmath.h"

#include <string.h>

typedef struct linear {
    nck_post post;
    const float *weights, *bias; /* weights (n, features), bias n or NULL */
    int64_t n, n_weights;
    const int64_t *labels;
    int64_t n_labels;
} linear;

static nc_code linear_prepare(nc_prep *p, int64_t n) {
    linear *l = nc_arena_alloc(p->arena, sizeof *l);
    NC_NEED(p->w, l);
    const nc_attr *w = nc_node_attr(p->node, "coefficients"), *b = nc_node_attr(p->node, "intercepts");
    const nc_attr *labels = nc_node_attr(p->node, "classlabels_ints");
    *l = (linear){.n = n, .weights = w != NULL ? w->floats : NULL, .n_weights = w != NULL ? w->n : 0};
    if (b != NULL && b->n > 0) {
        if (b->n != n) NC_FAIL(p->w, NC_E_BAD_GRAPH, "intercepts has %d elements, expected %lld", b->n, (long long)n);
        l->bias = b->floats;
    }
    if (labels != NULL) l->labels = labels->ints, l->n_labels = labels->n;
    if (l->n_labels > 0 && l->n_labels < n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "has %lld labels for %lld scores", (long long)l->n_labels, (long long)n);
    p->state = l;
    return nc_ml_post(p, &l->post);
}

nc_code nc_linear_regressor_prepare(nc_prep *p) { return linear_prepare(p, nc_attr_int(p->node, "targets")); }
nc_code nc_linear_classifier_prepare(nc_prep *p) { return linear_prepare(p, nc_linear_n_scores(p->node)); }

size_t nc_linear_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)out, (void)n_out;
    int64_t rows = in[0].rank > 1 ? in[0].dims[0] : 1;
    return (size_t)rows * (size_t)(((const linear *)state)->n + 1) * sizeof(double);
}

typedef struct linear_rows {
    const linear *l;
    const nc_call *c;
    double *scores;
    int64_t n_rows, features;
} linear_rows;

enum { ROWS_PER_ITEM = 64 };

static void score(const linear_rows *r, int64_t i, double *s) {
    for (int64_t k = 0; k < r->l->n; k++) {
        float sum = 0;
        for (int64_t f = 0; f < r->features; f++)
            sum += (float)nck_ml_get(r->c->in[0], i * r->features + f) * r->l->weights[k * r->features + f];
        s[k] = (double)(sum + (r->l->bias != NULL ? r->l->bias[k] : 0));
    }
}

static void regress(void *ctx, int64_t item) {
    const linear_rows *r = ctx;
    int64_t n = r->l->n;
    for (int64_t i = item * ROWS_PER_ITEM; i < r->n_rows && i < (item + 1) * ROWS_PER_ITEM; i++) {
        double *s = r->scores + i * (n + 1);
        score(r, i, s);
        nc_ml_write_scores(r->l->post, NC_SECOND_NONE, n, s, (float *)r->c->out[0]->data + i * n, n);
    }
}

static void linear_classify(void *ctx, int64_t item) {
    const linear_rows *r = ctx;
    const linear *l = r->l;
    bool two = l->n == 1 && l->n_labels == 2;
    int64_t n_z = two ? 2 : l->n;
    for (int64_t i = item * ROWS_PER_ITEM; i < r->n_rows && i < (item + 1) * ROWS_PER_ITEM; i++) {
        double *s = r->scores + i * (l->n + 1);
        int64_t best = 0;
        score(r, i, s);
        for (int64_t k = 1; k < l->n; k++)
            if (s[k] > s[best]) best = k;
        if (l->n == 1) best = s[0] > 0;
        ((int64_t *)r->c->out[0]->data)[i] = best < l->n_labels ? l->labels[best] : best;
        if (r->c->n_out > 1 && r->c->out[1]->data != NULL)
            nc_ml_write_scores(l->post, two ? NC_SECOND_REST : NC_SECOND_NONE, l->n, s,
                               (float *)r->c->out[1]->data + i * n_z, n_z);
    }
}

static nc_code linear_run(const nc_call *c, void (*fn)(void *, int64_t)) {
    const linear *l = c->state;
    const nc_tensor *x = c->in[0];
    linear_rows r = {.l = l, .c = c, .scores = c->workspace, .n_rows = x->rank > 1 ? x->dims[0] : 1};
    r.features = x->dims[x->rank > 1];
    if (r.features * l->n != l->n_weights)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "X has %lld features for %lld scores, there are %lld coefficients", (long long)r.features,
                           (long long)l->n, (long long)l->n_weights);
    nc_parallel(nc_pool_for(c->pool, r.n_rows * l->n_weights), nc_ceil_div(r.n_rows, ROWS_PER_ITEM), fn, &r);
    return NC_OK;
}

nc_code nc_linear_regressor_run(const nc_call *c) { return linear_run(c, regress); }
nc_code nc_linear_classifier_run(const nc_call *c) { return linear_run(c, linear_classify); }
