/* ops/attention/flex.c: the card of FlexAttention (domain ai.onnx.preview): attention whose scores and probabilities go
 * through subgraphs of the model's own. It has no kernel: it runs, and is differentiated, as products, Softmax and the
 * nodes of those subgraphs, copied to where the op stood. */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

enum { Q, K, V };

/* The type of scores and probabilities. */
static nc_dtype precision(const nc_node *n, nc_dtype q) {
    if (nc_attr_has(n, "softmax_precision")) return (nc_dtype)nc_attr_int(n, "softmax_precision");
    return q == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT;
}

static nc_code check_heads(nc_infer *c) {
    int64_t hq, hk;
    if (nc_dim_is_const(nc_in_dim(c, Q, 1), &hq) && nc_dim_is_const(nc_in_dim(c, K, 1), &hk) &&
        (hk < 1 || hq % hk != 0))
        NC_FAIL(c->w, NC_E_SHAPE, "%lld query heads do not share %lld key heads evenly", (long long)hq, (long long)hk);
    return NC_OK;
}

static nc_code flex_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, Q);
    int rank;
    bool known = true;
    if (q == NULL) return NC_OK;
    for (int i = 0; i < 3; i++) {
        known &= nc_in_rank(c, i, &rank);
        if (nc_in_rank(c, i, &rank) && rank != 4)
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected 4", i, rank);
    }
    if (!known) return nc_out_unknown(c, 0, q->elem, 4);
    NC_TRY(check_heads(c));
    const nc_dim *dims[4] = {q->dims[0], q->dims[1], q->dims[2], nc_in_dim(c, K, 2)};
    nc_infer_val in = {.type = nc_type_tensor(c->arena, precision(c->node, q->elem), 4, dims), .present = true};
    NC_NEED(c->w, in.type);
    for (int s = 0; s < c->node->n_subs; s++) {
        const nc_graph *g = c->node->subs[s].graph;
        if (g->inputs.n != 1 || g->outputs.n != 1)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s has %d inputs and %d outputs, expected one of each",
                    c->node->subs[s].attr, g->inputs.n, g->outputs.n);
        NC_TRY(c->infer_sub(c, s, &in, 1));
    }
    dims[3] = nc_in_dim(c, V, 3);
    return nc_out(c, 0, q->elem, 4, dims);
}

/* ---- decomposition ---- */

typedef struct copier {
    nc_builder *b;
    const nc_value **from;
    nc_value **to;
    int n;
} copier;

static void flex_put(copier *c, const nc_value *from, nc_value *to) {
    c->from[c->n] = from;
    c->to[c->n++] = to;
}

static nc_value *copy_of(const copier *c, const nc_value *v) {
    for (int i = 0; v != NULL && i < c->n; i++)
        if (c->from[i] == v) return c->to[i];
    return NULL;
}

static nc_code copy_node(copier *c, const nc_node *n) {
    nc_builder *b = c->b;
    nc_node *m = nc_edit_clone(b->graph, b->before, n);
    NC_NEED(b->w, m);
    m->stage = b->stage;
    for (int i = 0; i < n->n_operands; i++) nc_edit_set_in(m, i, copy_of(c, n->in[i]));
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != NULL) flex_put(c, n->out[i], m->out[i]);
    return b->infer != NULL ? b->infer(b->w, m) : NC_OK;
}

/* The nodes of subgraph s with x for its input; gives what its output became. */
static nc_code copy_sub(nc_builder *b, const nc_node *n, const nc_sub *s, nc_value *x, nc_value **out) {
    const nc_graph *g = s->graph;
    int most = 1 + g->captures.n + g->consts.n;
    for (const nc_node *k = g->first; k != NULL; k = k->next) most += k->n_out;
    copier c = {.b = b,
                .from = nc_arena_array(&b->w->scratch, (size_t)most, sizeof *c.from),
                .to = nc_arena_array(&b->w->scratch, (size_t)most, sizeof *c.to)};
    NC_NEED(b->w, c.from);
    NC_NEED(b->w, c.to);
    flex_put(&c, g->inputs.v[0], x);
    for (int i = 0; i < g->captures.n; i++) flex_put(&c, g->captures.v[i], n->in[s->first_capture + i]);
    for (int i = 0; i < g->consts.n; i++) {
        nc_value *v = nc_edit_const(b->graph, NULL, g->consts.v[i]->lit);
        NC_NEED(b->w, v);
        flex_put(&c, g->consts.v[i], v);
    }
    for (const nc_node *k = g->first; k != NULL; k = k->next) NC_TRY(copy_node(&c, k));
    *out = copy_of(&c, g->outputs.v[0]);
    if (*out == NULL) NC_FAIL(b->w, NC_E_BAD_GRAPH, "%s gives a value that it does not hold", s->attr);
    return NC_OK;
}

static nc_value *modified(nc_builder *b, const nc_node *n, const char *attr, nc_value *x) {
    for (int i = 0; i < n->n_subs && b->code == NC_OK; i++)
        if (strcmp(n->subs[i].attr, attr) == 0) b->code = copy_sub(b, n, &n->subs[i], x, &x);
    return b->code == NC_OK ? x : NULL;
}

static nc_code flex_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *q = n->in[Q], *k = n->in[K], *v = n->in[V];
    nc_dtype own = q->type->elem, t = precision(n, own);
    int64_t group;
    NC_TRY(nc_attn_group(b, q, k, &group));
    if (group > 1) k = nc_attn_repeat_heads(b, k, group), v = nc_attn_repeat_heads(b, v, group);
    nc_value *scale =
        nc_attr_has(n, "scale") ? nc_build_scalar(b, own, nc_attr_float(n, "scale")) : nc_attn_scale(b, q);
    nc_value *s = nc_build1(b, "MatMul", 2, nc_build1(b, "Mul", 2, q, scale), nc_build_swap_last(b, k));
    s = modified(b, n, "score_mod", nc_build_cast(b, s, t));
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *p = modified(b, n, "prob_mod", nc_build_attr1(b, "", "Softmax", &s, 1, &axis, 1));
    out[0] = nc_build1(b, "MatMul", 2, nc_build_cast(b, p, own), v);
    return b->code;
}

#define A_GRAPH_OPT(n) \
    { .name = n, .kind = NC_A_GRAPH }
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"Q", T_FLOAT_ALL}, {"K", SAME(0)}, {"V", SAME(0)}),
     OUT({"Y", SAME(0)}),
     ATTR(A_GRAPH_OPT("prob_mod"), A_FLOAT_OPT("scale"), A_GRAPH_OPT("score_mod"), A_INT_OPT("softmax_precision"))},
    {0}};

const nc_card nc_card_flex_attention = {.name = "FlexAttention",
                                        .domain = "ai.onnx.preview",
                                        .doc = "Attention with subgraphs on scores and probabilities.",
                                        .versions = versions,
                                        .infer = flex_infer,
                                        .decompose = flex_decompose};
