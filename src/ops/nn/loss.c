/* ops/nn/loss.c: cards of SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss and of their gradient ops. Classes
 * are axis 1; labels have the shape without it. A label equal to ignore_index has loss and weight 0. Kernels are in
 * loss_cpu.c. */
#include "ops/nn/loss.h"

#include "ops/build.h"
#include "ops/contrib.h"

#include <string.h>

extern const nc_card nc_card_softmax_cross_entropy_loss, nc_card_softmax_cross_entropy_loss_grad,
    nc_card_cross_entropy_grad;

/* Labels are input i_labels, the weights of the classes, if any, the one behind. */
static nc_code check_labels(nc_infer *c, const nc_type *x, int i_labels) {
    int rank;
    if (x->rank >= 0 && x->rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "scores have %d dims, at least 2 are expected", x->rank);
    if (x->rank < 0) return NC_OK;
    NC_TRY(nc_contrib_vector(c, i_labels + 1, x->dims[1]));
    if (!nc_in_rank(c, i_labels, &rank)) return NC_OK;
    if (rank != x->rank - 1) NC_FAIL(c->w, NC_E_SHAPE, "labels have %d dims, %d are expected", rank, x->rank - 1);
    for (int i = 0; i < rank; i++) NC_TRY(nc_in_expect(c, i_labels, i, x->dims[i == 0 ? 0 : i + 1]));
    return NC_OK;
}

static nc_code loss_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *labels = nc_in(c, 1);
    const char *reduction = nc_attr_str(c->node, "reduction");
    if (strcmp(reduction, "none") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "mean") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "reduction is '%s', expected none, sum or mean", reduction);
    if (x == NULL) return NC_OK;
    NC_TRY(check_labels(c, x, 1));
    NC_TRY(nc_out_like(c, 1, 0));
    if (c->node->n_out > 2 && labels != NULL && labels->rank >= 0) /* what lowering adds: nc_loss_keep */
        NC_TRY(nc_out(c, 2, x->elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT, labels->rank, labels->dims));
    if (strcmp(reduction, "none") != 0) return nc_out(c, 0, x->elem, 0, NULL);
    if (labels == NULL || labels->rank < 0) return nc_out_unknown(c, 0, x->elem, x->rank < 0 ? -1 : x->rank - 1);
    return nc_out(c, 0, x->elem, labels->rank, labels->dims);
}

/* Of the elements of a line of scores the first `classes` are meant; 0: all. */
static nc_code check_classes(nc_infer *c) {
    const nc_type *x = nc_in(c, 1);
    int64_t classes = nc_attr_int(c->node, "classes"), longer;
    if (classes == 0) return NC_OK;
    if (classes < 0 || (c->node->n_in > 3 && c->node->in[3] != NULL) || (x != NULL && x->rank >= 0 && x->rank != 2))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "classes is %lld: expected with scores of 2 dims and no weights",
                (long long)classes);
    if (x != NULL && x->rank == 2 && nc_dim_is_const(x->dims[1], &longer) && longer < classes)
        NC_FAIL(c->w, NC_E_SHAPE, "classes is %lld, lines have %lld", (long long)classes, (long long)longer);
    return NC_OK;
}

static nc_code loss_grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1);
    if (x != NULL) NC_TRY(check_labels(c, x, 2));
    NC_TRY(strcmp(nc_attr_str(c->node, "reduction"), "none") == 0 ? nc_in_same(c, 0, 2) : nc_in_single(c, 0));
    return nc_out_like(c, 0, 1);
}

/* The gradient, then the loss. */
static nc_code both_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1), *labels = nc_in(c, 2);
    NC_TRY(loss_grad_infer(c));
    if (x == NULL || labels == NULL) return NC_OK;
    if (strcmp(nc_attr_str(c->node, "reduction"), "none") != 0) return nc_out(c, 1, x->elem, 0, NULL);
    if (labels->rank < 0) return nc_out_unknown(c, 1, x->elem, x->rank < 0 ? -1 : x->rank - 1);
    return nc_out(c, 1, x->elem, labels->rank, labels->dims);
}

static int attrs_of(const nc_node *n, nc_attr attrs[2]) {
    const char *reduction = nc_attr_str(n, "reduction");
    const nc_attr *ignore = nc_node_attr(n, "ignore_index");
    attrs[0] =
        (nc_attr){.name = "reduction", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)reduction, strlen(reduction)}};
    if (ignore != NULL) attrs[1] = (nc_attr){.name = "ignore_index", .kind = NC_A_INT, .i = ignore->i};
    return ignore != NULL ? 2 : 1;
}

/* ---- pieces ---- */

static nc_value *unsqueeze(nc_builder *b, nc_value *x, int first, int n) {
    int64_t axes[NC_MAX_RANK];
    for (int i = 0; i < n; i++) axes[i] = first + i;
    return n == 0 ? x : nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, axes, n));
}

/* 0, 1, ..., C-1 along axis 1 of a tensor with `rank` dims. */
static nc_value *classes(nc_builder *b, nc_value *like) {
    int64_t n;
    nc_value *range;
    if (b->code != NC_OK) return NULL;
    if (nc_dim_is_const(like->type->dims[1], &n) && n <= 65536) {
        int64_t *v = nc_arena_array(&b->w->scratch, (size_t)n, sizeof *v);
        for (int64_t i = 0; v != NULL && i < n; i++) v[i] = i;
        if (v == NULL) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
        range = nc_build_ints(b, v, (int)n);
    } else {
        nc_value *size = nc_build1(b, "Gather", 2, nc_build_shape(b, like), nc_build_int(b, 1));
        range = nc_build1(b, "Range", 3, nc_build_int(b, 0), size, nc_build_int(b, 1));
    }
    return unsqueeze(b, range, 1, like->type->rank - 2);
}

/* Which class the label of each place is: bool, of the shape of the scores; none where it is ignored. */
static nc_value *picked(nc_builder *b, const nc_node *n, nc_value *labels, nc_value *like) {
    const nc_attr *ignore = nc_node_attr(n, "ignore_index");
    labels = unsqueeze(b, nc_build_cast(b, labels, NC_INT64), 1, 1);
    nc_value *hit = nc_build1(b, "Equal", 2, labels, classes(b, like));
    if (ignore == NULL) return hit;
    nc_value *skip = nc_build1(b, "Equal", 2, labels, nc_build_int(b, ignore->i));
    return nc_build1(b, "And", 2, hit, nc_build1(b, "Not", 1, skip));
}

/* ---- gradients ---- */

/* The gradient op `name` on (dloss, log_prob, labels, weights). */
static nc_value *grad_op(nc_grad *g, const char *name, nc_value *dloss, nc_value *log_prob) {
    nc_attr attrs[2];
    int n_attrs = attrs_of(g->node, attrs);
    bool weighted = g->node->n_in > 2 && g->node->in[2] != NULL;
    nc_value *in[4] = {dloss, log_prob, nc_grad_x(g, 1), weighted ? nc_grad_x(g, 2) : NULL};
    return nc_build_attr1(g->b, "nacre", name, in, weighted ? 4 : 3, attrs, n_attrs);
}

/* What the forward node finds on its way to the loss: asked of it, where nobody has yet. */
static nc_value *log_prob_of(nc_grad *g) {
    nc_node *n = g->node->out[0]->def;
    if (g->b->code != NC_OK) return NULL;
    if (n->n_out < 2) {
        if (nc_edit_add_out(n, NULL) == NULL) {
            g->b->code = nc_fail(g->b->w, NC_E_MEMORY, "out of memory");
            return NULL;
        }
        if (g->b->infer != NULL) g->b->code = g->b->infer(g->b->w, n);
    }
    if (n->out[1] != NULL) return nc_grad_y(g, 1);
    nc_value *x = nc_grad_x(g, 0);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    return nc_build_attr1(g->b, "", "LogSoftmax", &x, 1, &axis, 1);
}

/* By the weights of the classes: each loss is its weight times -log_prob, summed over the places of a class. Of a mean
 * the sum of the weights is the divisor, so the mean itself is taken off. */
static nc_value *weights_grad(nc_grad *g, nc_value *dloss, nc_value *log_prob) {
    nc_builder *b = g->b;
    const char *reduction = nc_attr_str(g->node, "reduction");
    bool none = strcmp(reduction, "none") == 0, mean = strcmp(reduction, "mean") == 0;
    if (b->code == NC_OK && (log_prob->type == NULL || log_prob->type->rank < 2))
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the gradient by the weights needs a known rank");
    if (b->code != NC_OK) return NULL;
    int rank = log_prob->type->rank, n_axes = 0;
    int64_t axes[NC_MAX_RANK];
    for (int i = 0; i < rank; i++)
        if (i != 1) axes[n_axes++] = i;
    nc_value *hit = picked(b, g->node, nc_grad_x(g, 1), log_prob), *part = nc_build1(b, "Neg", 1, log_prob);
    if (mean) part = nc_build1(b, "Sub", 2, part, nc_grad_y(g, 0));
    part = nc_build1(b, "Where", 3, hit, part, nc_build_scalar(b, log_prob->type->elem, 0));
    if (none) part = nc_build1(b, "Mul", 2, part, unsqueeze(b, dloss, 1, 1));
    nc_value *sum = nc_build_reduce_sum(b, part, axes, n_axes, false);
    if (none) return sum;
    sum = nc_build1(b, "Mul", 2, sum, dloss);
    if (!mean) return sum;
    nc_value *counts = nc_build_reduce_sum(b, nc_build_cast(b, hit, log_prob->type->elem), axes, n_axes, false);
    nc_value *all = nc_build_reduce_sum(b, nc_build1(b, "Mul", 2, counts, nc_grad_x(g, 2)), (int64_t[]){0}, 1, false);
    return nc_build1(b, "Div", 2, sum, all);
}

static nc_code cross_entropy_grad(nc_grad *g) {
    nc_value *dloss = nc_grad_dy(g, 0), *dlog = nc_grad_dy(g, 1);
    bool weighs = dloss != NULL && g->node->n_in > 2 && g->wants[2];
    if ((dloss == NULL && dlog == NULL) || !(g->wants[0] || weighs)) return NC_OK;
    nc_value *log_prob = log_prob_of(g), *dx = NULL;
    if (weighs) nc_grad_set(g, 2, weights_grad(g, dloss, log_prob));
    if (!g->wants[0]) return nc_grad_end(g);
    if (dloss != NULL) dx = grad_op(g, "SoftmaxCrossEntropyLossGrad", dloss, log_prob);
    if (dlog != NULL) {
        nc_value *in[2] = {dlog, log_prob};
        nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
        nc_value *part = nc_build_attr1(g->b, "nacre", "LogSoftmaxGrad", in, 2, &axis, 1);
        dx = dx != NULL ? nc_build1(g->b, "Add", 2, dx, part) : part;
    }
    nc_grad_set(g, 0, dx);
    return nc_grad_end(g);
}

static nc_code nll_grad(nc_grad *g) {
    nc_value *dloss = nc_grad_dy(g, 0);
    if (dloss == NULL) return NC_OK;
    if (g->wants[0]) nc_grad_set(g, 0, grad_op(g, "NegativeLogLikelihoodLossGrad", dloss, nc_grad_x(g, 0)));
    if (g->node->n_in > 2 && g->wants[2]) nc_grad_set(g, 2, weights_grad(g, dloss, nc_grad_x(g, 0)));
    return nc_grad_end(g);
}

/* ---- decompositions ---- */

typedef struct parts {
    nc_value *hit;    /* one-hot labels, in the type of the scores */
    nc_value *factor; /* what the gradient of each position is multiplied with, axis 1 of size 1 */
} parts;

/* Of (dloss, log_prob, labels, weights). */
static nc_code take_apart(nc_builder *b, const nc_node *n, parts *p) {
    nc_value *like = n->in[1];
    if (like->type == NULL || like->type->rank < 2)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "the gradient's gradient needs a known rank");
    nc_dtype t = like->type->elem;
    int rank = like->type->rank;
    bool none = strcmp(nc_attr_str(n, "reduction"), "none") == 0,
         mean = strcmp(nc_attr_str(n, "reduction"), "mean") == 0;
    nc_value *labels = unsqueeze(b, nc_build_cast(b, n->in[2], NC_INT64), 1, 1);
    p->hit = nc_build_cast(b, nc_build1(b, "Equal", 2, labels, classes(b, like)), t);
    nc_value *weight = n->n_in > 3 && n->in[3] != NULL ? unsqueeze(b, n->in[3], 1, rank - 2) : nc_build_scalar(b, t, 1);
    nc_value *weighted = nc_build1(b, "Mul", 2, p->hit, weight);
    int64_t axis = 1;
    nc_value *at = nc_build_reduce_sum(b, weighted, &axis, 1, true);
    const nc_attr *ignore = nc_node_attr(n, "ignore_index");
    if (ignore != NULL) {
        nc_value *skip = nc_build1(b, "Equal", 2, labels, nc_build_int(b, ignore->i));
        at = nc_build1(b, "Where", 3, skip, nc_build_scalar(b, t, 0), at);
    }
    p->factor = nc_build1(b, "Mul", 2, at, none ? unsqueeze(b, n->in[0], 1, 1) : n->in[0]);
    if (mean) {
        int64_t axes[NC_MAX_RANK];
        for (int i = 0; i < rank; i++) axes[i] = i;
        p->factor = nc_build1(b, "Div", 2, p->factor, nc_build_reduce_sum(b, at, axes, rank, false));
    }
    return b->code;
}

/* (exp(log_prob) - hit) * factor */
static nc_code cross_entropy_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    parts p;
    NC_TRY(take_apart(b, n, &p));
    nc_value *away = nc_build1(b, "Sub", 2, nc_build1(b, "Exp", 1, n->in[1]), p.hit);
    out[0] = nc_build1(b, "Mul", 2, away, p.factor);
    return b->code;
}

static nc_code from_scores_infer(nc_infer *c) {
    NC_TRY(check_classes(c));
    return loss_grad_infer(c);
}

/* The log-probabilities once more, of the classes alone. */
static nc_code from_scores_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1}, attrs[2];
    int64_t classes = nc_attr_int(n, "classes");
    nc_value *from = nc_build_ints(b, (int64_t[]){0}, 1), *to = nc_build_ints(b, &classes, 1);
    nc_value *along = nc_build_ints(b, (int64_t[]){1}, 1);
    nc_value *x = classes == 0 ? n->in[1] : nc_build1(b, "Slice", 4, n->in[1], from, to, along);
    nc_value *in[4] = {n->in[0], nc_build_attr1(b, "", "LogSoftmax", &x, 1, &axis, 1), n->in[2],
                       n->n_in > 3 ? n->in[3] : NULL};
    int n_attrs = attrs_of(n, attrs), n_in = n->n_in < 4 ? n->n_in : 4;
    out[0] = nc_build_attr1(b, "nacre", "SoftmaxCrossEntropyLossGrad", in, n_in, attrs, n_attrs);
    if (classes == 0) return b->code;
    nc_value *back[5] = {out[0], nc_build_shape(b, n->in[1]), from, to, along};
    out[0] = nc_build_attr1(b, "nacre", "SliceGrad", back, 5, NULL, 0);
    return b->code;
}

static nc_code both_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[2];
    int n_attrs = attrs_of(n, attrs);
    nc_value *in[4] = {n->in[1], n->in[2], n->n_in > 3 ? n->in[3] : NULL};
    out[1] = nc_build_newest1(b, "SoftmaxCrossEntropyLoss", in, n->n_in - 1, attrs, n_attrs);
    out[0] = nc_build_attr1(b, "nacre", "CrossEntropyGrad", n->in, n->n_in, attrs, n_attrs);
    return b->code;
}

nc_value *nc_loss_scores(const nc_node *n) {
    const nc_node *forward = n->in[1]->def;
    bool known = n->card == &nc_card_softmax_cross_entropy_loss_grad && forward != NULL &&
                 forward->card == &nc_card_softmax_cross_entropy_loss;
    return known && forward->n_out > 1 && forward->out[1] == n->in[1] ? forward->in[0] : NULL;
}

bool nc_loss_from_scores(const nc_node *n) { return n->card == &nc_card_cross_entropy_grad; }

/* The version of a loss with one output more. */
static const nc_op_version *with_log_sums(nc_arena *arena, const nc_op_version *of) {
    nc_op_version *v = nc_arena_alloc(arena, sizeof *v);
    nc_param *out = nc_arena_array(arena, 4, sizeof *out);
    if (v == NULL || out == NULL) return NULL;
    memcpy(out, of->out, 2 * sizeof *out);
    out[2] = (nc_param){.name = "log_sums", .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE), .flags = NC_P_OPTIONAL};
    *v = *of;
    v->out = out;
    return v;
}

nc_code nc_loss_keep(nc_work *w, nc_node *forward, nc_value **log_sums) {
    nc_model *m = forward->graph->model;
    const nc_type *x = forward->in[0]->type, *labels = forward->in[1]->type;
    nc_value *logs = forward->out[1];
    const char *names[3] = {forward->out[0]->name, logs->uses.n || logs->n_outputs ? logs->name : "", NULL};
    const nc_op_version *version = with_log_sums(&m->arena, forward->version);
    NC_NEED(w, version);
    nc_node *more = nc_edit_node(forward->graph, forward, forward->card, version, forward->name, forward->in,
                                 forward->n_in, names, 3);
    NC_NEED(w, more);
    for (int i = 0; i < forward->n_attrs; i++) NC_TRY(nc_edit_set_attr(more, &forward->attrs[i]));
    more->stage = forward->stage, more->place = forward->place, more->open = forward->open;
    NC_NEED(w, more->out[2]->type =
                   nc_type_tensor(&m->arena, x->elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT, labels->rank, labels->dims));
    for (int i = 0; i < 2; i++) {
        if (more->out[i] == NULL) continue;
        more->out[i]->type = forward->out[i]->type;
        nc_edit_replace(forward->out[i], more->out[i]);
    }
    nc_edit_remove(forward);
    *log_sums = more->out[2];
    return NC_OK;
}

/* -hit * factor */
static nc_code nll_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    parts p;
    NC_TRY(take_apart(b, n, &p));
    out[0] = nc_build1(b, "Neg", 1, nc_build1(b, "Mul", 2, p.hit, p.factor));
    return b->code;
}

#define REDUCTION ATTR(A_STR("reduction", "mean"), A_INT_OPT("ignore_index"))
#define SCE(types)                                                              \
    IN({"scores", types}, {"labels", T_INDEX}, {"weights", SAME(0), OPTIONAL}), \
        OUT({"output", SAME(0)}, {"log_prob", SAME(0), OPTIONAL}), REDUCTION
#define NLL(types) \
    IN({"input", types}, {"target", T_INDEX}, {"weight", SAME(0), OPTIONAL}), OUT({"loss", SAME(0)}), REDUCTION

static const nc_op_version sce_versions[] = {{.since = 13, SCE(T_FLOAT_ALL)}, {.since = 12, SCE(T_FLOAT)}, {0}};
static const nc_op_version nll_versions[] = {
    {.since = 22, NLL(T_FLOAT_ALL)}, {.since = 13, NLL(T_FLOAT)}, {.since = 12, NLL(T_FLOAT)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1,
     IN({"dloss", T_FLOAT_ALL}, {"log_prob", SAME(0)}, {"labels", T_INDEX}, {"weights", SAME(0), OPTIONAL}),
     OUT({"dX", SAME(0)}),
     REDUCTION},
    {0}};
#define FROM_SCORES \
    {"dloss", T_FLOAT_ALL}, {"scores", SAME(0)}, {"labels", T_INDEX}, { "weights", SAME(0), OPTIONAL }
static const nc_op_version from_scores_versions[] = {
    {.since = 1,
     IN(FROM_SCORES, {"log_sums", NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE), OPTIONAL}),
     OUT({"dX", SAME(0)}),
     ATTR(A_STR("reduction", "mean"), A_INT_OPT("ignore_index"), A_INT("classes", 0))},
    {0}};
static const nc_op_version both_versions[] = {
    {.since = 1, IN(FROM_SCORES), OUT({"dX", SAME(0)}, {"loss", SAME(0)}), REDUCTION}, {0}};

const nc_card nc_card_softmax_cross_entropy_loss = {.name = "SoftmaxCrossEntropyLoss",
                                                    .doc =
                                                        "The weighted negative log-softmax of scores at their labels.",
                                                    .versions = sce_versions,
                                                    .infer = loss_infer,
                                                    .grad = cross_entropy_grad,
                                                    .no_grad_in = 1u << 1,
                                                    .settings_in = 1u << 2};
const nc_card nc_card_negative_log_likelihood_loss = {.name = "NegativeLogLikelihoodLoss",
                                                      .doc =
                                                          "The weighted negative of log-probabilities at their labels.",
                                                      .versions = nll_versions,
                                                      .infer = loss_infer,
                                                      .grad = nll_grad,
                                                      .no_grad_in = 1u << 1,
                                                      .settings_in = 1u << 2};
const nc_card nc_card_softmax_cross_entropy_loss_grad = {.name = "SoftmaxCrossEntropyLossGrad",
                                                         .domain = "nacre",
                                                         .doc = "Gradient of SoftmaxCrossEntropyLoss by its scores.",
                                                         .versions = grad_versions,
                                                         .infer = loss_grad_infer,
                                                         .decompose = cross_entropy_grad_decompose,
                                                         .no_grad_in = 1u << 2,
                                                         .settings_in = 1u << 3};
const nc_card nc_card_cross_entropy_grad = {.name = "CrossEntropyGrad",
                                            .domain = "nacre",
                                            .doc = "Gradient of SoftmaxCrossEntropyLoss by its scores, from these.",
                                            .versions = from_scores_versions,
                                            .infer = from_scores_infer,
                                            .decompose = from_scores_decompose,
                                            .no_grad_in = 1u << 2,
                                            .settings_in = 1u << 3};
const nc_card nc_card_cross_entropy_both = {.name = "CrossEntropyBoth",
                                            .domain = "nacre",
                                            .doc = "CrossEntropyGrad and SoftmaxCrossEntropyLoss at once.",
                                            .versions = both_versions,
                                            .infer = both_infer,
                                            .decompose = both_decompose,
                                            .no_grad_in = 1u << 2,
                                            .settings_in = 1u << 3};
const nc_card nc_card_negative_log_likelihood_loss_grad = {.name = "NegativeLogLikelihoodLossGrad",
                                                           .domain = "nacre",
                                                           .doc = "Gradient of NegativeLogLikelihoodLoss by its input.",
                                                           .versions = grad_versions,
                                                           .infer = loss_grad_infer,
                                                           .decompose = nll_grad_decompose,
                                                           .no_grad_in = 1u << 2,
                                                           .settings_in = 1u << 3};
