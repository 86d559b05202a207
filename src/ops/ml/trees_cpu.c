/* ops/ml/trees_cpu.c: runs prepared trees over rows; regression writes scores, classification picks a label. Threads
 * share the rows; where these are few, the leaves of each row are found by all of them and added up by one. */
#include "ops/ml/trees.h"

#include "base/intmath.h"

typedef struct trees_rows {
    const nc_trees *t;
    const nc_call *c;
    double *scores;
    bool *voted;
    uint32_t *leaves;      /* of few rows: (rows, trees) */
    int64_t rows_per_item; /* enough that a tree is read from far away for many rows */
} trees_rows;

enum { STEPS = 16 /* elements of work that a tree costs a row */, FEW = 16, MANY = 256, TREES_PER_ITEM = 128 };

static void trees_store(const nc_tensor *y, int64_t i, double v) {
    if (y->dtype == NC_DOUBLE)
        ((double *)y->data)[i] = v;
    else if (y->dtype == NC_FLOAT16)
        ((uint16_t *)y->data)[i] = nc_f32_to_f16((float)v);
    else
        ((float *)y->data)[i] = (float)v;
}

static void regress(const trees_rows *r, int64_t i, double *s) {
    const nc_trees *t = r->t;
    int64_t n = t->forest.n_targets;
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

static void find_leaves(void *ctx, int64_t item) {
    const trees_rows *r = ctx;
    int64_t n = r->t->steps.n_roots, t0 = item * TREES_PER_ITEM, t1 = t0 + TREES_PER_ITEM < n ? t0 + TREES_PER_ITEM : n;
    nck_steps_leaves(&r->t->steps, r->c->in[0], t0, t1, r->leaves);
}

static void score_rows(const trees_rows *r, int64_t first, int64_t n, int64_t stride) {
    const nc_tensor *x = r->c->in[0];
    double *scores = r->scores + first * stride;
    bool *voted = r->voted + first * stride;
    if (r->t->forest.nodes == NULL && r->leaves == NULL) {
        nck_steps_rows(&r->t->steps, x, first, n, scores, voted, stride);
        return;
    }
    for (int64_t i = 0; i < n; i++, scores += stride, voted += stride)
        if (r->leaves != NULL)
            nck_steps_collect(&r->t->steps, x, r->leaves + (first + i) * r->t->forest.n_roots, scores, voted);
        else
            nck_forest_row(&r->t->forest, x, first + i, scores, voted);
}

static void run_rows(void *ctx, int64_t item) {
    const trees_rows *r = ctx;
    const nc_tensor *x = r->c->in[0];
    int64_t n = x->rank > 1 ? x->dims[0] : 1, stride = r->t->forest.n_targets + 1;
    int64_t first = item * r->rows_per_item, last = first + r->rows_per_item < n ? first + r->rows_per_item : n;
    score_rows(r, first, last - first, stride);
    for (int64_t i = first; i < last; i++)
        if (r->t->n_labels > 0)
            trees_classify(r, i, r->scores + i * stride, r->voted + i * stride);
        else
            regress(r, i, r->scores + i * stride);
}

static bool is_few(const nc_trees *t, int64_t n) { return t->forest.nodes == NULL && n > 0 && n < FEW; }

size_t nc_trees_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)out, (void)n_out;
    const nc_trees *t = state;
    int64_t n = in[0].rank > 1 ? in[0].dims[0] : 1, few = n < FEW ? n : FEW;
    size_t leaves = t->forest.nodes == NULL ? (size_t)few * (size_t)t->forest.n_roots * sizeof(uint32_t) : 0;
    return leaves + (size_t)n * (size_t)(t->forest.n_targets + 1) * (sizeof(double) + sizeof(bool));
}

nc_code nc_trees_run(const nc_call *c) {
    const nc_trees *t = c->state;
    const nc_tensor *x = c->in[0];
    int64_t n = x->rank > 1 ? x->dims[0] : 1, features = x->dims[x->rank > 1], slots = n * (t->forest.n_targets + 1);
    if (features < t->n_features)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "X has %lld features, the trees look at %lld",
                           (long long)features, (long long)t->n_features);
    trees_rows r = {.t = t, .c = c, .scores = c->workspace};
    nc_pool *pool = nc_pool_for(c->pool, n * t->forest.n_roots * STEPS);
    r.rows_per_item = n / FEW < FEW ? FEW : n / FEW > MANY ? MANY : n / FEW;
    r.leaves = is_few(t, n) ? (uint32_t *)(r.scores + slots) : NULL;
    r.voted = (bool *)(r.scores + slots) + (is_few(t, n) ? n * t->forest.n_roots * (int64_t)sizeof(uint32_t) : 0);
    if (r.leaves != NULL) nc_parallel(pool, nc_ceil_div(t->forest.n_roots, TREES_PER_ITEM), find_leaves, &r);
    nc_parallel(pool, nc_ceil_div(n, r.rows_per_item), run_rows, &r);
    return NC_OK;
}
