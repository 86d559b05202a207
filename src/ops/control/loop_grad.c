/* ops/control/loop_grad.c: the gradient of Loop is a Loop backwards. The forward Loop carries one more value, a tape;
 * each iteration pushes what the gradient of the body touches. The reverse Loop runs as often as the tape has records:
 *
 *   reverse body (iteration, condition, tape, dv..., sums...) => (condition, tape, dv..., sums...)
 *
 * pops a record, takes dv as the gradients of the body's carried outputs and hands on those of its carried inputs,
 * adds the gradients of captured values to the sums, and picks those of scan outputs at the iteration undone. */
#include "ops/control/control.h"

typedef struct loop {
    nc_grad *g;
    nc_graph *body; /* forward */
    int n_carried, n_scan, n_in, n_caps, first_cap;
    nc_value **outs; /* the forward node's, before it got a tape */
    nc_value **operands;
    bool *in, *out;     /* of the body (inputs, then captures): a gradient passes */
    nc_value *tape_out; /* of the forward node */
    nc_value *last;     /* number of iterations - 1, in the gradient's graph */
    nc_node *rev;
    nc_builder b; /* of the reverse body */
    nc_grad_sub sub;
    nc_value *iter, *cond, **d; /* inputs of the reverse body; d: per input or capture that has one */
} loop;

#define NEED(l, p) NC_NEED((l)->g->b->w, p)

static void *array(loop *l, int n, size_t size) { return nc_arena_array(&l->g->b->w->scratch, (size_t)n + 1, size); }

static nc_code loop_grad_measure(loop *l) {
    nc_node *n = l->g->node;
    l->body = n->subs[0].graph;
    l->n_carried = n->n_in > 2 ? n->n_in - 2 : 0;
    l->n_in = 2 + l->n_carried;
    l->n_scan = n->n_out - l->n_carried;
    l->n_caps = n->subs[0].n_captures;
    l->first_cap = n->subs[0].first_capture;
    l->outs = array(l, n->n_out, sizeof *l->outs);
    l->operands = array(l, n->n_operands, sizeof *l->operands);
    NEED(l, l->outs);
    NEED(l, l->operands);
    for (int i = 0; i < n->n_out; i++) l->outs[i] = n->out[i];
    for (int i = 0; i < n->n_operands; i++) l->operands[i] = n->in[i];
    return NC_OK;
}

/* From the carried outputs round to the carried inputs (or the other way), until nothing is added. */
static nc_code spread(loop *l, bool *in, bool *out, bool backward) {
    for (bool more = true; more;) {
        more = false;
        NC_TRY(l->g->flow(l->g, 0, in, out, backward));
        for (int i = 0; i < l->n_carried; i++) {
            bool *from = backward ? &in[2 + i] : &out[1 + i], *to = backward ? &out[1 + i] : &in[2 + i];
            if (*from && !*to) *to = more = true;
        }
    }
    return NC_OK;
}

/* A carried value takes part if a gradient comes to it in some iteration and something that is asked for influences
 * it. */
static nc_code choose(loop *l, bool *any) {
    int n_all = l->n_in + l->n_caps, n_out = 1 + l->n_carried + l->n_scan;
    bool *needed_in = array(l, n_all, 1), *needed_out = array(l, n_out, 1);
    l->in = array(l, n_all, 1);
    l->out = array(l, n_out, 1);
    if (!needed_in || !needed_out || !l->in || !l->out) NC_FAIL(l->g->b->w, NC_E_MEMORY, "out of memory");
    for (int i = 1; i < n_out; i++) needed_out[i] = l->g->dy[i - 1] != NULL;
    NC_TRY(spread(l, needed_in, needed_out, true));
    for (int i = 2; i < n_all; i++) l->in[i] = l->g->wants[i < l->n_in ? i : l->first_cap + i - l->n_in];
    NC_TRY(spread(l, l->in, l->out, false));
    for (int i = 0; i < l->n_carried; i++) l->out[1 + i] = l->in[2 + i] = l->in[2 + i] && needed_out[1 + i];
    for (int i = 1 + l->n_carried; i < n_out; i++) l->out[i] = l->out[i] && needed_out[i];
    for (int i = l->n_in; i < n_all; i++) l->in[i] = l->in[i] && needed_in[i];
    for (int i = 2; i < n_all; i++) *any |= l->in[i];
    return NC_OK;
}

/* The forward Loop with one more carried value; its body gets it when what is touched is known (push_touched). */
static nc_code carry_tape(loop *l) {
    nc_node *n = l->g->node;
    nc_builder b = {.w = l->g->b->w,
                    .graph = n->graph,
                    .before = n,
                    .stage = n->stage,
                    .infer = l->g->b->infer,
                    .grad = l->g->b->grad};
    nc_value *empty = nc_tape_empty(&b);
    NC_TRY(b.code);
    nc_code code = NC_OK;
    while (n->n_in < 2 && code == NC_OK) code = nc_edit_add_in(n, NULL);
    if (code != NC_OK || nc_edit_add_in(n, empty) != NC_OK) NC_FAIL(b.w, NC_E_MEMORY, "out of memory");
    l->tape_out = nc_edit_insert_out(n, l->n_carried, "tape");
    NEED(l, l->tape_out);
    l->tape_out->type = empty->type;
    return NC_OK;
}

static nc_code push_touched(loop *l) {
    nc_builder b = {
        .w = l->g->b->w, .graph = l->body, .stage = l->g->node->stage, .infer = l->g->b->infer, .grad = l->g->b->grad};
    nc_value *in = nc_edit_input(l->body, "tape", l->tape_out->type);
    NEED(l, in);
    nc_value *tape = nc_tape_push(&b, in, l->sub.touched, l->sub.n_touched);
    NC_TRY(b.code);
    if (nc_edit_insert_output(l->body, 1 + l->n_carried, tape, NULL) != NC_OK)
        NC_FAIL(b.w, NC_E_MEMORY, "out of memory");
    return NC_OK;
}

static nc_code begin(loop *l) {
    nc_grad *g = l->g;
    nc_builder *b = g->b;
    nc_value *tape = g->forward(g, l->tape_out);
    nc_value *trips = nc_build_attr1(b, "nacre", "TapeLength", &tape, 1, NULL, 0);
    bool scans = false;
    for (int i = 1 + l->n_carried; i <= l->n_carried + l->n_scan; i++) scans |= l->out[i];
    if (scans) l->last = nc_build1(b, "Sub", 2, trips, nc_build_int(b, 1));
    nc_value **in = array(l, 3 + l->n_in + l->n_caps, sizeof *in);
    NEED(l, in);
    int n = 0;
    in[n++] = trips;
    in[n++] = NULL;
    in[n++] = tape;
    for (int i = 2; i < l->n_in; i++) {
        if (!l->in[i]) continue;
        nc_value *dy = g->dy[i - 2];
        in[n++] = dy ? dy : nc_tape_zeros(b, g->forward(g, l->outs[i - 2]));
    }
    for (int k = 0; k < l->n_caps; k++)
        if (l->in[l->n_in + k]) in[n++] = nc_tape_zeros(b, g->forward(g, l->operands[l->first_cap + k]));
    NC_TRY(b->code);
    l->rev = nc_edit_node(b->graph, b->before, g->node->card, g->node->version, NULL, in, n, NULL, n - 2);
    NEED(l, l->rev);
    l->rev->stage = b->stage;
    return NC_OK;
}

static nc_value *body_input(loop *l, const char *name, const nc_type *type) {
    return type ? nc_edit_input(l->b.graph, name, type) : NULL;
}

static nc_code begin_body(loop *l) {
    nc_arena *a = &l->body->model->arena;
    l->b = *l->g->b;
    l->b.before = NULL;
    l->b.graph = nc_edit_subgraph(l->rev, "body");
    NEED(l, l->b.graph);
    l->d = array(l, l->n_in + l->n_caps, sizeof *l->d);
    NEED(l, l->d);
    l->iter = body_input(l, "iter", nc_type_tensor(a, NC_INT64, 0, NULL));
    l->cond = body_input(l, "cond", nc_type_tensor(a, NC_BOOL, 0, NULL));
    nc_value *tape = body_input(l, "tape", nc_tape_type(l->body->model));
    if (!l->iter || !l->cond || !tape) NC_FAIL(l->b.w, NC_E_MEMORY, "out of memory");
    for (int i = 2; i < l->n_in + l->n_caps; i++) {
        if (!l->in[i]) continue;
        const nc_value *like = i < l->n_in ? l->body->outputs.v[i - 1] : l->operands[l->first_cap + i - l->n_in];
        l->d[i] = body_input(l, i < l->n_in ? "dv" : "sum", like->type);
        NEED(l, l->d[i]);
    }
    l->sub.pop = nc_build(&l->b, "nacre", "TapePop", &tape, 1, 1, NULL, 0);
    return l->b.code;
}

static nc_code walk_body(loop *l) {
    nc_grad_sub *s = &l->sub;
    nc_builder *b = &l->b;
    s->b = b;
    s->wants = l->in;
    s->dy = array(l, l->body->outputs.n, sizeof *s->dy);
    s->dx = array(l, l->n_in + l->n_caps, sizeof *s->dx);
    NEED(l, s->dy);
    NEED(l, s->dx);
    nc_value *at = l->last ? nc_build1(b, "Sub", 2, nc_edit_reach(b->graph, l->last), l->iter) : NULL;
    for (int i = 1; i <= l->n_carried + l->n_scan; i++) {
        if (!l->out[i]) continue;
        s->dy[i] =
            i <= l->n_carried ? l->d[i + 1] : nc_build1(b, "Gather", 2, nc_edit_reach(b->graph, l->g->dy[i - 1]), at);
    }
    NC_TRY(b->code);
    return l->g->walk_sub(l->g, s);
}

static nc_code end_body(loop *l) {
    nc_graph *rbody = l->b.graph;
    nc_code code = nc_edit_output(rbody, l->cond, NULL);
    if (code == NC_OK) code = nc_edit_output(rbody, l->sub.pop->out[0], NULL);
    for (int i = 2; i < l->n_in + l->n_caps && code == NC_OK; i++) {
        if (!l->in[i]) continue;
        nc_value *d = l->sub.dx[i];
        if (i >= l->n_in)
            d = d ? nc_build_add(&l->b, l->d[i], d) : l->d[i];
        else if (!d)
            d = nc_tape_zeros(&l->b, l->g->forward_sub(&l->sub, l->body->inputs.v[i]));
        NC_TRY(l->b.code);
        code = nc_edit_output(rbody, d, NULL);
    }
    return code == NC_OK ? NC_OK : nc_fail(l->b.w, code, "out of memory");
}

/* Outputs of the reverse Loop: the tape, then a gradient for each that takes part. */
static void give(loop *l) {
    int n = 1;
    for (int i = 2; i < l->n_in + l->n_caps; i++) {
        if (!l->in[i]) continue;
        int operand = i < l->n_in ? i : l->first_cap + i - l->n_in;
        if (l->g->wants[operand]) l->g->dx[operand] = l->rev->out[n];
        n++;
    }
}

nc_code nc_loop_grad(nc_grad *g) {
    loop l = {.g = g};
    bool any = false;
    NC_TRY(loop_grad_measure(&l));
    NC_TRY(choose(&l, &any));
    if (!any) return NC_OK;
    NC_TRY(carry_tape(&l));
    NC_TRY(begin(&l));
    NC_TRY(begin_body(&l));
    NC_TRY(walk_body(&l));
    NC_TRY(end_body(&l));
    NC_TRY(push_touched(&l));
    NC_TRY(g->b->infer(g->b->w, l.rev));
    give(&l);
    return nc_grad_end(g);
}
