/* ops/training/norm.c: gradients of normalizations as ONNX Runtime's training graphs write them, from statistics that
 * the forward pass kept. Where these come from the normalization of the same X in the same graph, the kernel of
 * nacre.NormGrad serves, which finds them anew; else the formula takes them as they are.
 *
 * With g = dY * scale and h the normalized X: dX = (g - mean(g) - h * mean(g * h)) * inv_std, the first mean only where
 * X was centred; dScale = sum(dY * h), dBias = sum(dY). */
#include "ops/norm/norm.h"
#include "ops/training/training.h"

typedef enum norm_kind { LAYER, SIMPLE, INVERTIBLE } norm_kind; /* the own of the cards here */

static norm_kind kind_of(const nc_node *n) { return *(const norm_kind *)n->card->own; }

extern const nc_card nc_card_layer_normalization, nc_card_simplified_layer_normalization;

static nc_code layer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 1);
    int axis = 0;
    if (x != NULL && x->rank >= 0) NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_in_same(c, 0, 1));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    return kind_of(c->node) == SIMPLE ? NC_OK : nc_out_like(c, 2, 2);
}

typedef struct normal {
    nc_value *dy, *h, *scale, *inv_std; /* all in the type that sums are made in */
    int64_t axes[NC_MAX_RANK];
    int n_axes;
    bool centred;
} normal;

static nc_code axes_of(nc_builder *b, const nc_node *n, normal *p) {
    const nc_type *t = n->in[1]->type;
    int64_t axis = nc_attr_int(n, "axis");
    if (t == NULL || t->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    p->n_axes = nc_norm_axes((int)(axis < 0 ? axis + t->rank : axis), t->rank, p->axes);
    return NC_OK;
}

/* Statistics may have lost their dims of 1 behind the axis. */
static nc_value *stat(nc_builder *b, const nc_node *n, nc_value *v, nc_dtype t, const normal *p) {
    int rank = n->in[1]->type->rank;
    if (v->type != NULL && v->type->rank == rank - p->n_axes)
        v = nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, p->axes, p->n_axes));
    return nc_build_cast(b, v, t);
}

static nc_code layer_parts(nc_builder *b, const nc_node *n, normal *p) {
    NC_TRY(axes_of(b, n, p));
    norm_kind kind = kind_of(n);
    nc_dtype t = nc_norm_wide(nc_training_elem(n->in[1]));
    p->centred = kind != SIMPLE;
    p->dy = nc_build_cast(b, n->in[0], t);
    p->scale = nc_build_cast(b, n->in[2], t);
    nc_value *x = nc_build_cast(b, n->in[1], t);
    p->inv_std = stat(b, n, n->in[kind == SIMPLE ? 3 : 4], t, p);
    if (kind == INVERTIBLE) {
        x = nc_training_op2(b, "Sub", x, nc_build_cast(b, n->in[3], t));
        p->h = nc_training_op2(b, "Div", x, p->scale);
        return b->code;
    }
    if (kind == LAYER) x = nc_training_op2(b, "Sub", x, stat(b, n, n->in[3], t, p));
    p->h = nc_training_op2(b, "Mul", x, p->inv_std);
    return b->code;
}

static nc_value *dx_of(nc_builder *b, const normal *p) {
    nc_value *g = nc_training_op2(b, "Mul", p->dy, p->scale);
    nc_value *along = nc_norm_mean_of(b, nc_training_op2(b, "Mul", g, p->h), p->axes, p->n_axes);
    nc_value *d = nc_training_op2(b, "Sub", g, nc_training_op2(b, "Mul", p->h, along));
    if (p->centred) d = nc_training_op2(b, "Sub", d, nc_norm_mean_of(b, g, p->axes, p->n_axes));
    return nc_training_op2(b, "Mul", d, p->inv_std);
}

/* v in the type of output i. */
static nc_value *in_type_of(nc_builder *b, const nc_node *n, int i, nc_value *v) {
    return nc_build_cast(b, v, n->out[i]->type != NULL ? n->out[i]->type->elem : nc_training_elem(n->in[1]));
}

/* The normalization that the statistics come from, where it is one of the same X. */
static const nc_node *forward_of(const nc_node *n) {
    norm_kind kind = kind_of(n);
    const nc_value *inv = n->in[kind == SIMPLE ? 3 : 4];
    if (kind == INVERTIBLE || inv->origin != NC_FROM_NODE) return NULL;
    const nc_node *f = inv->def;
    const nc_card *want = kind == SIMPLE ? &nc_card_simplified_layer_normalization : &nc_card_layer_normalization;
    if (f->card != want || f->in[0] != n->in[1] || inv->i_def != (kind == SIMPLE ? 1 : 2)) return NULL;
    if (kind == LAYER && (n->in[3]->origin != NC_FROM_NODE || n->in[3]->def != f || n->in[3]->i_def != 1)) return NULL;
    return nc_attr_int(f, "axis") == nc_attr_int(n, "axis") ? f : NULL;
}

static nc_code by_kernel(nc_builder *b, const nc_node *n, const nc_node *forward, nc_value **out) {
    nc_dtype t = nc_training_elem(n->in[2]);
    nc_value *in[3] = {n->in[0], nc_build_cast(b, n->in[1], t), n->in[2]};
    nc_attr attrs[3] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(forward, "epsilon")},
                        {.name = "center", .kind = NC_A_INT, .i = kind_of(n) == LAYER}};
    NC_TRY(nc_training_as(b, n, "NormGrad", in, 3, attrs, 3, out));
    if (nc_contrib_wants(n, 0)) out[0] = in_type_of(b, n, 0, out[0]);
    for (int i = 1; i < n->n_out; i++)
        if (nc_contrib_wants(n, i)) out[i] = nc_build_sum_to(b, out[i], n->in[2]);
    return b->code;
}

static nc_code layer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_node *forward = forward_of(n);
    normal p;
    if (forward != NULL) return by_kernel(b, n, forward, out);
    NC_TRY(layer_parts(b, n, &p));
    if (nc_contrib_wants(n, 0)) out[0] = in_type_of(b, n, 0, dx_of(b, &p));
    if (nc_contrib_wants(n, 1))
        out[1] = in_type_of(b, n, 1, nc_build_sum_to(b, nc_training_op2(b, "Mul", p.dy, p.h), n->in[2]));
    if (nc_contrib_wants(n, 2)) out[2] = in_type_of(b, n, 2, nc_build_sum_to(b, p.dy, n->in[2]));
    return b->code;
}

/* ---- BatchNormalization ---- */

static nc_code batch_infer(nc_infer *c) {
    int rank;
    if (nc_in_rank(c, 1, &rank) && rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    for (int i = 2; i < 5; i++) NC_TRY(nc_contrib_vector(c, i, nc_in_dim(c, 1, 1)));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    return nc_out_like(c, 2, 2);
}

static nc_code batch_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr epsilon = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    return nc_training_as(b, n, "BatchNormGrad", n->in, 5, &epsilon, 1, out);
}

static nc_code internal_infer(nc_infer *c) {
    int rank;
    if (nc_in_rank(c, 0, &rank) && rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    for (int i = 1; i < 5; i++) NC_TRY(nc_contrib_vector(c, i, nc_in_dim(c, 0, 1)));
    NC_TRY(nc_out_like(c, 0, 0));
    for (int i = 1; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, i % 2 == 1 ? 3 : 4));
    return NC_OK;
}

/* The batch's statistics, found once for the result and for what is kept of them. */
static nc_code kept_stats(nc_builder *b, const nc_node *n, nc_value **out) {
    int rank, n_axes = 1;
    int64_t axes[NC_MAX_RANK] = {0};
    NC_TRY(nc_norm_rank(b, n, 2, &rank));
    n_axes += nc_norm_axes(2, rank, axes + 1);
    nc_value *x = nc_build_cast(b, n->in[0], nc_norm_wide(nc_training_elem(n->in[0])));
    nc_norm_pieces p = nc_norm_pieces_of(b, x, axes, n_axes, nc_attr_float(n, "epsilon"), true);
    nc_value *stats[2] = {p.mean, p.inv_std};
    for (int i = 0; i < 2; i++)
        if (nc_contrib_wants(n, 3 + i))
            out[3 + i] = in_type_of(b, n, 3 + i, nc_build1(b, "Squeeze", 2, stats[i], nc_build_ints(b, axes, n_axes)));
    return b->code;
}

/* In inference the statistics that are kept are the running ones. */
static nc_code running_stats(nc_builder *b, const nc_node *n, nc_value **out) {
    for (int i = 1; i < n->n_out && i < 4; i++)
        if (nc_contrib_wants(n, i)) out[i] = nc_build1(b, "Identity", 1, n->in[i == 2 ? 4 : 3]);
    if (nc_contrib_wants(n, 4)) {
        nc_value *var = nc_build_cast(b, n->in[4], nc_norm_wide(nc_training_elem(n->in[4])));
        out[4] = in_type_of(b, n, 4, nc_norm_inverse(b, var, nc_attr_float(n, "epsilon")));
    }
    return b->code;
}

static nc_code internal_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool trains = nc_attr_int(n, "training_mode") != 0;
    bool wanted[3] = {true, trains && nc_contrib_wants(n, 1), trains && nc_contrib_wants(n, 2)};
    int n_out = wanted[2] ? 3 : wanted[1] ? 2 : 1;
    nc_attr attrs[3] = {{.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "momentum", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "momentum")},
                        {.name = "training_mode", .kind = NC_A_INT, .i = trains}};
    nc_node *y = nc_build_newest(b, "BatchNormalization", n->in, 5, wanted, n_out, attrs, 3);
    for (int i = 0; y != NULL && i < n_out; i++) out[i] = y->out[i];
    NC_TRY(b->code);
    return trains ? kept_stats(b, n, out) : running_stats(b, n, out);
}

/* ---- cards ---- */

#define T_STAT (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define COPIED ATTR(A_INT("axis", -1), A_FLOAT_OPT("epsilon"), A_INT_OPT("stash_type"))
static const nc_op_version layer_versions[] = {
    {.since = 1,
     IN({"Y_grad", T_FLOAT_ALL}, {"X", T_FLOAT_ALL}, {"scale", SAME(0)}, {"mean", T_STAT}, {"inv_std_dev", SAME(3)}),
     OUT({"X_grad", SAME(1)}, {"scale_grad", SAME(0)}, {"bias_grad", SAME(0)}),
     COPIED},
    {0}};
static const nc_op_version simple_versions[] = {
    {.since = 1,
     IN({"Y_grad", T_FLOAT_ALL}, {"X", T_FLOAT_ALL}, {"scale", SAME(0)}, {"inv_std_var", T_STAT}),
     OUT({"X_grad", SAME(1)}, {"scale_grad", SAME(0)}),
     COPIED},
    {0}};
static const nc_op_version invertible_versions[] = {
    {.since = 1,
     IN({"Y_grad", T_FLOAT_ALL}, {"Y", SAME(0)}, {"scale", SAME(0)}, {"bias", SAME(0)}, {"inv_std_var", T_STAT}),
     OUT({"X_grad", T_FLOAT_ALL}, {"scale_grad", SAME(0)}, {"bias_grad", SAME(0)}),
     COPIED},
    {0}};
static const nc_op_version batch_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"scale", T_FLOAT_ALL}, {"mean", T_FLOAT_ALL}, {"variance", SAME(3)}),
     OUT({"X_grad", SAME(0)}, {"scale_grad", SAME(2)}, {"bias_grad", SAME(2)}),
     ATTR({.name = "epsilon", .kind = NC_A_FLOAT, .flags = NC_ATTR_REQUIRED})},
    {0}};
#define RUNNING(name) \
    { name, SAME(3), OPTIONAL }
static const nc_op_version internal_versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT_ALL}, {"scale", T_FLOAT_ALL}, {"B", SAME(1)}, {"input_mean", T_FLOAT_ALL},
        {"input_var", SAME(3)}),
     OUT({"Y", SAME(0)}, RUNNING("running_mean"), RUNNING("running_var"), RUNNING("saved_mean"),
         RUNNING("saved_inv_std")),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_FLOAT("momentum", 0.9f), A_INT("training_mode", 1))},
    {0}};

#define OF(kind) .own = (&(const norm_kind){kind}), .infer = layer_infer, .decompose = layer_decompose
NC_TRAINING_CARD(layer_normalization_grad, "LayerNormalizationGrad",
                 "Gradients of LayerNormalization by X, scale and bias.", layer_versions, OF(LAYER));
NC_TRAINING_CARD(simplified_layer_normalization_grad, "SimplifiedLayerNormalizationGrad",
                 "Gradients of SimplifiedLayerNormalization by X and scale.", simple_versions, OF(SIMPLE));
NC_TRAINING_CARD(invertible_layer_normalization_grad, "InvertibleLayerNormalizationGrad",
                 "Gradients of LayerNormalization from its result in the place of X.", invertible_versions,
                 OF(INVERTIBLE));
NC_TRAINING_CARD(batch_normalization_grad, "BatchNormalizationGrad",
                 "Gradients of BatchNormalization by X, scale and B, from the mean and the inverse deviation.",
                 batch_versions, .infer = batch_infer, .decompose = batch_decompose);
NC_TRAINING_CARD(batch_norm_internal, "BatchNormInternal",
                 "BatchNormalization that gives the statistics its gradient needs.", internal_versions,
                 .infer = internal_infer, .decompose = internal_decompose);
