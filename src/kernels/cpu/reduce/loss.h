/* kernels/cpu/reduce/loss.h: softmax cross-entropy and its gradient, as ONNX SoftmaxCrossEntropyLoss defines them.
 *
 * logits, log_prob, d_logits (N,C,D), labels (N,D) int32 or int64, weights (C) or NULL (all 1), D the product of the
 * dims after C; all dense; f32 or f64. An element whose label is ignore_index has loss 0, weight 0 and gradient 0.
 * Mean divides by the sum of the weights of the labels, which is NaN when all are ignored.
 * Accumulation: losses and weights in double, in order. */
#ifndef NCK_LOSS_H
#define NCK_LOSS_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/threads.h"

typedef enum nck_loss_reduction { NCK_LOSS_NONE, NCK_LOSS_SUM, NCK_LOSS_MEAN } nck_loss_reduction;

typedef struct nck_loss_args {
    nc_dtype type;
    int64_t N, C, D;
    nc_dtype label_type;
    const void *labels;
    const void *weights;
    bool has_ignore;
    int64_t ignore_index;
    nck_loss_reduction reduction;
} nck_loss_args;

/* loss (N,D) for NONE, else one element; log_prob is always written. A label outside [0, C) that is not ignore_index
 * gives DATA and the first such label in *bad (may be NULL); nothing is written then. */
NC_MUST nc_code nck_cross_entropy(const nck_loss_args *a, const void *logits, void *loss, void *log_prob, int64_t *bad,
                                  nc_pool *pool);

/* dloss has the shape of loss; d_logits = (exp(log_prob) - onehot(label)) * weight * dloss (/ sum of weights for MEAN).
 * d_logits may be log_prob. */
NC_MUST nc_code nck_cross_entropy_grad(const nck_loss_args *a, const void *dloss, const void *log_prob, void *d_logits,
                                       int64_t *bad, nc_pool *pool);

/* Both from the scores at once, their exponentials taken a single time where D is 1. dloss does not depend on the loss;
 * d_logits may be logits; picked is scratch of N * D elements. */
NC_MUST nc_code nck_cross_entropy_both(const nck_loss_args *a, const void *dloss, const void *logits, void *loss,
                                       void *d_logits, void *picked, int64_t *bad, nc_pool *pool);

#endif
