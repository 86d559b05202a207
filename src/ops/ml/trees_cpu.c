/* ops/ml/trees_cpu.c: runs prepared trees over rows; regression writes scores, classification picks a label. */
#include "ops/ml/trees.h"

#include "base/intmath.h"

typedef struct trees_rows {
    const nc_trees *t;
    const nc_call *c;
    double *scores;
    bool *voted;
} trees_rows;

enum { ROWS_PER_ITEM = 32, STEPS = 16 /* elements of work that a tree costs a row */ };

static void trees_store(const nc_tensor *y, int64_t i, double v) {
    if (y->dtype == NC_DOUBLE)
        ((double *)y->data)[i] = v;
    else if (y->dtype == NC_FLOAT16)
        ((uint16_t *)y->data)[i] = nc_f32_to_f16((float)v);
    else
        ((float *)y->data)[i] = (float)v;
}

static void regress(const trees_rows *r, int64_t i, double *s, bool *voted) {
    const nc_trees *t = r->t;
    int64_t n = t->forest.n_targets;
    nck_forest_row(&t->forest, r->c->in[0], i, s, voted);
    for (int64_t k = 0; k < n; k++) s[k] += t->n_base > 0 ? t->base[k < t->n_base ? k : t->n_base - 1] : 0;
    if (n > 1 || t->post == NCK_POST_PROBIT) nck_post_row(t->post, n, s);
    for (int64_t k = 0; k < n; k++) trees_store(r->c->out[0], i * n + k, s[k]);
}

static int64_t best(int64_t n, const double *s, const bool *voted) {
    int64_t at = -1;
    for (int64_t k = 0; k < n; k++)
        if (voted[k] && (at < 0 || s[k] > s[at])) at = k;
    return at < 0 ? 0 : at;
}

/* Two classes. Where all leaves vote for one class, its score alone says which it is: by one half if no weight is
 * negative, else by its sign. *n becomes 1 where only the first class has a score. */
static int64_t choose_of_two(const nc_trees *t, double *s, const bool *voted, int64_t *n, nc_second *second) {
    if (t->n_base == 2 && voted[1]) {
        s[1] = t->base[1] + s[0];
        s[0] = -s[1];
    } else if (t->n_base > 0) {
        s[0] += t->base[0];
    }
    if (t->n_base == 0) *second = NC_SECOND_NEGATIVE;
    if (t->n_base != 2 && !voted[1]) *n = 1;
    double weight = voted[1] ? s[1] : voted[0] ? s[0] : 0;
    if (!t->one_sided) return weight > 0 ? 1 : 0;
    *second = t->positive ? NC_SECOND_REST : NC_SECOND_NEGATIVE;
    return weight > (t->positive ? 0.5 : 0) ? 1 : 0;
}

static void trees_classify(const trees_rows *r, int64_t i, double *s, bool *voted) {
    const nc_trees *t = r->t;
    int64_t n = t->forest.n_targets, n_z = n, label;
    nc_second second = NC_SECOND_NONE;
    nck_forest_row(&t->forest, r->c->in[0], i, s, voted);
    if (n == 2) {
        label = choose_of_two(t, s, voted, &n, &second);
        for (int64_t k = 0; k < n; k++) s[k] = voted[k] ? s[k] : 0;
    } else {
        for (int64_t k = 0; k < n && k < t->n_base; k++) s[k] += t->base[k], voted[k] = true;
        label = best(n, s, voted);
    }
    ((int64_t *)r->c->out[0]->data)[i] = t->labels[label < t->n_labels ? label : 0];
    if (r->c->n_out > 1 && r->c->out[1]->data != NULL)
        nc_ml_write_scores(t->post, second, n, s, (float *)r->c->out[1]->data + i * n_z, n_z);
}

static void run_rows(void *ctx, int64_t item) {
    const trees_rows *r = ctx;
    const nc_tensor *x = r->c->in[0];
    int64_t n = x->rank > 1 ? x->dims[0] : 1, stride = r->t->forest.n_targets + 1;
    for (int64_t i = item * ROWS_PER_ITEM; i < n && i < (item + 1) * ROWS_PER_ITEM; i++)
        (r->t->n_labels > 0 ? trees_classify : regress)(r, i, r->scores + i * stride, r->voted + i * stride);
}

size_t nc_trees_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)out, (void)n_out;
    const nc_trees *t = state;
    int64_t n = in[0].rank > 1 ? in[0].dims[0] : 1;
    return (size_t)n * (size_t)(t->forest.n_targets + 1) * (sizeof(double) + sizeof(bool));
}

nc_code nc_trees_run(const nc_call *c) {
    const nc_trees *t = c->state;
    const nc_tensor *x = c->in[0];
    int64_t n = x->rank > 1 ? x->dims[0] : 1, features = x->dims[x->rank > 1];
    if (features < t->n_features)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "X has %lld features, the trees look at %lld",
                           (long long)features, (long long)t->n_features);
    trees_rows r = {.t = t, .c = c, .scores = c->workspace};
    r.voted = (bool *)(r.scores + n * (t->forest.n_targets + 1));
    nc_parallel(nc_pool_for(c->pool, n * t->forest.n_roots * STEPS), nc_ceil_div(n, ROWS_PER_ITEM), run_rows, &r);
    return NC_OK;
}
