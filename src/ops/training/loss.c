/* ops/training/loss.c: losses and their gradients as ONNX Runtime's training graphs write them. Those of the Internal
 * kind take ignore_index as an input and may give another type than they get; the two without Loss in their names have
 * classes last. They run as the losses of the house. */
#include "ops/training/training.h"

#include <string.h>

/* Where the input that names the ignored label is no constant, those labels become this one. */
enum { NO_LABEL = INT32_MIN };

/* ---- SoftmaxCrossEntropyLossGrad ---- */

static nc_code grad_infer(nc_infer *c) { return nc_out_like(c, 0, 1); }

/* ---- the Internal kind ---- */

static nc_dtype type_of_output(const nc_node *n, nc_dtype otherwise) {
    return nc_attr_has(n, "output_type") ? (nc_dtype)nc_attr_int(n, "output_type") : otherwise;
}

static nc_code internal_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *labels = nc_in(c, 1);
    if (x == NULL) return NC_OK;
    nc_dtype t = type_of_output(c->node, x->elem);
    if (c->node->n_out > 1) NC_TRY(x->rank < 0 ? nc_out_unknown(c, 1, t, -1) : nc_out(c, 1, t, x->rank, x->dims));
    if (strcmp(nc_attr_str(c->node, "reduction"), "none") != 0) return nc_out(c, 0, t, 0, NULL);
    if (labels == NULL || labels->rank < 0) return nc_out_unknown(c, 0, t, x->rank < 0 ? -1 : x->rank - 1);
    return nc_out(c, 0, t, labels->rank, labels->dims);
}

/* The labels, with the number that marks ignored ones as an attribute. */
typedef struct labelled {
    nc_value *labels;
    nc_attr attrs[2];
    int n_attrs;
} labelled;

static labelled label(nc_builder *b, const nc_node *n, int i_labels, int i_ignore) {
    const char *reduction = nc_attr_str(n, "reduction");
    nc_value *ignore = nc_contrib_in(n, i_ignore);
    labelled l = {.labels = n->in[i_labels], .n_attrs = 1};
    int64_t which = NO_LABEL, count;
    l.attrs[0] =
        (nc_attr){.name = "reduction", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)reduction, strlen(reduction)}};
    if (ignore == NULL) return l;
    if (ignore->lit == NULL || !nc_literal_ints(ignore->lit, &which, 1, &count) || count != 1) {
        nc_dtype t = nc_training_elem(l.labels);
        which = NO_LABEL;
        nc_value *hit = nc_training_op2(b, "Equal", l.labels, nc_build_cast(b, nc_training_rank0(b, ignore), t));
        l.labels = nc_build1(b, "Where", 3, hit, nc_build_scalar(b, t, (double)NO_LABEL), l.labels);
    }
    l.attrs[l.n_attrs++] = (nc_attr){.name = "ignore_index", .kind = NC_A_INT, .i = which};
    return l;
}

static nc_value *cast_if(nc_builder *b, nc_value *v, nc_dtype t) { return v != NULL ? nc_build_cast(b, v, t) : NULL; }

static nc_code internal_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = type_of_output(n, nc_training_elem(n->in[0]));
    labelled l = label(b, n, 1, 3);
    nc_value *in[3] = {nc_build_cast(b, n->in[0], t), l.labels, cast_if(b, nc_contrib_in(n, 2), t)};
    bool wanted[2] = {true, nc_contrib_wants(n, 1)};
    nc_node *loss = nc_build_newest(b, n->card->own, in, in[2] != NULL ? 3 : 2, wanted, n->n_out, l.attrs, l.n_attrs);
    for (int i = 0; loss != NULL && i < n->n_out; i++) out[i] = loss->out[i];
    return b->code;
}

static nc_code internal_grad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1);
    if (x == NULL) return NC_OK;
    nc_dtype t = type_of_output(c->node, x->elem);
    return x->rank < 0 ? nc_out_unknown(c, 0, t, -1) : nc_out(c, 0, t, x->rank, x->dims);
}

static nc_code internal_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    labelled l = label(b, n, 2, 4);
    nc_value *in[4] = {n->in[0], n->in[1], l.labels, nc_contrib_in(n, 3)}, *bias = nc_contrib_in(n, 5);
    nc_value *d =
        nc_build_attr1(b, "nacre", "SoftmaxCrossEntropyLossGrad", in, in[3] != NULL ? 4 : 3, l.attrs, l.n_attrs);
    d = nc_build_cast(b, d, type_of_output(n, nc_training_elem(n->in[1])));
    out[0] = bias != NULL ? nc_build1(b, "Add", 2, d, nc_build_reshape_like(b, bias, d)) : d;
    return b->code;
}

/* ---- classes last ---- */

static nc_code last_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const char *reduction = nc_attr_str(c->node, "reduction");
    if (strcmp(reduction, "mean") != 0 && strcmp(reduction, "sum") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "reduction is '%s', expected mean or sum", reduction);
    if (x == NULL) return NC_OK;
    NC_TRY(nc_out_like(c, 1, 0));
    return nc_out(c, 0, x->elem, 0, NULL);
}

static bool takes_mean(const nc_node *n) { return strcmp(nc_attr_str(n, "reduction"), "mean") == 0; }

static nc_value *sum_all(nc_builder *b, nc_value *x) {
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "ReduceSum", &x, 1, &keep, 1);
}

/* How many rows x has: its elements over its last dim. */
static nc_value *rows_of(nc_builder *b, nc_value *x) {
    nc_value *last = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, -1));
    return nc_build_cast(b, nc_training_op2(b, "Div", nc_build1(b, "Size", 1, x), last), nc_training_elem(x));
}

static nc_code dense_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *log_prob = nc_build_attr1(b, "", "LogSoftmax", &n->in[0], 1, &axis, 1);
    nc_value *sum = nc_build1(b, "Neg", 1, sum_all(b, nc_training_op2(b, "Mul", n->in[1], log_prob)));
    out[0] = takes_mean(n) ? nc_training_op2(b, "Div", sum, rows_of(b, n->in[0])) : sum;
    if (nc_contrib_wants(n, 1)) out[1] = log_prob;
    return b->code;
}

static nc_code dense_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = nc_training_rank0(b, n->in[0]), *log_prob = n->in[1];
    if (takes_mean(n)) dy = nc_training_op2(b, "Div", dy, rows_of(b, log_prob));
    nc_value *away = nc_training_op2(b, "Sub", nc_build1(b, "Exp", 1, log_prob), n->in[2]);
    out[0] = nc_training_op2(b, "Mul", away, dy);
    return b->code;
}

/* x (..., C) as (rows, C), and labels or weights as (rows). */
static nc_value *as_rows(nc_builder *b, nc_value *x) {
    nc_value *last = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_ints(b, (const int64_t[]){-1}, 1));
    nc_value *in[2] = {nc_build_ints(b, (const int64_t[]){-1}, 1), last};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build1(b, "Reshape", 2, x, nc_build_attr1(b, "", "Concat", in, 2, &axis, 1));
}

static nc_value *as_row(nc_builder *b, nc_value *x) {
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (const int64_t[]){-1}, 1));
}

static nc_attr reduction(const char *how) {
    return (nc_attr){.name = "reduction", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)how, strlen(how)}};
}

/* The loss of every row, times its weight, summed; for the mean over the sum of the weights, or the rows. */
static nc_code sparse_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[2] = {as_rows(b, n->in[0]), as_row(b, n->in[1])}, *weight = nc_contrib_in(n, 2);
    nc_attr none = reduction("none");
    nc_node *loss = nc_build_newest(b, "SoftmaxCrossEntropyLoss", in, 2, NULL, 2, &none, 1);
    if (loss == NULL) return b->code;
    nc_value *each = loss->out[0], *flat = weight != NULL ? as_row(b, weight) : NULL;
    nc_value *sum = sum_all(b, flat != NULL ? nc_training_op2(b, "Mul", each, flat) : each);
    if (takes_mean(n)) sum = nc_training_op2(b, "Div", sum, flat != NULL ? sum_all(b, flat) : rows_of(b, n->in[0]));
    out[0] = sum;
    if (nc_contrib_wants(n, 1)) out[1] = nc_build_reshape_like(b, loss->out[1], n->in[0]);
    return b->code;
}

static nc_code sparse_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = nc_training_rank0(b, n->in[0]), *log_prob = n->in[1], *weight = nc_contrib_in(n, 3);
    nc_value *flat = weight != NULL ? as_row(b, weight) : NULL, *labels = as_row(b, n->in[2]);
    if (takes_mean(n)) dy = nc_training_op2(b, "Div", dy, flat != NULL ? sum_all(b, flat) : rows_of(b, log_prob));
    nc_value *each = flat != NULL ? nc_training_op2(b, "Mul", flat, dy) : nc_build_expand_like(b, dy, labels);
    nc_value *in[3] = {each, as_rows(b, log_prob), labels};
    nc_attr none = reduction("none");
    nc_value *d = nc_build_attr1(b, "nacre", "SoftmaxCrossEntropyLossGrad", in, 3, &none, 1);
    out[0] = nc_build_reshape_like(b, d, log_prob);
    return b->code;
}

/* ---- cards ---- */

#define REDUCED A_STR("reduction", "mean")
#define DY_LOG \
    {"dY", T_FLOAT_ALL}, { "log_prob", SAME(0) }
#define WEIGHTED(name) \
    { name, SAME(0), OPTIONAL }
#define IGNORED \
    { "ignore_index", T_I64, OPTIONAL }
static const nc_op_version grad_versions[] = {{.since = 1,
                                               IN(DY_LOG, {"label", T_INDEX}, WEIGHTED("weight")),
                                               OUT({"d_logits", SAME(0)}),
                                               ATTR(REDUCED, A_INT_OPT("ignore_index"))},
                                              {0}};
static const nc_op_version internal_versions[] = {
    {.since = 1,
     IN({"scores", T_FLOAT_ALL}, {"labels", T_INDEX}, WEIGHTED("weights"), IGNORED),
     OUT({"output", T_FLOAT_ALL}, {"log_prob", T_FLOAT_ALL}),
     ATTR(REDUCED, A_INT_OPT("output_type"))},
    {0}};
static const nc_op_version internal_grad_versions[] = {
    {.since = 1,
     IN(DY_LOG, {"label", T_INDEX}, WEIGHTED("weight"), IGNORED, {"bias", T_FLOAT_ALL, OPTIONAL}),
     OUT({"d_logits", T_FLOAT_ALL}),
     ATTR(REDUCED, A_INT_OPT("output_type"))},
    {0}};
static const nc_op_version nll_versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"target", T_INDEX}, WEIGHTED("weight"), IGNORED),
     OUT({"loss", SAME(0)}),
     ATTR(REDUCED)},
    {0}};
static const nc_op_version dense_versions[] = {{.since = 1,
                                                IN({"logits", T_FLOAT_ALL}, {"label", SAME(0)}),
                                                OUT({"Y", SAME(0)}, {"log_prob", SAME(0), OPTIONAL}),
                                                ATTR(REDUCED)},
                                               {0}};
static const nc_op_version dense_grad_versions[] = {
    {.since = 1, IN(DY_LOG, {"label", SAME(0)}), OUT({"d_logits", SAME(0)}), ATTR(REDUCED)}, {0}};
static const nc_op_version sparse_versions[] = {{.since = 9,
                                                 .foreign = true,
                                                 IN({"logits", T_FLOAT_ALL}, {"label", T_INDEX}, WEIGHTED("weight")),
                                                 OUT({"Y", SAME(0)}, {"log_prob", SAME(0), OPTIONAL}),
                                                 ATTR(REDUCED)},
                                                {0}};
static const nc_op_version sparse_grad_versions[] = {{.since = 9,
                                                      .foreign = true,
                                                      IN(DY_LOG, {"label", T_INDEX}, WEIGHTED("weight")),
                                                      OUT({"d_logits", SAME(0)}),
                                                      ATTR(REDUCED)},
                                                     {0}};

#define NO_GRAD_FROM(i) .no_grad_in = ~((1u << (i)) - 1)
NC_TRAINING_CARD(softmax_cross_entropy_loss_grad, "SoftmaxCrossEntropyLossGrad",
                 "Gradient of SoftmaxCrossEntropyLoss by its scores.", grad_versions,
                 .own = "SoftmaxCrossEntropyLossGrad", .infer = grad_infer, .decompose = nc_training_renamed,
                 NO_GRAD_FROM(2));
NC_TRAINING_CARD(softmax_cross_entropy_loss_internal, "SoftmaxCrossEntropyLossInternal",
                 "SoftmaxCrossEntropyLoss with the ignored label as an input.", internal_versions,
                 .own = "SoftmaxCrossEntropyLoss", .infer = internal_infer, .decompose = internal_decompose,
                 NO_GRAD_FROM(1));
NC_TRAINING_CARD(softmax_cross_entropy_loss_internal_grad, "SoftmaxCrossEntropyLossInternalGrad",
                 "Gradient of SoftmaxCrossEntropyLossInternal, plus a further gradient.", internal_grad_versions,
                 .infer = internal_grad_infer, .decompose = internal_grad_decompose, .no_grad_in = 0x1c);
NC_TRAINING_CARD(nll_internal, "NegativeLogLikelihoodLossInternal",
                 "NegativeLogLikelihoodLoss with the ignored label as an input.", nll_versions,
                 .own = "NegativeLogLikelihoodLoss", .infer = internal_infer, .decompose = internal_decompose,
                 NO_GRAD_FROM(1));
NC_TRAINING_CARD(nll_internal_2, "NegativeLogLikelihoodLossInternal2",
                 "NegativeLogLikelihoodLoss with the ignored label as an input.", nll_versions,
                 .own = "NegativeLogLikelihoodLoss", .infer = internal_infer, .decompose = internal_decompose,
                 NO_GRAD_FROM(1));
NC_TRAINING_CARD(softmax_cross_entropy, "SoftmaxCrossEntropy", "The cross entropy of scores and probabilities.",
                 dense_versions, .infer = last_infer, .decompose = dense_decompose);
NC_TRAINING_CARD(softmax_cross_entropy_grad, "SoftmaxCrossEntropyGrad",
                 "Gradient of SoftmaxCrossEntropy by its scores.", dense_grad_versions, .infer = grad_infer,
                 .decompose = dense_grad_decompose);
const nc_card nc_card_training_sparse_softmax_cross_entropy = {
    .name = "SparseSoftmaxCrossEntropy",
    .doc = "The cross entropy of scores, classes last, and labels with a weight for each.",
    .versions = sparse_versions,
    .infer = last_infer,
    .decompose = sparse_decompose,
    NO_GRAD_FROM(1)};
const nc_card nc_card_training_sparse_softmax_cross_entropy_grad = {
    .name = "SparseSoftmaxCrossEntropyGrad",
    .doc = "Gradient of SparseSoftmaxCrossEntropy by its scores.",
    .versions = sparse_grad_versions,
    .infer = grad_infer,
    .decompose = sparse_grad_decompose,
    NO_GRAD_FROM(2)};
