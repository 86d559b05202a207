/* ops/nn/loss_cpu.c: the losses and their gradients on the CPU: softmax cross-entropy over
 * kernels/cpu/reduce/loss.h, negative log-likelihood by plain loops, since it touches one class of each position.
 * Losses and weights are summed in double. */
#include "base/real.h"
#include "ops/nn/loss.h"
#include "ops/nn/nn_cpu.h"

#include <string.h>

nc_code nc_loss_prepare(nc_prep *p) {
    nc_loss *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = nc_loss_read(p->node);
    p->state = s;
    p->over[1] = 1; /* log_prob, where the scores are */
    return NC_OK;
}

nc_code nc_loss_grad_prepare(nc_prep *p) {
    NC_TRY(nc_loss_prepare(p));
    p->over[0] = 1u << 1;
    p->over[1] = 0;
    return NC_OK;
}

/* For log_prob, where nobody asks for it. */
size_t nc_loss_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_loss *s = state;
    (void)n_in;
    (void)out;
    (void)n_out;
    return s->gives_logs ? 0 : (size_t)nc_tensor_numel(&in[0]) * nc_dtype_bytes(in[0].dtype);
}

static nc_code wrong_label_of(const char *op, const nc_call *c, const nck_loss_args *a, int64_t bad) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, op, "label %lld is outside 0 to %lld", (long long)bad,
                       (long long)a->C - 1);
}

static nc_code wrong_label(const nc_call *c, const nck_loss_args *a, int64_t bad) {
    return wrong_label_of(c->op, c, a, bad);
}

nc_code nc_loss_run(const nc_call *c) {
    nck_loss_args a;
    int64_t bad = 0;
    NC_TRY(nc_loss_describe(c->state, c, c->in[0], 1, &a));
    void *log_prob = c->n_out > 1 && c->out[1]->data != NULL ? c->out[1]->data : c->workspace;
    nc_code code = nck_cross_entropy(&a, c->in[0]->data, c->out[0]->data, log_prob, &bad, c->pool);
    return code == NC_E_DATA ? wrong_label(c, &a, bad) : code;
}

nc_code nc_loss_grad_run(const nc_call *c) {
    nck_loss_args a;
    int64_t bad = 0;
    NC_TRY(nc_loss_describe(c->state, c, c->in[1], 2, &a));
    nc_code code = nck_cross_entropy_grad(&a, c->in[0]->data, c->in[1]->data, c->out[0]->data, &bad, c->pool);
    return code == NC_E_DATA ? wrong_label(c, &a, bad) : code;
}

/* For the log-probability of each label. */
size_t nc_loss_both_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)nc_tensor_numel(&in[2]) * nc_dtype_bytes(in[1].dtype);
}

nc_code nc_loss_both_run(const nc_call *c) {
    nck_loss_args a;
    int64_t bad = 0;
    NC_TRY(nc_loss_describe(c->state, c, c->in[1], 2, &a));
    nc_code code = nck_cross_entropy_both(&a, c->in[0]->data, c->in[1]->data, c->out[1]->data, c->out[0]->data,
                                          c->workspace, &bad, c->pool);
    /* told of the op that the model has, whose name the node carries */
    return code == NC_E_DATA ? wrong_label_of("SoftmaxCrossEntropyLoss", c, &a, bad) : code;
}

/* ---- negative log-likelihood ---- */

static int64_t label_at(const nck_loss_args *a, int64_t i) {
    return a->label_type == NC_INT32 ? ((const int32_t *)a->labels)[i] : ((const int64_t *)a->labels)[i];
}

/* Where position i picks from x, and its weight: -1 when it is ignored. */
static int64_t picked(const nck_loss_args *a, int64_t i, double *weight) {
    int64_t label = label_at(a, i);
    if (a->has_ignore && label == a->ignore_index) return -1;
    *weight = a->weights != NULL ? nc_real_get(a->type, a->weights, label) : 1;
    return (i / a->D * a->C + label) * a->D + i % a->D;
}

static nc_code check_labels(const nc_call *c, const nck_loss_args *a) {
    for (int64_t i = 0; i < a->N * a->D; i++) {
        int64_t label = label_at(a, i);
        if ((label < 0 || label >= a->C) && !(a->has_ignore && label == a->ignore_index))
            return wrong_label(c, a, label);
    }
    return NC_OK;
}

nc_code nc_nll_run(const nc_call *c) {
    nck_loss_args a;
    double sum = 0, norm = 0, w = 0;
    NC_TRY(nc_loss_describe(c->state, c, c->in[0], 1, &a));
    NC_TRY(check_labels(c, &a));
    for (int64_t i = 0; i < a.N * a.D; i++) {
        int64_t at = picked(&a, i, &w);
        double l = at < 0 ? 0 : -w * nc_real_get(a.type, c->in[0]->data, at);
        if (a.reduction == NCK_LOSS_NONE) nc_real_put(a.type, c->out[0]->data, i, l);
        sum += l;
        norm += at < 0 ? 0 : w;
    }
    if (a.reduction != NCK_LOSS_NONE)
        nc_real_put(a.type, c->out[0]->data, 0, a.reduction == NCK_LOSS_SUM ? sum : sum / norm);
    return NC_OK;
}

nc_code nc_nll_grad_run(const nc_call *c) {
    nck_loss_args a;
    double norm = 0, w = 0;
    NC_TRY(nc_loss_describe(c->state, c, c->in[1], 2, &a));
    NC_TRY(check_labels(c, &a));
    int64_t n = nc_tensor_numel(c->out[0]);
    if (n > 0) memset(c->out[0]->data, 0, (size_t)n * nc_dtype_bytes(a.type));
    for (int64_t i = 0; i < a.N * a.D; i++) norm += picked(&a, i, &w) < 0 ? 0 : w;
    for (int64_t i = 0; i < a.N * a.D; i++) {
        int64_t at = picked(&a, i, &w);
        if (at < 0) continue;
        double d = nc_real_get(a.type, c->in[0]->data, a.reduction == NCK_LOSS_NONE ? i : 0);
        nc_real_put(a.type, c->out[0]->data, at, -w * d / (a.reduction == NCK_LOSS_MEAN ? norm : 1));
    }
    return NC_OK;
}
