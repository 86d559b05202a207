/* autodiff/sub.c: what the walk offers to the gradients of control flow: the differentiable ways through a subgraph,
 * and a walk of it that emits into a subgraph of the reverse node. Which reverse node, and how tapes pass from forward
 * to reverse, is for the hooks in ops/ to say. */
#include "autodiff/walk.h"

static nc_code flow(nc_grad *g, int i_sub, bool *in, bool *out, bool backward) {
    nc_walk *parent = g->ctx;
    nc_graph *sub = g->node->subs[i_sub].graph;
    int n_in = sub->inputs.n, n_all = n_in + sub->captures.n;
    nc_walk k;
    nc_walk_init(&k, parent->w, sub, NULL);
    for (int i = 0; !backward && i < n_all; i++)
        if (in[i]) NC_TRY(nc_walk_mark(&k, i < n_in ? sub->inputs.v[i] : sub->captures.v[i - n_in], true, false));
    for (int i = 0; backward && i < sub->outputs.n; i++)
        if (out[i]) NC_TRY(nc_walk_mark(&k, sub->outputs.v[i], false, true));
    NC_TRY(backward ? nc_walk_mark_needed(&k) : nc_walk_mark_reached(&k));
    for (int i = 0; !backward && i < sub->outputs.n; i++)
        out[i] = nc_walk_reached(&k, sub->outputs.v[i]) && nc_walk_carries(sub->outputs.v[i]->type);
    for (int i = 0; backward && i < n_all; i++) {
        const nc_value *v = i < n_in ? sub->inputs.v[i] : sub->captures.v[i - n_in];
        const nc_walk_info *info = nc_walk_peek(&k, v);
        in[i] = info && info->needed && nc_walk_carries(v->type);
    }
    return NC_OK;
}

static nc_value *forward_sub(nc_grad_sub *s, nc_value *v) { return nc_walk_see(s->ctx, v); }

static nc_code walk_sub(nc_grad *g, nc_grad_sub *s) {
    nc_walk *parent = g->ctx;
    nc_graph *sub = g->node->subs[s->i_sub].graph;
    nc_walk *k = nc_arena_alloc(&parent->w->scratch, sizeof *k);
    NC_NEED(parent->w, k);
    nc_walk_init(k, parent->w, sub, s->b);
    k->parent = parent;
    k->sub = s;
    s->ctx = k;
    int n_in = sub->inputs.n, n_all = n_in + sub->captures.n;
    for (int i = 0; i < n_all; i++)
        if (s->wants[i]) NC_TRY(nc_walk_mark(k, i < n_in ? sub->inputs.v[i] : sub->captures.v[i - n_in], true, false));
    for (int i = 0; i < sub->outputs.n; i++) {
        NC_TRY(nc_walk_mark_used(k, sub->outputs.v[i]));
        if (s->dy[i]) NC_TRY(nc_walk_mark(k, sub->outputs.v[i], false, true));
    }
    NC_TRY(nc_walk_prepare(k));
    for (int i = 0; i < sub->outputs.n; i++)
        if (s->dy[i]) NC_TRY(nc_walk_add(k, sub->outputs.v[i], s->dy[i]));
    NC_TRY(nc_walk_run(k));
    for (int i = 0; i < n_all; i++)
        if (s->wants[i]) NC_TRY(nc_walk_sum(k, i < n_in ? sub->inputs.v[i] : sub->captures.v[i - n_in], &s->dx[i]));
    return s->b->code;
}

void nc_walk_give_subs(nc_grad *g) {
    g->flow = flow;
    g->walk_sub = walk_sub;
    g->forward_sub = forward_sub;
}
