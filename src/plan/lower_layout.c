/* plan/lower_layout.c: the channel-blocked layout. Which nodes work on it is decided by cost, then they are replaced by
 * their blocked forms, with PackChannels and UnpackChannels nodes where the layout begins and ends, for all to see.
 *
 * A node can take the layout where its card's `blocks` says so. The choice begins with every node that can and that
 * hangs together, over such nodes, with one that gains by it (a convolution). Then single nodes change sides as long as
 * that saves something: backwards, leaving the layout where it costs no more, then forwards, joining it where it costs
 * no more. Moves of elements between layouts are what is counted: a value used in both layouts is converted once,
 * constants are converted here, and what a node gains weighs against it.
 *
 * A Transpose between channels last and channels first costs a pass over memory, and so does a conversion: where they
 * meet, one pass does both (PackChannels and UnpackChannels with `last`).
 *
 * An example: Conv -> Relu -> Resize x4 -> Softmax. All but Softmax can; unpacking in front of Softmax moves 16 times
 * the elements that it moves in front of Resize, so Resize leaves, and Relu stays. */
#include "infer/infer.h"
#include "ops/build.h"
#include "ops/lane.h"
#include "plan/plan.h"

#include <string.h>

enum { MAX_IN = 32, MAX_ROUNDS = 8, CONST_ELEMENTS = 1 << 20 };

typedef struct site {
    nc_node *node;
    nc_blocking k;
    bool can, blocked;
} site;

typedef struct layouts {
    nc_work *w;
    nc_graph *g;
    site **of; /* by node id */
    nc_builder b;
    nc_map packed; /* value -> its blocked form */
} layouts;

static site *site_of(const layouts *l, const nc_node *n) { return n && n->graph == l->g ? l->of[n->id] : NULL; }

/* The site that makes v and, where it works on blocks, gives it blocked: only output 0 is. */
static site *maker_of(const layouts *l, const nc_value *v) {
    return v->def && v->def->out[0] == v ? site_of(l, v->def) : NULL;
}

static bool takes_blocked(const site *s, int i) { return s && s->blocked && i < MAX_IN && (s->k.in >> i & 1); }

/* ---- the choice ---- */

static double elements(const nc_value *v) {
    double n = 1;
    int64_t d;
    for (int i = 0; v->type && i < v->type->rank; i++)
        n *= nc_dim_is_const(v->type->dims[i], &d) ? (double)d : i == 0 ? 1 : 32;
    return n;
}

static bool becomes_const(const nc_value *v) {
    return v->origin == NC_FROM_CONST && v->lit && v->lit->n <= CONST_ELEMENTS;
}

/* Does n bring channels, the last axis of its input, to the front, or the other way round? */
static bool turns(const nc_node *n, bool to_front) {
    int64_t perm[NC_MAX_RANK];
    const nc_type *x = n && n->card->permutes && n->in[0] ? n->in[0]->type : NULL;
    if (!x || x->elem != NC_FLOAT || x->rank < 3 || n->recompute || !n->card->permutes(n, x->rank, perm)) return false;
    int64_t last = x->rank - 1;
    for (int k = 1; k <= last; k++) {
        int64_t want = to_front ? (k == 1 ? last : k - 1) : (k == last ? 1 : k + 1);
        if (perm[k] != want) return false;
    }
    return perm[0] == 0;
}

/* Elements that are moved between layouts for v, in blocks, in plain layout and with the channels last. */
static double moved(const layouts *l, const nc_value *v) {
    const site *from = maker_of(l, v);
    bool blocked = from && from->blocked, turned = turns(v->def, true);
    bool plain_wanted = v->n_outputs > 0, blocked_wanted = false, last_wanted = false;
    for (int i = 0; i < v->uses.n; i++) {
        bool takes = takes_blocked(site_of(l, v->uses.v[i].node), v->uses.v[i].i);
        bool last = !takes && turns(v->uses.v[i].node, false);
        blocked_wanted |= takes;
        last_wanted |= last;
        plain_wanted |= !takes && !last;
    }
    int forms = last_wanted + (plain_wanted && (blocked || turned)) + (blocked_wanted && !blocked && !becomes_const(v));
    return forms * elements(v);
}

static double cost_around(const layouts *l, const site *s) {
    const nc_node *n = s->node;
    double cost = moved(l, n->out[0]) - (s->blocked ? s->k.gain : 0);
    for (int i = 0; i < n->n_in; i++) {
        bool again = !n->in[i];
        for (int k = 0; k < i && !again; k++) again = n->in[k] == n->in[i];
        if (!again) cost += moved(l, n->in[i]);
    }
    return cost;
}

static bool flip(const layouts *l, site *s, bool to) {
    double before = cost_around(l, s);
    s->blocked = to;
    if (cost_around(l, s) <= before) return true;
    s->blocked = !to;
    return false;
}

static void settle(const layouts *l) {
    for (int to = 0; to < 2; to++) {
        bool changed = true;
        for (int round = 0; changed && round < MAX_ROUNDS; round++) {
            changed = false;
            for (nc_node *n = to ? l->g->first : l->g->last; n; n = to ? n->next : n->prev) {
                site *s = site_of(l, n);
                if (s && s->can && s->blocked != to) changed |= flip(l, s, to);
            }
        }
    }
}

/* Everything that hangs together with s over nodes that can. */
static nc_code spread(layouts *l, site *from) {
    NC_VEC(site *) open = {0};
    if (from->blocked) return NC_OK;
    from->blocked = true;
    if (!NC_PUSH(&l->w->scratch, open, from)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    while (open.n > 0) {
        const site *s = open.v[--open.n];
        for (int i = -1; i < s->node->n_in; i++) {
            nc_value *v = i < 0 ? s->node->out[0] : s->node->in[i];
            if (!v || (i >= 0 && !(s->k.in >> i & 1))) continue;
            for (int u = -1; u < v->uses.n; u++) {
                site *next = u < 0 ? maker_of(l, v) : site_of(l, v->uses.v[u].node);
                if (!next || !next->can || next->blocked || (u >= 0 && !(next->k.in >> v->uses.v[u].i & 1))) continue;
                next->blocked = true;
                if (!NC_PUSH(&l->w->scratch, open, next)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
            }
        }
    }
    return NC_OK;
}

bool nc_layout_can_block(const nc_node *n, nc_blocking *k, const nc_plan_options *o) {
    bool (*blocks)(const nc_node *, nc_blocking *) = n->card->blocks ? n->card->blocks
                                                     : n->card->lane ? nc_lane_blocks
                                                                     : NULL;
    *k = nc_channel_blocking(nc_kernels_at(o, n->place));
    if (k->block == 0 || !blocks || n->n_in < 1 || n->n_in > MAX_IN || !n->in[0] || !n->out[0]) return false;
    if (n->out[0]->var || !blocks(n, k)) return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] && !k->rest_plain) return false;
    return true;
}

static nc_code choose(layouts *l, const nc_plan_options *o) {
    for (nc_node *n = l->g->first; n; n = n->next) {
        nc_blocking k = {0};
        if (!nc_layout_can_block(n, &k, o)) continue;
        site *s = nc_arena_alloc(&l->w->scratch, sizeof *s);
        NC_NEED(l->w, s);
        *s = (site){.node = n, .k = k, .can = true};
        l->of[n->id] = s;
    }
    for (nc_node *n = l->g->first; n; n = n->next) {
        site *s = site_of(l, n);
        if (s && s->k.gain > 0) NC_TRY(spread(l, s));
    }
    settle(l);
    return NC_OK;
}

/* ---- the rewriting ---- */

/* Not every card knows that its output is laid out like its input. */
static nc_code tag(layouts *l, nc_value *y, int64_t block, const nc_dim *channels) {
    nc_type *t = nc_arena_alloc(&l->g->model->arena, sizeof *t);
    NC_NEED(l->w, t);
    *t = *y->type;
    t->layout = (nc_layout){.axis = 1, .block = (int)block, .logical = channels};
    y->type = t;
    return NC_OK;
}

/* A constant of `rank` dims, or fewer with dims of 1 in front, with its channels in blocks. */
static nc_value *pack_const(layouts *l, const nc_value *v, int rank, const nc_blocking *k) {
    const nc_literal *lit = v->lit;
    const size_t elem = nc_dtype_bytes(v->type->elem);
    int64_t dims[NC_MAX_RANK], outer, C, inner = 1;
    for (int i = 0; i < rank; i++) dims[i] = i < rank - lit->rank ? 1 : lit->dims[i - (rank - lit->rank)];
    outer = dims[0], C = dims[1];
    for (int i = 2; i < rank; i++) inner *= dims[i];
    int64_t block = nc_block_of(k, C), blocks = (C + block - 1) / block;
    dims[1] = blocks, dims[rank] = block;
    char *data = nc_arena_array(&l->w->scratch, (size_t)(outer * blocks * inner * block) + 1, elem);
    if (!data) return NULL;
    memset(data, 0, (size_t)(outer * blocks * inner * block) * elem);
    for (int64_t i = 0; i < outer * C * inner; i++) {
        int64_t n = i / inner / C, c = i / inner % C, at = i % inner;
        size_t to = (size_t)(((n * blocks + c / block) * inner + at) * block + c % block);
        memcpy(data + to * elem, (const char *)lit->data + (size_t)i * elem, elem);
    }
    nc_model *m = l->g->model;
    const nc_literal *packed = nc_edit_literal(m, v->type->elem, rank + 1, dims, data);
    nc_value *p = packed ? nc_edit_const(l->g, NULL, packed) : NULL;
    return p && tag(l, p, block, nc_dim_const(m->dims, C)) == NC_OK ? p : NULL;
}

/* The channels of v, which has `rank` dims or, as a constant, fewer with dims of 1 in front; 0: not known. */
static int64_t channels_of(const nc_value *v, int rank) {
    int64_t C, axis = 1 - (rank - v->type->rank);
    return axis >= 0 && nc_dim_is_const(v->type->dims[axis], &C) ? C : 0;
}

static nc_value *packed_of(layouts *l, nc_value *v, int rank, const nc_blocking *k) {
    nc_value *p = nc_map_get_bytes(&l->packed, &v->id, sizeof v->id);
    if (p && p->type->rank == rank + 1) return p;
    nc_attr attr[] = {{.name = "block", .kind = NC_A_INT, .i = nc_block_of(k, channels_of(v, rank))},
                      {.name = "last", .kind = NC_A_INT, .i = 1}};
    bool turned = turns(v->def, true);
    p = becomes_const(v)
            ? pack_const(l, v, rank, k)
            : nc_build_attr1(&l->b, "nacre", "PackChannels", turned ? v->def->in : &v, 1, attr, 1 + turned);
    if (!p || !nc_map_put_bytes(&l->packed, &v->id, sizeof v->id, p)) return NULL;
    return p;
}

/* What n gives, in plain layout, out of y in blocks. */
static nc_value *unpacked(layouts *l, nc_value *y, const site *s) {
    int64_t axes[NC_MAX_RANK];
    int count = 0;
    nc_value *plain = nc_build_attr1(&l->b, "nacre", "UnpackChannels", &y, 1, NULL, 0);
    bool kept = plain && nc_map_put_bytes(&l->packed, &plain->id, sizeof plain->id, y);
    if (!kept || !s->k.dropped) return kept ? plain : NULL;
    for (int i = 0; i < plain->type->rank; i++)
        if (s->k.dropped & nc_axes_of(i)) axes[count++] = i;
    return nc_build1(&l->b, "Squeeze", 2, plain, nc_build_ints(&l->b, axes, count));
}

static nc_code rewrite(layouts *l, const site *s) {
    nc_node *n = s->node;
    nc_value *in[MAX_IN] = {NULL};
    int rank = n->out[0]->type->rank + __builtin_popcountll(s->k.dropped);
    nc_builder *b = &l->b;
    b->before = n, b->stage = n->stage, b->place = n->place;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (takes_blocked(s, i)) in[i] = packed_of(l, n->in[i], rank, &s->k);
        if (n->in[i] && !in[i]) return b->code ? b->code : nc_fail(l->w, NC_E_MEMORY, "out of memory");
    }
    nc_value *y = n->card->blocked ? n->card->blocked(b, n, &s->k, in)
                                   : nc_build_card1(b, n->card, in, n->n_in, n->attrs, n->n_attrs);
    if (!y) return b->code;
    NC_TRY(tag(l, y, nc_block_of(&s->k, channels_of(n->out[0], n->out[0]->type->rank)), n->out[0]->type->dims[1]));
    nc_value *plain = unpacked(l, y, s);
    if (!plain) return b->code ? b->code : nc_fail(l->w, NC_E_MEMORY, "out of memory");
    y->def->name = n->name;
    nc_edit_replace(n->out[0], plain);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]) nc_edit_replace(n->out[i], y->def->out[i]);
    nc_edit_remove(n);
    return NC_OK;
}

/* A Transpose to channels last of what comes out of blocks becomes one step with that. */
static nc_code turn_unpacked(layouts *l, nc_node *n) {
    const nc_node *from = n->in[0] ? n->in[0]->def : NULL;
    if (!from || !(from->card->traits & NC_UNBLOCKS) || from->place != n->place || !turns(n, false)) return NC_OK;
    nc_attr last = {.name = "last", .kind = NC_A_INT, .i = 1};
    l->b.before = n, l->b.stage = n->stage, l->b.place = n->place;
    nc_value *y = nc_build_attr1(&l->b, "nacre", "UnpackChannels", from->in, 1, &last, 1);
    if (!y) return l->b.code;
    nc_edit_replace(n->out[0], y);
    return NC_OK;
}

static void drop_unused(nc_graph *g) {
    for (nc_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        bool converts = (n->card->traits & NC_UNBLOCKS) || n->card->permutes;
        if (converts && !n->out[0]->uses.n && !n->out[0]->n_outputs && !n->out[0]->var) nc_edit_remove(n);
    }
}

/* of: by node id; one array serves all graphs. */
static nc_code layout_graph(nc_work *w, nc_graph *g, site **of, const nc_plan_options *o) {
    layouts l = {.w = w, .g = g, .of = of, .b = {.w = w, .graph = g, .infer = nc_infer_node}};
    nc_map_init(&l.packed, &w->scratch);
    NC_TRY(choose(&l, o));
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(layout_graph(w, n->subs[i].graph, of, o));
        const site *s = l.of[n->id];
        if (s && s->blocked) NC_TRY(rewrite(&l, s));
        if (!s) NC_TRY(turn_unpacked(&l, n));
    }
    drop_unused(g);
    return NC_OK;
}

nc_code nc_lower_layout(nc_work *w, nc_model *m, const nc_plan_options *o) {
    if (o->no_layout) return NC_OK;
    site **of = nc_arena_array(&w->scratch, (size_t)m->next_id, sizeof *of);
    NC_NEED(w, of);
    memset(of, 0, (size_t)m->next_id * sizeof *of);
    return layout_graph(w, m->main, of, o);
}
