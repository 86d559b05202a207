/* kernels/cpu/ml/forest.c: walks decision trees row by row, any kind of branch, and the transforms of scores. Obvious
 * code: forests that only order numbers are walked by forest_steps.c, with the same results. */
#include "kernels/cpu/ml/forest.h"

#include <math.h>

double nck_ml_get(const nc_tensor *x, int64_t i) {
    switch (x->dtype) {
    case NC_FLOAT: return (double)((const float *)x->data)[i];
    case NC_DOUBLE: return ((const double *)x->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)x->data)[i]);
    case NC_INT64: return (double)(float)((const int64_t *)x->data)[i];
    default: return (double)(float)((const int32_t *)x->data)[i];
    }
}

static bool is_member(const nck_forest *f, const nck_tree_node *n, double v) {
    for (int64_t k = 0; k < n->size; k++)
        if (f->members[n->set + k] == v) return true;
    return false;
}

static bool goes_yes(const nck_forest *f, const nck_tree_node *n, double v) {
    if (v != v) return n->nan_is_yes || n->mode == NCK_BRANCH_NEQ;
    switch (n->mode) {
    case NCK_BRANCH_LEQ: return v <= n->at;
    case NCK_BRANCH_LT: return v < n->at;
    case NCK_BRANCH_GTE: return v >= n->at;
    case NCK_BRANCH_GT: return v > n->at;
    case NCK_BRANCH_EQ: return v == n->at;
    case NCK_BRANCH_NEQ: return v != n->at;
    default: return is_member(f, n, v);
    }
}

void nck_forest_row(const nck_forest *f, const nc_tensor *x, int64_t i, double *scores, bool *voted) {
    bool single = x->dtype != NC_DOUBLE;
    int64_t features = x->rank > 1 ? x->dims[1] : x->dims[0];
    for (int64_t k = 0; k < f->n_targets; k++) scores[k] = 0, voted[k] = false;
    for (int64_t t = 0; t < f->n_roots; t++) {
        const nck_tree_node *n = &f->nodes[f->roots[t]];
        while (n->mode != NCK_BRANCH_LEAF)
            n = &f->nodes[goes_yes(f, n, nck_ml_get(x, i * features + n->feature)) ? n->yes : n->no];
        for (int64_t k = 0; k < n->yes; k++) {
            const nck_vote *v = &f->votes[n->feature + k];
            scores[v->target] =
                voted[v->target] ? nck_gathered(f->gather, scores[v->target], v->weight, single) : v->weight;
            voted[v->target] = true;
        }
    }
    if (f->gather == NCK_GATHER_AVERAGE && f->n_roots > 0)
        for (int64_t k = 0; k < f->n_targets; k++) scores[k] /= (double)f->n_roots;
}

double nck_post_logistic(double x) {
    double v = 1 / (1 + exp(-fabs(x)));
    return x < 0 ? 1 - v : v;
}

/* sqrt(2) erfinv(2x - 1), by Winitzki's approximation in float, as other runtimes have it. */
double nck_post_probit(double x) {
    float y = 2 * (float)x - 1, sign = y < 0 ? -1 : 1, a = 0.147f;
    float l = logf((1 - y) * (1 + y)), v = 2 / (3.14159f * a) + 0.5f * l;
    return (double)(1.41421356f * sign * sqrtf(-v + sqrtf(v * v - l / a)));
}

/* Scores that are 0 stay near it: only the others are exponentials of the sum. */
static void softmax(int64_t n, double *s, bool zero) {
    double top = s[0], sum = 0;
    for (int64_t k = 1; k < n; k++) top = s[k] > top ? s[k] : top;
    for (int64_t k = 0; k < n; k++) {
        if (zero && fabs(s[k]) <= 1e-7) {
            s[k] *= exp(-top);
        } else {
            s[k] = exp(s[k] - top);
            sum += s[k];
        }
    }
    for (int64_t k = 0; k < n; k++) s[k] = sum > 0 ? s[k] / sum : 0;
}

void nck_post_row(nck_post post, int64_t n, double *scores) {
    if (n == 0) return;
    if (post == NCK_POST_LOGISTIC)
        for (int64_t k = 0; k < n; k++) scores[k] = nck_post_logistic(scores[k]);
    else if (post == NCK_POST_PROBIT)
        for (int64_t k = 0; k < n; k++) scores[k] = nck_post_probit(scores[k]);
    else if (post != NCK_POST_NONE && n > 1)
        softmax(n, scores, post == NCK_POST_SOFTMAX_ZERO);
}
