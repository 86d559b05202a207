/* ops/norm/batch_grad.c: the gradient of BatchNormalization and its card nacre.BatchNormGrad. In training the kernel
 * finds the statistics of X anew; in inference they are given, and do not follow X. Where a gradient arrives at the
 * statistics that the node gives, its parts are differentiated instead. */
#include "ops/card.h"
#include "ops/norm/batch.h"
#include "ops/norm/norm.h"

static bool reaches_stats(nc_grad *g) {
    for (int i = 1; i < g->node->n_out; i++)
        if (nc_grad_dy(g, i) != NULL) return true;
    return false;
}

/* 1 / sqrt(input 4 + epsilon), in that input's type. */
static nc_value *inverse_of(nc_grad *g) {
    nc_value *var = nc_grad_x(g, 4);
    if (g->b->code != NC_OK) return NULL;
    nc_value *wide = nc_build_cast(g->b, var, nc_norm_wide(var->type->elem));
    nc_value *inverse = nc_norm_inverse(g->b, wide, nc_attr_float(g->node, "epsilon"));
    return nc_build_cast(g->b, inverse, var->type->elem);
}

/* By running statistics, which Y knows in inference alone: from the gradients by scale and B,
 *   dmean = -dB * scale / std,  dvar = -dScale * scale / (2 var). */
static void stats_grad(nc_grad *g, nc_value *inv, nc_value *dscale, nc_value *db) {
    for (int i = 3; i < 5; i++) {
        if (!g->wants[i] || g->b->code != NC_OK) continue;
        nc_dtype t = inv->type->elem;
        nc_value *d = nc_build1(g->b, "Mul", 2, nc_build_cast(g->b, i == 3 ? db : dscale, t),
                                nc_build_cast(g->b, nc_grad_x(g, 1), t));
        d = nc_build1(g->b, "Mul", 2, nc_build1(g->b, "Mul", 2, d, inv), i == 3 ? nc_build_scalar(g->b, t, -1) : inv);
        if (i == 4) d = nc_build1(g->b, "Mul", 2, d, nc_build_scalar(g->b, t, -0.5));
        nc_grad_set(g, i, d);
    }
}

nc_code nc_batch_card_grad(nc_grad *g) {
    const nc_node *n = g->node;
    bool trains = nc_batch_trains(n), asks[2] = {!trains && g->wants[4], !trains && g->wants[3]};
    bool wanted[3] = {g->wants[0], g->wants[1] || asks[0], g->wants[2] || asks[1]};
    if (reaches_stats(g)) return nc_grad_by_parts(g, nc_batch_parts);
    nc_value *dy = nc_grad_dy(g, 0), *made[3] = {NULL};
    if (dy == NULL) return NC_OK;
    nc_value *in[5] = {dy, nc_grad_x(g, 0), nc_grad_x(g, 1), trains ? NULL : nc_grad_x(g, 3)};
    nc_value *inv = in[4] = trains ? NULL : inverse_of(g);
    nc_attr attrs[3] = {{.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")},
                        {.name = "constant", .kind = NC_A_INT, .i = !trains},
                        {.name = "spatial", .kind = NC_A_INT, .i = nc_batch_is_spatial(n)}};
    if (wanted[0] || wanted[1] || wanted[2]) {
        nc_node *d = nc_build_wanted(g->b, "nacre", "BatchNormGrad", in, trains ? 3 : 5, wanted, 3, attrs, 3);
        for (int i = 0; d != NULL && i < 3; i++) made[i] = d->out[i];
    }
    for (int i = 0; i < 3; i++)
        if (g->wants[i]) nc_grad_set(g, i, made[i]);
    if (!trains) stats_grad(g, inv, made[1], made[2]);
    return nc_grad_end(g);
}

/* ---- nacre.BatchNormGrad ---- */

static nc_code back_infer(nc_infer *c) {
    if (nc_in(c, 3) == NULL && nc_attr_int(c->node, "constant") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "statistics that do not follow X are expected as inputs 3 and 4");
    NC_TRY(nc_in_same(c, 0, 1));
    for (int i = 2; i < 5 && nc_attr_int(c->node, "spatial") != 0; i++)
        NC_TRY(nc_in_expect(c, i, 0, nc_in_dim(c, 1, 1)));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    return nc_out_like(c, 2, 2);
}

typedef struct pieces {
    nc_value *dy, *normal, *inv_std, *scale; /* in the type that sums are made in */
    int64_t axes[NC_MAX_RANK];
    int n_axes;
} pieces;

static nc_code pieces_of(nc_builder *b, const nc_node *n, pieces *p) {
    const nc_type *x = n->in[1]->type;
    bool spatial = nc_attr_int(n, "spatial") != 0;
    nc_value *in[5] = {NULL};
    if (x == NULL || x->rank < 2) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    *p = (pieces){.n_axes = 1};
    if (spatial) p->n_axes += nc_norm_axes(2, x->rank, p->axes + 1);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i] != NULL ? nc_build_cast(b, n->in[i], nc_norm_wide(x->elem)) : NULL;
        if (i > 1 && spatial && in[i] != NULL) in[i] = nc_norm_channels(b, in[i], x->rank);
    }
    p->dy = in[0], p->scale = in[2], p->inv_std = in[4];
    if (in[3] != NULL) {
        p->normal = nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, in[1], in[3]), in[4]);
        return b->code;
    }
    nc_norm_pieces of = nc_norm_pieces_of(b, in[1], p->axes, p->n_axes, nc_attr_float(n, "epsilon"), true);
    p->normal = of.normal, p->inv_std = of.inv_std;
    return b->code;
}

static nc_value *dx_of(nc_builder *b, const pieces *p, bool constant) {
    nc_value *g = nc_build1(b, "Mul", 2, p->dy, p->scale);
    if (constant) return nc_build1(b, "Mul", 2, g, p->inv_std);
    nc_value *along = nc_norm_mean_of(b, nc_build1(b, "Mul", 2, g, p->normal), p->axes, p->n_axes);
    nc_value *d = nc_build1(b, "Sub", 2, g, nc_build1(b, "Mul", 2, p->normal, along));
    d = nc_build1(b, "Sub", 2, d, nc_norm_mean_of(b, g, p->axes, p->n_axes));
    return nc_build1(b, "Mul", 2, d, p->inv_std);
}

static bool wants(const nc_node *n, int i) { return i < n->n_out && n->out[i] != NULL; }

static nc_code back_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    pieces p;
    NC_TRY(pieces_of(b, n, &p));
    nc_dtype t = n->in[1]->type->elem, ts = n->in[2]->type->elem;
    if (wants(n, 0)) out[0] = nc_build_cast(b, dx_of(b, &p, nc_attr_int(n, "constant") != 0), t);
    nc_value *along = wants(n, 1) ? nc_build1(b, "Mul", 2, p.dy, p.normal) : NULL;
    if (along != NULL) out[1] = nc_build_cast(b, nc_build_reduce_sum(b, along, p.axes, p.n_axes, false), ts);
    if (wants(n, 2)) out[2] = nc_build_cast(b, nc_build_reduce_sum(b, p.dy, p.axes, p.n_axes, false), ts);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"scale", T_FLOAT_ALL}, {"mean", T_FLOAT_ALL, OPTIONAL},
        {"inv_std", SAME(3), OPTIONAL}),
     OUT({"dX", SAME(0), OPTIONAL}, {"dScale", SAME(2), OPTIONAL}, {"dB", SAME(2), OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_INT("constant", 0), A_INT("spatial", 1))},
    {0}};

const nc_card nc_card_batch_norm_grad = {.name = "BatchNormGrad",
                                         .domain = "nacre",
                                         .doc = "Gradients of BatchNormalization by X, scale and B.",
                                         .versions = versions,
                                         .infer = back_infer,
                                         .decompose = back_decompose,
                                         .blocks = nc_batch_grad_blocks,
                                         .blocked = nc_batch_grad_blocked};
