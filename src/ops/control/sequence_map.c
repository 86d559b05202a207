/* ops/control/sequence_map.c: SequenceMap: its body for every element of a sequence, the results as sequences. It is a
 * Loop that carries those, and is run as that. */
#include "ops/control/control.h"
#include "ops/sequence/sequence.h"

static nc_code sequence_map_measure(nc_work *w, const nc_node *n, const nc_graph **body) {
    if (n->n_subs != 1) NC_FAIL(w, NC_E_BAD_GRAPH, "has %d subgraphs, expected 1", n->n_subs);
    *body = n->subs[0].graph;
    if ((*body)->inputs.n != n->n_in || (*body)->outputs.n != n->n_out)
        NC_FAIL(w, NC_E_BAD_GRAPH, "body takes %d and gives %d values, expected %d and %d", (*body)->inputs.n,
                (*body)->outputs.n, n->n_in, n->n_out);
    return NC_OK;
}

static nc_code sequence_map_infer(nc_infer *c) {
    const nc_graph *body;
    nc_scope scope;
    NC_TRY(sequence_map_measure(c->w, c->node, &body));
    NC_TRY(nc_scope_init(&scope, c));
    nc_infer_val *in = nc_arena_array(&c->w->scratch, (size_t)c->node->n_in, sizeof *in);
    NC_NEED(c->w, in);
    for (int i = 0; i < c->node->n_in; i++) {
        const nc_type *t = nc_in(c, i);
        in[i] = (nc_infer_val){.type = t, .present = true};
        if (t != NULL && t->kind == NC_T_SEQUENCE) NC_TRY(nc_sequence_item(c, t->of, &in[i].type));
    }
    NC_TRY(c->infer_sub(c, 0, in, c->node->n_in));
    for (int i = 0; i < c->node->n_out; i++) {
        const nc_type *t = body->outputs.v[i]->type, *seen = NULL;
        if (t != NULL) NC_TRY(nc_scope_join(&scope, t, t, "output", &seen));
        NC_TRY(nc_sequence_out(c, i, seen));
    }
    return NC_OK;
}

static nc_value *element(nc_builder *b, nc_value *v, nc_value *at) {
    bool is_list = v->type != NULL && v->type->kind == NC_T_SEQUENCE;
    nc_value *inner = nc_edit_reach(b->graph, v);
    return is_list ? nc_build1(b, "SequenceAt", 2, inner, at) : inner;
}

static nc_code sequence_map_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_graph *body;
    nc_control_loop l;
    NC_TRY(sequence_map_measure(b->w, n, &body));
    nc_value **empty = nc_arena_array(&b->w->scratch, (size_t)n->n_out + 1, sizeof *empty);
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n->n_in + 1, sizeof *in);
    nc_value **given = nc_arena_array(&b->w->scratch, (size_t)n->n_out + 1, sizeof *given);
    if (empty == NULL || in == NULL || given == NULL) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < n->n_out; i++) {
        const nc_type *t = body->outputs.v[i]->type;
        nc_attr elem = {.name = "dtype", .kind = NC_A_INT, .i = t != NULL ? t->elem : NC_FLOAT};
        empty[i] = nc_build_attr1(b, "", "SequenceEmpty", NULL, 0, &elem, 1);
    }
    nc_value *trips = nc_build1(b, "SequenceLength", 1, n->in[0]);
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, trips, empty, n->n_out, 0, &l));
    for (int i = 0; i < n->n_in; i++) in[i] = element(&l.b, n->in[i], l.iter);
    NC_TRY(l.b.code);
    NC_TRY(nc_control_inline(&l.b, n, 0, in, given));
    for (int i = 0; i < n->n_out; i++) given[i] = nc_build1(&l.b, "SequenceInsert", 2, l.carried[i], given[i]);
    NC_TRY(nc_control_loop_end(b, &l, given));
    for (int i = 0; i < n->n_out; i++) out[i] = l.node->out[i];
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 17,
     IN({"input_sequence", T_SEQ}, {"additional_inputs", T_TENSOR | T_SEQ, MIXED_OR_NONE}),
     OUT({"out_sequence", T_SEQ, MIXED}),
     ATTR(A_GRAPH_REQ("body"))},
    {0}};

const nc_card nc_card_sequence_map = {.name = "SequenceMap",
                                      .doc = "Its body for every element of a sequence.",
                                      .versions = versions,
                                      .traits = NC_CONTROL,
                                      .infer = sequence_map_infer,
                                      .decompose = sequence_map_decompose};
