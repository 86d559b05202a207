/* ops/control/if_grad.c: the gradient of If is an If of the two branches' gradients on the same condition. The forward
 * If gets one more output, a tape, on which each branch pushes what its own gradient touches. Outputs of the reverse
 * If are the gradients of captured values; a branch that does not use one gives zeros. */
#include "ops/control/control.h"

typedef struct branches {
    nc_grad *g;
    nc_node *rev;
    nc_builder b[2];
    nc_grad_sub sub[2];
    nc_value *tape; /* the forward output, as seen from the gradient's graph */
} branches;

static nc_code walk_branch(branches *t, int s) {
    nc_grad *g = t->g;
    const nc_sub *fwd = &g->node->subs[s];
    nc_arena *a = &g->b->w->scratch;
    nc_builder *b = &t->b[s];
    *b = *g->b;
    b->before = NULL;
    b->graph = nc_edit_subgraph(t->rev, fwd->attr);
    nc_value *tape = b->graph ? nc_edit_reach(b->graph, t->tape) : NULL;
    nc_value **dy = nc_arena_array(a, (size_t)fwd->graph->outputs.n + 1, sizeof *dy);
    nc_value **dx = nc_arena_array(a, (size_t)fwd->n_captures + 1, sizeof *dx);
    if (!tape || !dy || !dx) NC_FAIL(g->b->w, NC_E_MEMORY, "out of memory");
    for (int i = 0; i < fwd->graph->outputs.n; i++)
        if (g->dy[i] && !(dy[i] = nc_edit_reach(b->graph, g->dy[i]))) NC_FAIL(g->b->w, NC_E_MEMORY, "out of memory");
    t->sub[s] = (nc_grad_sub){.i_sub = s, .b = b, .dy = dy, .dx = dx, .wants = g->wants + fwd->first_capture};
    t->sub[s].pop = nc_build(b, "nacre", "TapePop", &tape, 1, 1, NULL, 0);
    NC_TRY(b->code);
    return g->walk_sub(g, &t->sub[s]);
}

/* What branch s gives for the captured value `outer`; *first: the operand it is captured by, if that is none yet. */
static nc_value *found(const branches *t, int s, const nc_value *outer, int *first) {
    const nc_sub *fwd = &t->g->node->subs[s];
    for (int k = 0; k < fwd->n_captures; k++) {
        if (t->g->node->in[fwd->first_capture + k] != outer) continue;
        if (*first < 0) *first = fwd->first_capture + k;
        return t->sub[s].dx[k];
    }
    return NULL;
}

/* The gradient of one captured value: an output of both branches, then of the node. */
static nc_code give(branches *t, nc_value *outer) {
    nc_grad *g = t->g;
    int first = -1;
    nc_value *d[2] = {found(t, 0, outer, &first), found(t, 1, outer, &first)};
    if ((!d[0] && !d[1]) || g->dx[first]) return NC_OK;
    for (int s = 0; s < 2; s++) {
        nc_builder *b = &t->b[s];
        nc_value *like = d[s] ? NULL : g->forward(g, outer);
        if (!d[s] && like) d[s] = nc_tape_zeros(b, nc_edit_reach(b->graph, like));
        NC_TRY(b->code);
        if (!d[s] || nc_edit_output(b->graph, d[s], NULL) != NC_OK) NC_FAIL(b->w, NC_E_MEMORY, "out of memory");
    }
    g->dx[first] = nc_edit_add_out(t->rev, NULL);
    NC_NEED(g->b->w, g->dx[first]);
    return NC_OK;
}

static nc_code keep_touched(branches *t, int s) {
    nc_graph *fwd = t->g->node->subs[s].graph;
    nc_builder b = {
        .w = t->g->b->w, .graph = fwd, .stage = t->g->node->stage, .infer = t->g->b->infer, .grad = t->g->b->grad};
    nc_value *tape = nc_tape_push(&b, nc_tape_empty(&b), t->sub[s].touched, t->sub[s].n_touched);
    NC_TRY(b.code);
    if (nc_edit_output(fwd, tape, NULL) != NC_OK) NC_FAIL(b.w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code begin(branches *t) {
    nc_grad *g = t->g;
    nc_model *m = g->node->graph->model;
    nc_value *tape = nc_edit_add_out(g->node, "tape");
    NC_NEED(g->b->w, tape);
    tape->type = nc_tape_type(m);
    NC_NEED(g->b->w, tape->type);
    nc_value *cond = nc_grad_x(g, 0);
    t->tape = g->forward(g, tape);
    NC_TRY(g->b->code);
    t->rev = nc_edit_node(g->b->graph, g->b->before, g->node->card, g->node->version, NULL, &cond, 1, NULL, 0);
    NC_NEED(g->b->w, t->rev);
    t->rev->stage = g->b->stage;
    return NC_OK;
}

nc_code nc_if_grad(nc_grad *g) {
    branches t = {.g = g};
    int n_operands = g->node->n_operands;
    NC_TRY(begin(&t));
    for (int s = 0; s < 2; s++) NC_TRY(walk_branch(&t, s));
    for (int i = g->node->n_in; i < n_operands; i++)
        if (g->wants[i]) NC_TRY(give(&t, g->node->in[i]));
    for (int s = 0; s < 2; s++) NC_TRY(keep_touched(&t, s));
    if (t.rev->n_out == 0) {
        nc_edit_remove(t.rev);
        return g->b->code;
    }
    NC_TRY(g->b->infer(g->b->w, t.rev));
    return nc_grad_end(g);
}
