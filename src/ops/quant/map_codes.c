/* ops/quant/map_codes.c: nacre.MapCodes: codes of 8 bits made of codes of 8 bits, element by element. The subgraph
 * `body` says how: its input is the node's, all else in it are constants of one number. Made by plan/lower_code_maps.c;
 * the CPU does the body to all 256 codes when the session is made, and looks them up. */
#include "base/intmath.h"
#include "kernels/cpu/quant/linear.h"
#include "ops/card.h"
#include "ops/host_eval.h"
#include "ops/quant/quant.h"

#include <string.h>

enum { CODES = 256 };

static const nc_graph *body_of(const nc_node *n) {
    const nc_graph *g = n->n_subs == 1 ? n->subs[0].graph : NULL;
    return g && g->inputs.n == 1 && g->outputs.n == 1 && g->outputs.v[0]->type ? g : NULL;
}

static nc_code map_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_graph *body = body_of(c->node);
    if (!body) NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs a body of one input and one output of known type");
    if (!x) return NC_OK;
    return x->rank < 0 ? nc_out_unknown(c, 0, body->outputs.v[0]->type->elem, -1)
                       : nc_out(c, 0, body->outputs.v[0]->type->elem, x->rank, x->dims);
}

#define T_CODES (NC_BIT(NC_UINT8) | NC_BIT(NC_INT8))
static const nc_op_version versions[] = {
    {.since = 1, IN({"codes", T_CODES}), OUT({"mapped", T_CODES}), ATTR(A_GRAPH_REQ("body"))}, {0}};

const nc_card nc_card_map_codes = {.name = "MapCodes",
                                   .domain = "nacre",
                                   .no_grad = NC_LOWERED_NO_GRAD,
                                   .doc = "Codes of 8 bits by a table of what a body makes of each.",
                                   .versions = versions,
                                   .infer = map_infer};

/* ---- the CPU ---- */

/* What the body's values are for all codes. */
typedef struct evaluation {
    nc_prep *p;
    const nc_graph *body;
    nc_tensor *values; /* of its nodes, in order, behind that of its input */
    nc_buffer **held;
    int n;
} evaluation;

static const nc_tensor *value_of(const evaluation *e, const nc_value *v) {
    int i = 1;
    if (v == e->body->inputs.v[0]) return &e->values[0];
    for (const nc_node *n = e->body->first; n; n = n->next, i++)
        if (n->out[0] == v) return i < e->n ? &e->values[i] : NULL;
    return NULL;
}

static nc_code evaluate(evaluation *e, const nc_node *n) {
    nc_tensor in[NC_HOST_EVAL_MAX], *out = &e->values[e->n];
    bool done = false, alone = true;
    if (n->n_in > NC_HOST_EVAL_MAX) NC_FAIL(e->p->w, NC_E_LIMIT, "%s of %d operands", n->card->name, n->n_in);
    memset(in, 0, sizeof in);
    for (int i = 0; i < n->n_in; i++) {
        const nc_tensor *t = n->in[i] ? value_of(e, n->in[i]) : NULL;
        if (t) in[i] = *t, alone = alone && nc_tensor_numel(t) == 1;
        if (n->in[i] && !t) in[i] = nc_literal_tensor(n->in[i]->lit);
    }
    *out = e->values[0];
    out->data = NULL, out->dtype = n->out[0]->type->elem;
    if (alone) { /* of constants */
        out->rank = n->out[0]->type->rank;
        for (int i = 0; i < out->rank; i++) out->dims[i] = 1;
    }
    NC_TRY(nc_host_eval(e->p->w, n, in, NULL, out, &e->held[e->n], &done));
    if (!done) NC_FAIL(e->p->w, NC_E_UNSUPPORTED, "%s of the body cannot be done to 256 codes", n->card->name);
    e->n++;
    return NC_OK;
}

nc_code nc_map_codes_prepare(nc_prep *p) {
    evaluation e = {.p = p, .body = body_of(p->node), .n = 1};
    uint8_t *codes = nc_arena_alloc(p->arena, CODES), *table = nc_arena_alloc(p->arena, CODES);
    size_t values = (size_t)e.body->n_nodes + 1;
    int rank = p->node->in[0]->type->rank;
    e.values = nc_arena_array(&p->w->scratch, values, sizeof *e.values);
    e.held = nc_arena_array(&p->w->scratch, values, sizeof(nc_buffer *));
    if (!codes || !table || !e.values || !e.held) NC_FAIL(p->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < CODES; i++) codes[i] = (uint8_t)i;
    nc_tensor_set(&e.values[0], codes, p->node->in[0]->type->elem, rank);
    for (int i = 0; i < rank; i++) e.values[0].dims[i] = i == rank - 1 ? CODES : 1;
    nc_dense_strides(e.values[0].dims, rank, e.values[0].strides);
    nc_code code = NC_OK;
    for (const nc_node *n = e.body->first; n && code == NC_OK; n = n->next) code = evaluate(&e, n);
    const nc_tensor *y = code == NC_OK ? value_of(&e, e.body->outputs.v[0]) : NULL;
    if (y) memcpy(table, y->data, CODES);
    for (size_t i = 0; i < values; i++) nc_buffer_unref(e.held[i]);
    p->state = table;
    p->over[0] = 1u << 0;
    return code;
}

nc_code nc_map_codes_run(const nc_call *c) {
    nck_map_codes(nc_tensor_numel(c->out[0]), c->in[0]->data, c->state, c->out[0]->data, c->pool);
    return NC_OK;
}
