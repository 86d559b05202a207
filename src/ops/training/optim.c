/* ops/training/optim.c: cards of ONNX Runtime's optimizers over sequences of tensors (AdamWOptimizer, SGDOptimizerV2,
 * InplaceClipGradNorm), of nacre.MomentumOptimizer, which it lacks, and of nacre.OptimizerStep, the same over
 * variables: one node for all parameters. A session on
 * its own gives new sequences; a training session puts the step in their place (train/bind.c). Kernels are in
 * training_cpu.c. */
#include "ops/training/optim.h"

#include "ops/sequence/sequence.h"
#include "ops/training/training.h"

#include <string.h>

static nc_code flag_out(nc_infer *c) {
    const nc_dim *one = nc_dim_const(c->dims, 1);
    return nc_out(c, 0, NC_BOOL, 1, &one);
}

static nc_code adamw_infer(nc_infer *c) {
    int64_t mode = nc_attr_int(c->node, "adam_mode");
    if (mode != 0 && mode != 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "adam_mode is %lld, expected 0 or 1", (long long)mode);
    NC_TRY(flag_out(c));
    NC_TRY(nc_out_like(c, 1, 2));
    NC_TRY(nc_out_like(c, 2, 4));
    return nc_out_like(c, 3, 5);
}

static nc_code sgd_infer(nc_infer *c) {
    NC_TRY(flag_out(c));
    return nc_out_like(c, 1, 1);
}

static nc_code momentum_infer(nc_infer *c) {
    double momentum = nc_attr_float(c->node, "momentum"), dampening = nc_attr_float(c->node, "dampening");
    if (nc_attr_int(c->node, "nesterov") && (!(momentum > 0) || dampening != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH,
                "nesterov needs a momentum above 0 and no dampening, got a momentum of %g and a dampening of %g",
                momentum, dampening);
    NC_TRY(flag_out(c));
    NC_TRY(nc_out_like(c, 1, 2));
    return nc_out_like(c, 2, 4);
}

static nc_code clip_infer(nc_infer *c) {
    const char *norm = nc_attr_str(c->node, "norm_type");
    if (strcmp(norm, "fro") != 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "norm_type is '%.40s', expected fro", norm);
    return nc_out_like(c, 0, 0);
}

static bool has_number(const nc_node *n, const char *name) {
    for (const nc_attr_spec *a = n->version->attr; a->name != NULL; a++)
        if (strcmp(a->name, name) == 0) return true;
    return false;
}

/* Without momentum nothing of the moments is read, and nothing of a gradient is left out. */
static nck_optim_rule momentum_rule(const nc_node *n) {
    double momentum = nc_attr_float(n, "momentum");
    return (nck_optim_rule){.momentum = true,
                            .nesterov = nc_attr_int(n, "nesterov") != 0,
                            .alpha = momentum,
                            .dampening = momentum > 0 ? nc_attr_float(n, "dampening") : 0,
                            .decay = nc_attr_float(n, "weight_decay")};
}

nck_optim_rule nc_optim_rule_of(const nc_node *n) {
    bool step = has_number(n, "moments");
    if (step ? nc_attr_int(n, "moments") == 1 : has_number(n, "momentum")) return momentum_rule(n);
    if (!has_number(n, "adam_mode")) return (nck_optim_rule){.adam = false};
    return (nck_optim_rule){.adam = !step || nc_attr_int(n, "moments") > 0,
                            .decay_last = nc_attr_int(n, "adam_mode") == 1,
                            .correct_bias = nc_attr_int(n, "correct_bias") != 0,
                            .alpha = nc_attr_float(n, "alpha"),
                            .beta = nc_attr_float(n, "beta"),
                            .epsilon = nc_attr_float(n, "epsilon"),
                            .decay = nc_attr_float(n, "weight_decay")};
}

/* ---- nacre.OptimizerStep ---- */

nc_optim_layout nc_optim_layout_of(const nc_node *n) {
    nc_optim_layout l = {.n = (int)nc_attr_int(n, "n"), .moments = (int)nc_attr_int(n, "moments")};
    l.grads = l.n * (1 + l.moments);
    l.rate = l.grads + l.n;
    return l;
}

static nc_code step_infer(nc_infer *c) {
    nc_optim_layout l = nc_optim_layout_of(c->node);
    if (l.n < 0 || l.moments < 0 || l.moments > 2 || c->node->n_in != l.rate + 4 || c->node->n_out != l.grads)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs and %d outputs do not fit %d parameters with %d moments",
                c->node->n_in, c->node->n_out, l.n, l.moments);
    for (int i = 0; i < l.n; i++) {
        const nc_type *w = nc_in(c, i);
        for (int k = 1; w != NULL && w->rank >= 0 && k <= 1 + l.moments; k++) {
            int rank, at = k * l.n + i;
            if (nc_in_rank(c, at, &rank) && rank != w->rank)
                NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, its parameter %d", at, rank, w->rank);
            for (int d = 0; d < w->rank; d++) NC_TRY(nc_in_expect(c, at, d, w->dims[d]));
        }
    }
    for (int i = 0; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, i));
    return NC_OK;
}

#define RULE(epsilon_default, decay_default)                                              \
    A_FLOAT("alpha", 0.9f), A_FLOAT("beta", 0.999f), A_FLOAT("epsilon", epsilon_default), \
        A_FLOAT("weight_decay", decay_default), A_INT("correct_bias", 1), A_INT("adam_mode", 0)
#define SIGNAL \
    { "update_signal", T_BOOL, OPTIONAL }
#define AGAIN(name) \
    { name, T_SEQ, OPTIONAL }
static const nc_op_version adamw_versions[] = {
    {.since = 1,
     IN({"lr", T_F32}, {"step", T_I64}, {"weights", T_SEQ}, {"gradients", T_SEQ}, {"momentums_1", T_SEQ},
        {"momentums_2", T_SEQ}, SIGNAL),
     OUT({"updated_flag", T_BOOL}, AGAIN("updated_weights"), AGAIN("updated_momentums_1"),
         AGAIN("updated_momentums_2")),
     ATTR(RULE(1e-8f, 1e-2f))},
    {0}};
static const nc_op_version sgd_versions[] = {{.since = 1,
                                              IN({"lr", T_F32}, {"weights", T_SEQ}, {"gradients", T_SEQ}, SIGNAL),
                                              OUT({"updated_flag", T_BOOL}, AGAIN("updated_weights")),
                                              NO_ATTR},
                                             {0}};
#define MOMENTUM A_FLOAT("momentum", 0.0f), A_FLOAT("dampening", 0.0f), A_INT("nesterov", 0)
static const nc_op_version momentum_versions[] = {
    {.since = 1,
     IN({"lr", T_F32}, {"step", T_I64}, {"weights", T_SEQ}, {"gradients", T_SEQ}, {"moments", T_SEQ}, SIGNAL),
     OUT({"updated_flag", T_BOOL}, AGAIN("updated_weights"), AGAIN("updated_moments")),
     ATTR(MOMENTUM, A_FLOAT("weight_decay", 0.0f))},
    {0}};
static const nc_op_version clip_versions[] = {{.since = 1,
                                               IN({"gradients", T_SEQ}),
                                               OUT({"clipped_gradients", T_SEQ}),
                                               ATTR(A_FLOAT("max_norm", 1.0f), A_STR("norm_type", "fro"))},
                                              {0}};
static const nc_op_version step_versions[] = {
    {.since = 1,
     IN({"inputs", T_FLOAT_ALL | T_I64 | T_BOOL, MIXED}),
     OUT({"outputs", T_FLOAT_ALL, MIXED}),
     ATTR(A_INT_REQ("n"), A_INT_REQ("moments"), RULE(1e-8f, 1e-2f), MOMENTUM)},
    {0}};

#define NO_GRAD .no_grad = "it is the step of an optimizer"
NC_TRAINING_CARD(adamw_optimizer, "AdamWOptimizer", "A step of Adam with decoupled weight decay over all weights.",
                 adamw_versions, .traits = NC_HOST_OBJECTS, .infer = adamw_infer, NO_GRAD);
NC_TRAINING_CARD(sgd_optimizer_2, "SGDOptimizerV2", "weights - lr * gradients.", sgd_versions,
                 .traits = NC_HOST_OBJECTS, .infer = sgd_infer, NO_GRAD);
NC_TRAINING_CARD(clip_grad_norm, "InplaceClipGradNorm", "Gradients scaled so that their common norm is no larger.",
                 clip_versions, .traits = NC_HOST_OBJECTS, .infer = clip_infer, NO_GRAD);
const nc_card nc_card_training_momentum_optimizer = {
    .name = "MomentumOptimizer",
    .domain = "nacre",
    .doc = "A step of gradient descent with momentum and weight decay over all weights, as PyTorch's.",
    .versions = momentum_versions,
    .traits = NC_HOST_OBJECTS,
    .infer = momentum_infer,
    NO_GRAD};
const nc_card nc_card_training_optimizer_step = {
    .name = "OptimizerStep",
    .domain = "nacre",
    .doc = "A step of an optimizer for all parameters: the next versions of n weights and their moments.",
    .versions = step_versions,
    .traits = NC_IN_PLACE,
    .n_updates = INT32_MAX,
    .infer = step_infer,
    NO_GRAD};
