/* ops/ml/svm_cpu.c: host kernels of SVMRegressor and SVMClassifier, as libsvm defines them: every pair of classes has a
 * machine over the support vectors of both; probabilities are coupled as in Wu, Lin and Weng, "Probability Estimates
 * for Multi-class Classification by Pairwise Coupling" (2004), their second method. Sums in float, coupling in
 * double. */
#include "ops/ml/svm.h"

#include "base/intmath.h"

#include <math.h>
#include <string.h>

typedef enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID } svm_kernel;

typedef struct svm {
    svm_kernel kernel;
    nck_post post;
    float gamma, coef0, degree;
    const float *rho, *coefficients, *vectors, *prob_a, *prob_b;
    const int64_t *per_class, *labels;
    int64_t n_rho, n_coefficients, n_values, n_prob;
    int64_t n_vectors, n_classes, n_labels; /* n_vectors 0: linear, coefficients (classes, features) */
    int64_t n_scores;                       /* of the classifier */
    bool one_class, positive;
} svm;

static int64_t floats_of(const nc_node *n, const char *name, const float **out) {
    const nc_attr *a = nc_node_attr(n, name);
    *out = a != NULL ? a->floats : NULL;
    return a != NULL ? a->n : 0;
}

static nc_code kernel_of(nc_prep *p, svm *s) {
    static const char *const words[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    const char *word = nc_attr_str(p->node, "kernel_type");
    const float *params;
    int k = 0;
    while (k < 4 && strcmp(word, words[k]) != 0) k++;
    if (k == 4) NC_FAIL(p->w, NC_E_BAD_GRAPH, "kernel_type is '%s', expected LINEAR, POLY, RBF or SIGMOID", word);
    s->kernel = (svm_kernel)k;
    if (floats_of(p->node, "kernel_params", &params) >= 3)
        s->gamma = params[0], s->coef0 = params[1], s->degree = params[2];
    return NC_OK;
}

static nc_code check_classifier(nc_prep *p, const svm *s) {
    int64_t pairs = s->n_classes * (s->n_classes - 1) / 2;
    if (s->n_vectors > 0 && (s->n_rho < pairs || s->n_coefficients < (s->n_classes - 1) * s->n_vectors))
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "%lld classes need %lld rho and %lld coefficients, there are %lld and %lld",
                (long long)s->n_classes, (long long)pairs, (long long)((s->n_classes - 1) * s->n_vectors),
                (long long)s->n_rho, (long long)s->n_coefficients);
    if (s->n_vectors == 0 && s->n_rho < 1) NC_FAIL(p->w, NC_E_BAD_GRAPH, "has no rho");
    if (s->n_prob > 0 && s->n_prob < pairs)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "prob_a has %lld elements, expected %lld", (long long)s->n_prob,
                (long long)pairs);
    if (s->n_labels < s->n_classes)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "has %lld labels for %lld classes", (long long)s->n_labels,
                (long long)s->n_classes);
    return NC_OK;
}

static nc_code prepare_classifier(nc_prep *p, svm *s, const nc_attr *labels) {
    int n = 0;
    s->per_class = nc_attr_ints(p->node, "vectors_per_class", &n);
    s->labels = labels->ints;
    s->n_labels = labels->n;
    s->n_classes = n > 0 ? n : labels->n;
    for (int i = 0; i < n; i++) {
        if (s->per_class[i] < 0) NC_FAIL(p->w, NC_E_BAD_GRAPH, "vectors_per_class is negative");
        s->n_vectors += s->per_class[i];
    }
    s->n_scores = nc_svm_n_scores(p->node);
    s->n_prob = floats_of(p->node, "prob_a", &s->prob_a);
    if (floats_of(p->node, "prob_b", &s->prob_b) < s->n_prob)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "prob_b is shorter than prob_a");
    if (s->n_vectors == 0) s->kernel = SVM_LINEAR, s->n_prob = 0;
    return check_classifier(p, s);
}

nc_code nc_svm_prepare(nc_prep *p) {
    svm *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (svm){.positive = true};
    p->state = s;
    NC_TRY(kernel_of(p, s));
    NC_TRY(nc_ml_post(p, &s->post));
    s->n_rho = floats_of(p->node, "rho", &s->rho);
    s->n_coefficients = floats_of(p->node, "coefficients", &s->coefficients);
    s->n_values = floats_of(p->node, "support_vectors", &s->vectors);
    for (int64_t i = 0; i < s->n_coefficients; i++) s->positive = s->positive && s->coefficients[i] >= 0;
    const nc_attr *labels = nc_node_attr(p->node, "classlabels_ints");
    if (labels != NULL) return prepare_classifier(p, s, labels);
    s->n_vectors = nc_attr_int(p->node, "n_supports");
    s->one_class = nc_attr_int(p->node, "one_class") != 0;
    if (s->n_vectors == 0) s->kernel = SVM_LINEAR;
    if (s->n_vectors < 0 || s->n_coefficients < s->n_vectors || s->n_rho < 1)
        NC_FAIL(p->w, NC_E_BAD_GRAPH,
                "%lld support vectors need as many coefficients and one rho, there are %lld and %lld",
                (long long)s->n_vectors, (long long)s->n_coefficients, (long long)s->n_rho);
    return NC_OK;
}

/* ---- one row ---- */

typedef struct row {
    const svm *s;
    const nc_tensor *x;
    int64_t i, features;
    double *kernels, *scores, *votes, *pairs, *work; /* see workspace */
} row;

static float feature(const row *r, int64_t f) { return (float)nck_ml_get(r->x, r->i * r->features + f); }

static float kernel_with(const row *r, const float *v) {
    const svm *s = r->s;
    float sum = 0;
    for (int64_t f = 0; f < r->features; f++) {
        float x = feature(r, f), d = x - v[f];
        sum += s->kernel == SVM_RBF ? d * d : x * v[f];
    }
    if (s->kernel == SVM_RBF) return expf(-s->gamma * sum);
    if (s->kernel == SVM_POLY) return powf(s->gamma * sum + s->coef0, s->degree);
    return s->kernel == SVM_SIGMOID ? tanhf(s->gamma * sum + s->coef0) : sum;
}

static float regressed(const row *r) {
    const svm *s = r->s;
    float sum = 0;
    if (s->n_vectors == 0) {
        sum = kernel_with(r, s->coefficients);
    } else {
        for (int64_t v = 0; v < s->n_vectors; v++)
            sum += s->coefficients[v] * kernel_with(r, s->vectors + v * r->features);
    }
    sum += s->rho[0];
    return s->one_class ? (sum > 0 ? 1.0f : -1.0f) : sum;
}

/* The machine of every pair of classes; a class gets a vote where its machine is positive. */
static void run_pairs(const row *r) {
    const svm *s = r->s;
    int64_t at = 0, first_i = 0;
    for (int64_t v = 0; v < s->n_vectors; v++) r->kernels[v] = (double)kernel_with(r, s->vectors + v * r->features);
    for (int64_t i = 0; i < s->n_classes; i++) r->votes[i] = 0;
    for (int64_t i = 0; i < s->n_classes; first_i += s->per_class[i++]) {
        int64_t first_j = first_i + s->per_class[i];
        for (int64_t j = i + 1; j < s->n_classes; first_j += s->per_class[j++]) {
            double sum = 0;
            for (int64_t m = first_i; m < first_i + s->per_class[i]; m++)
                sum += (double)s->coefficients[(j - 1) * s->n_vectors + m] * r->kernels[m];
            for (int64_t m = first_j; m < first_j + s->per_class[j]; m++)
                sum += (double)s->coefficients[i * s->n_vectors + m] * r->kernels[m];
            r->scores[at] = (double)(float)sum + (double)s->rho[at];
            r->votes[r->scores[at] > 0 ? i : j]++;
            at++;
        }
    }
}

/* p minimises sum (p_j r_ij - p_i r_ji)^2 over all pairs; solved by the fixed point of the paper's algorithm 2. */
static void couple(int64_t k, const double *r, double *p, double *q, double *qp) {
    int64_t most = nc_max64(k, 100);
    for (int64_t t = 0; t < k; t++) {
        p[t] = 1 / (double)k;
        q[t * k + t] = 0;
        for (int64_t j = 0; j < k; j++) {
            if (j == t) continue;
            q[t * k + t] += r[j * k + t] * r[j * k + t];
            q[t * k + j] = -r[j * k + t] * r[t * k + j];
        }
    }
    for (int64_t iteration = 0; iteration < most; iteration++) {
        double pqp = 0, error = 0;
        for (int64_t t = 0; t < k; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < k; j++) qp[t] += q[t * k + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < k; t++) error = fmax(error, fabs(qp[t] - pqp));
        if (error < 0.005 / (double)k) break;
        for (int64_t t = 0; t < k; t++) {
            double diff = (-qp[t] + pqp) / q[t * k + t];
            p[t] += diff;
            pqp = (pqp + diff * (diff * q[t * k + t] + 2 * qp[t])) / (1 + diff) / (1 + diff);
            for (int64_t j = 0; j < k; j++) {
                qp[j] = (qp[j] + diff * q[t * k + j]) / (1 + diff);
                p[j] /= 1 + diff;
            }
        }
    }
}

/* Platt's probability of every pair, then of every class, in scores. */
static void probabilities(const row *r) {
    const svm *s = r->s;
    int64_t k = s->n_classes, at = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = i + 1; j < k; j++, at++) {
            double v = r->scores[at] * (double)s->prob_a[at] + (double)s->prob_b[at];
            double p = 1 - nck_post_logistic(v);
            p = fmin(fmax(p, 1e-7), 1 - 1e-7);
            r->pairs[i * k + j] = p;
            r->pairs[j * k + i] = 1 - p;
        }
    couple(k, r->pairs, r->scores, r->work, r->work + k * k);
}

static int64_t best_of(const double *v, int64_t n) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        if (v[k] > v[best]) best = k;
    return best;
}

static void svm_classify(const row *r, int64_t *label, float *z) {
    const svm *s = r->s;
    int64_t n = s->n_classes * (s->n_classes - 1) / 2, best;
    nc_second second = NC_SECOND_NONE;
    if (s->n_vectors == 0) {
        for (int64_t k = 0; k < s->n_classes; k++)
            r->scores[k] = (double)(kernel_with(r, s->coefficients + k * r->features) + s->rho[0]);
        n = s->n_classes;
        best = best_of(r->scores, n);
    } else {
        run_pairs(r);
        best = best_of(r->votes, s->n_classes);
        if (s->n_prob > 0) {
            probabilities(r);
            n = s->n_classes;
        }
    }
    if (n == 1) second = s->post == NCK_POST_NONE ? NC_SECOND_NEGATIVE : NC_SECOND_REST;
    *label = s->labels[best];
    if (z != NULL) nc_ml_write_scores(s->post, second, n, r->scores, z, s->n_scores);
}

/* ---- all rows ---- */

/* Per row: kernels of all vectors, scores, votes, pairs, and the matrix of the coupling. */
static int64_t row_doubles(const svm *s) {
    int64_t k = s->n_classes + 1;
    return s->n_vectors + k * k + k + k * k + k * k + k;
}

size_t nc_svm_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)out, (void)n_out;
    return (size_t)(in[0].rank > 1 ? in[0].dims[0] : 1) * (size_t)row_doubles(state) * sizeof(double);
}

static void run_row(void *ctx, int64_t i) {
    const nc_call *c = ctx;
    const svm *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t k = s->n_classes + 1;
    row r = {.s = s, .x = x, .i = i, .features = x->dims[x->rank > 1]};
    r.kernels = (double *)c->workspace + i * row_doubles(s);
    r.scores = r.kernels + s->n_vectors;
    r.votes = r.scores + k * k;
    r.pairs = r.votes + k;
    r.work = r.pairs + k * k;
    if (s->n_labels == 0) {
        r.scores[0] = (double)regressed(&r);
        nc_ml_write_scores(s->post, NC_SECOND_NONE, 1, r.scores, (float *)c->out[0]->data + i, 1);
        return;
    }
    bool scored = c->n_out > 1 && c->out[1]->data != NULL;
    svm_classify(&r, (int64_t *)c->out[0]->data + i, scored ? (float *)c->out[1]->data + i * s->n_scores : NULL);
}

nc_code nc_svm_run(const nc_call *c) {
    const svm *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t n = x->rank > 1 ? x->dims[0] : 1, features = x->dims[x->rank > 1];
    int64_t rows = s->n_vectors > 0 ? s->n_vectors : s->n_labels > 0 ? s->n_classes : 1;
    int64_t have = s->n_vectors > 0 ? s->n_values : s->n_coefficients;
    if (rows * features != have)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "X has %lld features for %lld vectors of %lld numbers",
                           (long long)features, (long long)rows, (long long)have);
    nc_parallel(nc_pool_for(c->pool, n * have), n, run_row, (void *)(uintptr_t)c);
    return NC_OK;
}
