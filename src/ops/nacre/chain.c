/* ops/nacre/chain.c: nacre.Chain: several element formulas as one node. Its subgraph `body` has one input per input
 * of the node, holds lanes and casts between floats, and neither captures nor constants: scalars come in as inputs.
 * Made by fusion; runs as one tile program (lane_cpu.c). Values between the formulas stay in the compute type. */
#include "kernels/cpu/tile.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "ops/nacre/rows.h"

#include <string.h>

typedef struct binding {
    const nc_value *value;
    nc_infer_val known;
} binding;

static const nc_graph *body_of(nc_infer *c) {
    const nc_node *n = c->node;
    if (n->n_subs != 1 || strcmp(n->subs[0].attr, "body") != 0) return NULL;
    return n->subs[0].graph->inputs.n == n->n_in && n->subs[0].graph->outputs.n == n->n_out ? n->subs[0].graph : NULL;
}

static const binding *chain_find(const binding *b, int n, const nc_value *v) {
    for (int i = n - 1; i >= 0; i--)
        if (b[i].value == v) return &b[i];
    return NULL;
}

/* One body node, with what is known kept beside the graph: inference while running must not touch it. */
static nc_code infer_inner(nc_infer *c, const nc_node *n, binding *known, int *n_known) {
    if (nc_lane_number(n) < 0 || n->n_out != 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s in the body is not an element formula", n->card->name);
    nc_infer_val out = {.present = true};
    nc_infer inner = {.w = c->w, .dims = c->dims, .arena = c->arena, .node = n, .out = &out};
    inner.in = nc_arena_array(c->arena, (size_t)n->n_in, sizeof *inner.in);
    NC_NEED(c->w, inner.in);
    for (int i = 0; i < n->n_in; i++) {
        const binding *b = chain_find(known, *n_known, n->in[i]);
        if (b == NULL)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "%s in the body uses what is no input of the chain", n->card->name);
        inner.in[i] = b->known;
    }
    NC_TRY(n->card->infer != NULL ? n->card->infer(&inner) : nc_lane_infer(&inner));
    known[(*n_known)++] = (binding){n->out[0], out};
    return NC_OK;
}

nc_code nc_chain_infer_body(nc_infer *c, const nc_graph *body, const nc_type **out) {
    binding *known = nc_arena_array(c->arena, (size_t)(body->inputs.n + body->n_nodes), sizeof *known);
    NC_NEED(c->w, known);
    int n_known = 0;
    for (int i = 0; i < body->inputs.n; i++) known[n_known++] = (binding){body->inputs.v[i], c->in[i]};
    for (const nc_node *n = body->first; n != NULL; n = n->next) NC_TRY(infer_inner(c, n, known, &n_known));
    for (int i = 0; i < body->outputs.n; i++) {
        const binding *b = chain_find(known, n_known, body->outputs.v[i]);
        if (b == NULL) NC_FAIL(c->w, NC_E_BAD_GRAPH, "output %d of the body is not computed there", i);
        out[i] = b->known.type;
    }
    return NC_OK;
}

static nc_code chain_infer(nc_infer *c) {
    const nc_graph *body = body_of(c);
    const nc_type *types[NCK_TILE_MAX_OUT];
    if (body == NULL || body->outputs.n > NCK_TILE_MAX_OUT)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs a body of as many inputs and outputs as the node");
    if (c->infer_sub != NULL) NC_TRY(c->infer_sub(c, 0, c->in, c->node->n_in));
    NC_TRY(nc_chain_infer_body(c, body, types));
    for (int i = 0; i < c->node->n_out; i++) c->out[i].type = types[i];
    return NC_OK;
}

typedef struct pair {
    const nc_value *inner;
    nc_value *outer;
} pair;

static nc_value *outer_of(const pair *p, int n, const nc_value *v) {
    for (int i = n - 1; i >= 0; i--)
        if (p[i].inner == v) return p[i].outer;
    return NULL;
}

/* The body's nodes in the place of the chain. */
static nc_code chain_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_graph *body = n->subs[0].graph;
    pair *pairs = nc_arena_array(&b->w->scratch, (size_t)(n->n_in + body->n_nodes), sizeof *pairs);
    NC_NEED(b->w, pairs);
    int n_pairs = 0;
    for (int i = 0; i < n->n_in; i++) pairs[n_pairs++] = (pair){body->inputs.v[i], n->in[i]};
    for (const nc_node *k = body->first; k != NULL; k = k->next) {
        nc_node *copy = nc_edit_clone(b->graph, b->before, k);
        NC_NEED(b->w, copy);
        copy->stage = b->stage;
        for (int i = 0; i < k->n_in; i++) nc_edit_set_in(copy, i, outer_of(pairs, n_pairs, k->in[i]));
        if (b->infer != NULL) NC_TRY(b->infer(b->w, copy));
        pairs[n_pairs++] = (pair){k->out[0], copy->out[0]};
    }
    for (int i = 0; i < n->n_out; i++) out[i] = outer_of(pairs, n_pairs, body->outputs.v[i]);
    return b->code;
}

double nc_chain_cost(const nc_node *n, const int64_t *const *in_dims) {
    double elements = 1;
    for (int i = 0; i < n->n_in; i++) {
        double here = 1;
        int rank = n->in[i] != NULL && n->in[i]->type != NULL ? n->in[i]->type->rank : 0;
        for (int k = 0; k < rank; k++) here *= (double)in_dims[i][k];
        if (here > elements) elements = here;
    }
    return elements * n->subs[0].graph->n_nodes;
}

#define T_LANES (T_NUMBER_ALL | T_BOOL)
static const nc_op_version versions[] = {
    {.since = 1, IN({"inputs", T_LANES, MIXED}), OUT({"outputs", T_LANES, MIXED}), ATTR(A_GRAPH_REQ("body"))}, {0}};

const nc_card nc_card_chain = {.name = "Chain",
                               .domain = "nacre",
                               .doc = "A chain of element formulas, run in one pass.",
                               .versions = versions,
                               .traits = NC_ELEMENTWISE,
                               .infer = chain_infer,
                               .decompose = chain_decompose,
                               .cost = nc_chain_cost};
