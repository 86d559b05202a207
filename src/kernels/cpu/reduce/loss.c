/* kernels/cpu/reduce/loss.c: softmax cross-entropy over class axis 1, see loss.h.
 * Forward is log-softmax and a pick. Both at once, where the classes of a position lie side by side: what the sum of
 * exponentials is made of, scaled, is the gradient. Backward alone scales exp(log_prob) by one factor per position; its
 * items are pieces of (n, strip of positions), each going through all classes. */
#include "kernels/cpu/reduce/loss.h"

#include "base/intmath.h"
#include "base/real.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/per_type.h"
#include "kernels/cpu/reduce/reduce_kernel.h"
#include "kernels/cpu/reduce/softmax.h"

#include <math.h>
#include <string.h>

enum { RUN = 256 };

typedef struct loss_job {
    const nck_loss_args *a;
    const void *dloss, *log_prob, *logits; /* of both at once: logits alone */
    void *dx, *picked;                     /* picked: log-probabilities of labels */
    double norm;                           /* dloss is divided by it */
    int64_t n_strips;
    const nck_reduce_table *table;
} loss_job;

static int64_t label_at(const nck_loss_args *a, int64_t i) {
    return a->label_type == NC_INT32 ? ((const int32_t *)a->labels)[i] : ((const int64_t *)a->labels)[i];
}

static bool ignored(const nck_loss_args *a, int64_t label) { return a->has_ignore && label == a->ignore_index; }

static double weight_of(const nck_loss_args *a, int64_t label) {
    return ignored(a, label) ? 0 : a->weights ? nc_real_get(a->type, a->weights, label) : 1;
}

static nc_code loss_check(const nck_loss_args *a, int64_t *bad) {
    if (a->type != NC_FLOAT && a->type != NC_DOUBLE) return NC_E_TYPE;
    if (a->label_type != NC_INT32 && a->label_type != NC_INT64) return NC_E_TYPE;
    for (int64_t i = 0; i < a->N * a->D; i++) {
        int64_t label = label_at(a, i);
        if ((label >= 0 && label < a->C) || ignored(a, label)) continue;
        if (bad) *bad = label;
        return NC_E_DATA;
    }
    return NC_OK;
}

/* The loss from log-probabilities: of all classes, or of the labels alone. */
static void loss_join(const nck_loss_args *a, const void *log_prob, bool picked, void *loss) {
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < a->N * a->D; i++) {
        int64_t label = label_at(a, i), n = i / a->D, d = i % a->D;
        double w = weight_of(a, label), l = 0;
        if (!ignored(a, label)) l = -w * nc_real_get(a->type, log_prob, picked ? i : (n * a->C + label) * a->D + d);
        if (a->reduction == NCK_LOSS_NONE) nc_real_put(a->type, loss, i, l);
        sum += l;
        norm += w;
    }
    if (a->reduction == NCK_LOSS_SUM) nc_real_put(a->type, loss, 0, sum);
    if (a->reduction == NCK_LOSS_MEAN) nc_real_put(a->type, loss, 0, sum / norm);
}

nc_code nck_cross_entropy(const nck_loss_args *a, const void *logits, void *loss, void *log_prob, int64_t *bad,
                          nc_pool *pool) {
    NC_TRY(loss_check(a, bad));
    nc_tensor x = {.data = (void *)(uintptr_t)logits,
                   .dtype = a->type,
                   .rank = 3,
                   .dims = {a->N, a->C, a->D},
                   .strides = {a->C * a->D, a->D, 1}};
    nc_tensor y = x;
    y.data = log_prob;
    nck_softmax(NCK_LOG_SOFTMAX, &x, &y, 1, pool);
    loss_join(a, log_prob, false, loss);
    return NC_OK;
}

/* d loss / d loss of position i alone. An ignored position is 0 even where dloss or 1/norm is not finite. */
static double loss_factor(const loss_job *j, int64_t i) {
    const nck_loss_args *a = j->a;
    int64_t label = label_at(a, i);
    if (ignored(a, label)) return 0;
    return weight_of(a, label) * nc_real_get(a->type, j->dloss, a->reduction == NCK_LOSS_NONE ? i : 0) / j->norm;
}

#define TEXT "kernels/cpu/reduce/loss_grad.inc"
#include "kernels/cpu/per_float.inc"

static double loss_norm(const nck_loss_args *a) {
    double norm = 0;
    if (a->reduction != NCK_LOSS_MEAN) return 1;
    for (int64_t i = 0; i < a->N * a->D; i++) norm += weight_of(a, label_at(a, i));
    return norm;
}

nc_code nck_cross_entropy_grad(const nck_loss_args *a, const void *dloss, const void *log_prob, void *d_logits,
                               int64_t *bad, nc_pool *pool) {
    NC_TRY(loss_check(a, bad));
    loss_job j = {.a = a,
                  .dloss = dloss,
                  .log_prob = log_prob,
                  .dx = d_logits,
                  .norm = loss_norm(a),
                  .n_strips = nc_ceil_div(a->D, RUN),
                  .table = nck_isa_get()->reduce};
    nc_parallel(nc_pool_for(pool, a->N * a->C * a->D), a->N * j.n_strips,
                a->type == NC_FLOAT ? loss_grad_item_f32 : loss_grad_item_f64, &j);
    return NC_OK;
}

nc_code nck_cross_entropy_both(const nck_loss_args *a, const void *dloss, const void *logits, void *loss,
                               void *d_logits, void *picked, int64_t *bad, nc_pool *pool) {
    if (a->D != 1) {
        NC_TRY(nck_cross_entropy(a, logits, loss, d_logits, bad, pool));
        return nck_cross_entropy_grad(a, dloss, d_logits, d_logits, bad, pool);
    }
    NC_TRY(loss_check(a, bad));
    loss_job j = {.a = a,
                  .dloss = dloss,
                  .logits = logits,
                  .dx = d_logits,
                  .picked = picked,
                  .norm = loss_norm(a),
                  .table = nck_isa_get()->reduce};
    nc_parallel(nc_pool_for(pool, a->N * a->C), a->N, a->type == NC_FLOAT ? loss_both_row_f32 : loss_both_row_f64, &j);
    loss_join(a, picked, true, loss);
    return NC_OK;
}
