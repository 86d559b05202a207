/* kernels/cpu/ml/forest_steps.c: walks down forests that are laid out as steps, LANES walks side by side. */
#include "kernels/cpu/ml/forest_steps.h"

enum { LANES = 16 };

static void begin_row(const nck_steps *s, double *scores, bool *voted) {
    for (int64_t k = 0; k < s->n_targets; k++) scores[k] = 0, voted[k] = false;
}

static void end_row(const nck_steps *s, double *scores) {
    if (s->gather == NCK_GATHER_AVERAGE && s->n_roots > 0)
        for (int64_t k = 0; k < s->n_targets; k++) scores[k] /= (double)s->n_roots;
}

static void add_votes(const nck_steps *s, int32_t first, bool single, double *scores, bool *voted) {
    if (first == NCK_STEP_NO_VOTE) return;
    for (const nck_step_vote *v = s->votes + first;; v++) {
        double old = scores[v->target];
        scores[v->target] = voted[v->target] ? nck_gathered(s->gather, old, v->weight, single) : v->weight;
        voted[v->target] = true;
        if (v->last) return;
    }
}

/* ---- walks, for each type of x; V is what it is compared as ---- */

#define X float
#define V float
#define STEP f32
#define NAME(word) word##_f32
#include "kernels/cpu/ml/forest_walk.inc"
#define X int32_t
#define V float
#define STEP f32
#define NAME(word) word##_i32
#include "kernels/cpu/ml/forest_walk.inc"
#define X int64_t
#define V float
#define STEP f32
#define NAME(word) word##_i64
#include "kernels/cpu/ml/forest_walk.inc"
#define X double
#define V double
#define STEP f64
#define NAME(word) word##_f64
#include "kernels/cpu/ml/forest_walk.inc"

void nck_steps_rows(const nck_steps *s, const nc_tensor *x, int64_t first, int64_t n, double *scores, bool *voted,
                    int64_t stride) {
    int64_t features = x->dims[x->rank > 1], at = first * features;
    for (int64_t i = 0; i < n; i++) begin_row(s, scores + i * stride, voted + i * stride);
    switch (x->dtype) {
    case NC_DOUBLE: rows_f64(s, (const double *)x->data + at, features, n, scores, voted, stride); break;
    case NC_INT32: rows_i32(s, (const int32_t *)x->data + at, features, n, scores, voted, stride); break;
    case NC_INT64: rows_i64(s, (const int64_t *)x->data + at, features, n, scores, voted, stride); break;
    default: rows_f32(s, (const float *)x->data + at, features, n, scores, voted, stride); break;
    }
    for (int64_t i = 0; i < n; i++) end_row(s, scores + i * stride);
}

void nck_steps_leaves(const nck_steps *s, const nc_tensor *x, int64_t t0, int64_t t1, uint32_t *leaves) {
    int64_t features = x->dims[x->rank > 1], n = x->rank > 1 ? x->dims[0] : 1;
    switch (x->dtype) {
    case NC_DOUBLE: leaves_f64(s, x->data, features, n, t0, t1, leaves); break;
    case NC_INT32: leaves_i32(s, x->data, features, n, t0, t1, leaves); break;
    case NC_INT64: leaves_i64(s, x->data, features, n, t0, t1, leaves); break;
    default: leaves_f32(s, x->data, features, n, t0, t1, leaves); break;
    }
}

void nck_steps_collect(const nck_steps *s, const nc_tensor *x, const uint32_t *leaves, double *scores, bool *voted) {
    begin_row(s, scores, voted);
    if (x->dtype == NC_DOUBLE)
        collect_f64(s, leaves, scores, voted);
    else
        collect_f32(s, leaves, scores, voted);
    end_row(s, scores);
}
