/* ops/control/inline.c: what decompositions into Loop share: a body's nodes copied to another graph, and a Loop built
 * around them. */
#include "base/mem.h"
#include "ops/control/control.h"

extern const nc_card nc_card_loop;

enum { LOOP_OPSET = 18 };

static nc_value *mapped(nc_builder *b, const nc_node *owner, const nc_sub *sub, nc_value **map, nc_value *v) {
    if (v == NULL) return NULL;
    if (map[v->id] != NULL) return map[v->id];
    if (v->origin == NC_FROM_CONST)
        map[v->id] = nc_edit_const(b->graph, v->name, v->lit);
    else
        for (int k = 0; k < sub->n_captures; k++)
            if (sub->graph->captures.v[k] == v) map[v->id] = nc_edit_reach(b->graph, owner->in[sub->first_capture + k]);
    return map[v->id];
}

/* map: from the body's values, by id, to theirs in b's graph. */
static nc_code copy_body(nc_builder *b, const nc_node *n, const nc_sub *sub, nc_value *const *in, nc_value **map,
                         nc_value **out) {
    const nc_graph *g = sub->graph;
    for (int i = 0; i < g->inputs.n; i++) map[g->inputs.v[i]->id] = in[i];
    for (const nc_node *k = g->first; k != NULL; k = k->next) {
        nc_node *copy = nc_edit_clone(b->graph, b->before, k);
        NC_NEED(b->w, copy);
        copy->stage = b->stage;
        for (int i = 0; i < k->n_operands; i++) {
            nc_value *v = mapped(b, n, sub, map, k->in[i]);
            if (k->in[i] != NULL) NC_NEED(b->w, v);
            nc_edit_set_in(copy, i, v);
        }
        if (b->infer != NULL) NC_TRY(b->infer(b->w, copy));
        for (int i = 0; i < k->n_out; i++)
            if (k->out[i] != NULL) map[k->out[i]->id] = copy->out[i];
    }
    for (int i = 0; i < g->outputs.n; i++) {
        out[i] = mapped(b, n, sub, map, g->outputs.v[i]);
        NC_NEED(b->w, out[i]);
    }
    return NC_OK;
}

nc_code nc_control_inline(nc_builder *b, const nc_node *n, int i_sub, nc_value *const *in, nc_value **out) {
    nc_value **map = nc_alloc_zero((size_t)n->graph->model->next_id + 1, sizeof *map);
    NC_NEED(b->w, map);
    nc_code code = copy_body(b, n, &n->subs[i_sub], in, map, out);
    nc_free(map);
    return code;
}

nc_code nc_control_loop_begin(nc_builder *b, nc_value *trips, nc_value *const *carried, int n_carried, int n_scan,
                              nc_control_loop *l) {
    nc_arena *a = &b->graph->model->arena;
    int64_t opset = nc_model_opset(b->graph->model, "");
    nc_value **in = nc_arena_array(&b->w->scratch, (size_t)n_carried + 2, sizeof *in);
    l->carried = nc_arena_array(&b->w->scratch, (size_t)n_carried + 1, sizeof *l->carried);
    NC_NEED(b->w, in);
    NC_NEED(b->w, l->carried);
    in[0] = trips;
    for (int i = 0; i < n_carried; i++) in[2 + i] = carried[i];
    l->n_carried = n_carried;
    l->go = NULL;
    l->node = nc_edit_node(b->graph, b->before, &nc_card_loop,
                           nc_card_version(&nc_card_loop, opset > LOOP_OPSET ? opset : LOOP_OPSET), NULL, in,
                           2 + n_carried, NULL, n_carried + n_scan);
    NC_NEED(b->w, l->node);
    l->node->stage = b->stage;
    l->b = *b;
    l->b.before = NULL;
    l->b.graph = nc_edit_subgraph(l->node, "body");
    NC_NEED(b->w, l->b.graph);
    l->iter = nc_edit_input(l->b.graph, "iter", nc_type_tensor(a, NC_INT64, 0, NULL));
    NC_NEED(b->w, l->iter);
    NC_NEED(b->w, nc_edit_input(l->b.graph, "cond", nc_type_tensor(a, NC_BOOL, 0, NULL)));
    for (int i = 0; i < n_carried; i++) {
        l->carried[i] = nc_edit_input(l->b.graph, "carried", carried[i]->type);
        NC_NEED(b->w, l->carried[i]);
    }
    return NC_OK;
}

nc_code nc_control_loop_end(nc_builder *b, nc_control_loop *l, nc_value *const *out) {
    nc_graph *g = l->b.graph;
    NC_TRY(l->b.code);
    nc_code code = nc_edit_output(g, l->go != NULL ? l->go : g->inputs.v[1], NULL);
    for (int i = 0; i < l->node->n_out && code == NC_OK; i++) code = nc_edit_output(g, out[i], NULL);
    if (code != NC_OK) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    return b->infer != NULL ? b->infer(b->w, l->node) : NC_OK;
}
