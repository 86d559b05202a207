/* plan/lower_channels.c: brings the moves between rows of channels and images next to what works on images, so that the
 * channel-blocked layout (lower_layout.c) begins and ends at a Transpose that it can do in the same pass.
 *
 * Networks with rows [N, L, C] and images [N, C, H, W] move between them by a Transpose and a Reshape. Four rewrites,
 * each only beside a node that gains by the layout, the second also of a y that a Transpose made of channels last, as
 * convolutions of codes give them: then all of it is a Reshape:
 *   Reshape [N,C,H,W] (Transpose [0,2,1] (x))  becomes  Transpose [0,3,1,2] (Reshape [N,H,W,C] (x))
 *   Transpose [0,2,1] (Reshape [N,C,L] (y))    becomes  Reshape [N,L,C] (Transpose [0,2,3,1] (y))
 *   Gelu (moves (y))                           becomes  moves (Gelu (y)), any formula of one tensor
 *   Split over channels (y)                    becomes  a Slice for each part, where parts are whole blocks
 * The Reshape then works on what is dense, a view, the formula becomes the epilogue of the node that made y, and slices
 * are cut out of what is in blocks, which has one such output a node. */
#include "infer/infer.h"
#include "ops/build.h"
#include "plan/plan.h"

enum { MAX_MOVES = 4, MAX_LANES = 4 };

typedef struct channels {
    nc_work *w;
    nc_graph *g;
    const nc_plan_options *o;
} channels;

static bool gains(const channels *c, const nc_node *n) {
    nc_blocking k = {0};
    return n && nc_layout_can_block(n, &k, c->o) && k.gain > 0;
}

static const nc_value *made_input(const nc_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->def) return n->in[i];
    return NULL;
}

/* Does v come from a node that gains, by formulas of elements alone? */
static bool comes_blocked(const channels *c, const nc_value *v) {
    for (int i = 0; v && v->def && i < MAX_LANES; i++) {
        if (gains(c, v->def)) return true;
        if (!v->def->card->lane) return false;
        v = made_input(v->def);
    }
    return false;
}

static bool goes_blocked(const channels *c, const nc_value *v) {
    nc_blocking k = {0};
    for (int i = 0; i < v->uses.n; i++)
        if (nc_layout_can_block(v->uses.v[i].node, &k, c->o) && (k.in >> v->uses.v[i].i & 1)) return true;
    return false;
}

static bool is_reshape(const nc_node *n) {
    return n && (n->card->traits & (NC_VIEW_DENSE | NC_VIEW_STRIDED)) == NC_VIEW_DENSE && n->n_out == 1 &&
           !n->recompute && !n->out[0]->var;
}

/* A Transpose of the last two of three axes. */
static bool swaps_rows(const nc_node *n) {
    int64_t perm[3];
    const nc_type *x = n && n->card->permutes && n->in[0] ? n->in[0]->type : NULL;
    if (!x || x->rank != 3 || n->recompute || n->out[0]->var) return false;
    return n->card->permutes(n, 3, perm) && perm[0] == 0 && perm[1] == 2;
}

/* A Transpose that brings channels, the last axis, in front of the others. */
static bool brings_front(const nc_node *n, int rank) {
    int64_t perm[NC_MAX_RANK];
    if (!n || !n->card->permutes || !n->in[0] || n->recompute || !n->card->permutes(n, rank, perm)) return false;
    for (int i = 1; i < rank; i++)
        if (perm[i] != (i == 1 ? rank - 1 : i - 1)) return false;
    return perm[0] == 0;
}

/* x [N, L, C] and y [N, C, H, W...] have the same N and C, and all sizes but N are numbers: so L is H * W. */
static bool are_rows_of(const nc_type *x, const nc_type *y) {
    int64_t d;
    if (!x || !y || x->rank != 3 || y->rank < 4 || x->dims[0] != y->dims[0] || x->dims[2] != y->dims[1]) return false;
    for (int i = 1; i < y->rank; i++)
        if (!nc_dim_is_const(y->dims[i], &d) || d < 1) return false;
    return nc_dim_is_const(x->dims[1], &d);
}

static nc_builder builder(const channels *c, nc_node *before) {
    return (nc_builder){.w = c->w,
                        .graph = c->g,
                        .before = before,
                        .stage = before->stage,
                        .place = before->place,
                        .infer = nc_infer_node};
}

/* x with the given dims behind its first. */
static nc_value *reshaped(nc_builder *b, nc_value *x, const nc_dim *const *dims, int n) {
    int64_t shape[NC_MAX_RANK] = {0};
    for (int i = 0; i < n; i++)
        if (!nc_dim_is_const(dims[i], &shape[i + 1])) return NULL;
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, shape, n + 1));
}

static nc_code put(const channels *c, const nc_builder *b, nc_node *n, nc_value *y) {
    if (!y) return b->code ? b->code : nc_fail(c->w, NC_E_MEMORY, "out of memory");
    y->type = n->out[0]->type;
    nc_edit_replace(n->out[0], y);
    return NC_OK;
}

/* The first of the three. */
static nc_code rows_to_image(const channels *c, nc_node *n) {
    nc_node *t = n->in[0] ? n->in[0]->def : NULL;
    if (!is_reshape(n) || !swaps_rows(t) || t->place != n->place) return NC_OK;
    const nc_type *y = n->out[0]->type;
    if (!are_rows_of(t->in[0]->type, y) || !goes_blocked(c, n->out[0])) return NC_OK;
    nc_builder b = builder(c, n);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t perm[NC_MAX_RANK] = {0, y->rank - 1};
    for (int i = 2; i < y->rank; i++) dims[i - 2] = y->dims[i], perm[i] = i - 1;
    dims[y->rank - 2] = y->dims[1];
    nc_value *image = reshaped(&b, t->in[0], dims, y->rank - 1);
    return put(c, &b, n, image ? nc_build_transpose(&b, image, perm, y->rank) : NULL);
}

/* The second. */
static nc_code image_to_rows(const channels *c, nc_node *n) {
    nc_node *r = n->in[0] ? n->in[0]->def : NULL;
    if (!swaps_rows(n) || !is_reshape(r) || r->place != n->place || !r->in[0]) return NC_OK;
    const nc_type *x = r->in[0]->type, *y = n->out[0]->type;
    bool front = x && brings_front(r->in[0]->def, x->rank);
    if (!are_rows_of(y, x) || (!front && !comes_blocked(c, r->in[0]))) return NC_OK;
    nc_builder b = builder(c, n);
    if (front) return put(c, &b, n, reshaped(&b, r->in[0]->def->in[0], y->dims + 1, 2));
    int64_t perm[NC_MAX_RANK] = {0};
    for (int i = 1; i < x->rank; i++) perm[i] = i == x->rank - 1 ? 1 : i + 1;
    nc_value *last = nc_build_transpose(&b, r->in[0], perm, x->rank);
    return put(c, &b, n, last ? reshaped(&b, last, y->dims + 1, 2) : NULL);
}

static bool is_number(const nc_value *v) { return v && v->origin == NC_FROM_CONST && v->lit && v->lit->n == 1; }

/* Which input of n is its only tensor, where n is a formula of one tensor and of numbers; -1: it is not. */
static int only_tensor(const nc_node *n) {
    int at = -1;
    if (!n->card->lane || n->n_out != 1 || n->recompute || n->out[0]->var) return -1;
    for (int i = 0; i < n->n_in; i++) {
        if (is_number(n->in[i]) && n->in[i]->type->rank == 0) continue;
        if (at >= 0 || !n->in[i]) return -1;
        at = i;
    }
    return at >= 0 && nc_type_equal(n->in[at]->type, n->out[0]->type) ? at : -1;
}

/* The third. */
static void formula_first(const channels *c, nc_node *n) {
    int at = only_tensor(n), moves = 0;
    nc_value *v = at >= 0 ? n->in[at] : NULL;
    nc_node *first = NULL, *last = v ? v->def : NULL;
    for (; v && moves < MAX_MOVES; moves++) {
        nc_node *m = v->def;
        if (!m || (!is_reshape(m) && !m->card->permutes) || m->recompute || m->place != n->place) break;
        if (v->uses.n != 1 || v->n_outputs || v->var) return;
        first = m;
        v = m->in[0];
    }
    if (!first || v->uses.n != 1 || v->n_outputs || !comes_blocked(c, v)) return;
    nc_edit_replace(n->out[0], last->out[0]);
    nc_edit_set_in(n, at, v);
    nc_edit_set_in(first, 0, n->out[0]);
    n->out[0]->type = v->type;
    nc_edit_move_before(n, first);
}

static nc_value *slice_of(nc_builder *b, nc_value *x, int64_t from, int64_t size) {
    int64_t to = from + size, axis = 1;
    return nc_build1(b, "Slice", 4, x, nc_build_ints(b, &from, 1), nc_build_ints(b, &to, 1),
                     nc_build_ints(b, &axis, 1));
}

/* Are its outputs views whose channels, in whole blocks, make up those of the input? */
static bool splits_channels(const nc_node *n, const nc_blocking *k) {
    const nc_type *x = n->in[0] ? n->in[0]->type : NULL;
    int64_t C, size, sum = 0;
    if (!(n->card->traits & NC_VIEW_STRIDED) || n->n_out < 2 || n->recompute || !x || x->rank < 3) return false;
    if (k->block <= 0 || !(k->types & NC_BIT(x->elem)) || !nc_dim_is_const(x->dims[1], &C)) return false;
    for (int i = 0; i < n->n_out; i++) {
        const nc_type *y = n->out[i] ? n->out[i]->type : NULL;
        if (!y || n->out[i]->var || y->rank != x->rank || !nc_dim_is_const(y->dims[1], &size) || size == 0)
            return false;
        if (size % k->block != 0 && i + 1 < n->n_out) return false;
        for (int d = 0; d < x->rank; d++)
            if (d != 1 && y->dims[d] != x->dims[d]) return false;
        sum += size;
    }
    return sum == C;
}

/* The fourth. */
static nc_code split_to_slices(const channels *c, nc_node *n) {
    nc_blocking k = nc_channel_blocking(nc_kernels_at(c->o, n->place));
    if (!splits_channels(n, &k) || !comes_blocked(c, n->in[0])) return NC_OK;
    nc_builder b = builder(c, n);
    int64_t from = 0, size = 0;
    for (int i = 0; i < n->n_out; i++, from += size) {
        (void)nc_dim_is_const(n->out[i]->type->dims[1], &size);
        nc_value *y = slice_of(&b, n->in[0], from, size);
        if (!y) return b.code ? b.code : nc_fail(c->w, NC_E_MEMORY, "out of memory");
        y->type = n->out[i]->type;
        nc_edit_replace(n->out[i], y);
    }
    nc_edit_remove(n);
    return NC_OK;
}

static void drop_moves(nc_graph *g) {
    for (nc_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        bool moves = is_reshape(n) || n->card->permutes;
        if (moves && !n->out[0]->uses.n && !n->out[0]->n_outputs && !n->out[0]->var) nc_edit_remove(n);
    }
}

static nc_code channels_of(nc_work *w, nc_graph *g, const nc_plan_options *o) {
    channels c = {.w = w, .g = g, .o = o};
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        w->at_node = n->name, w->at_op = n->card->name;
        for (int i = 0; (n->card->traits & NC_CONTROL) && i < n->n_subs; i++)
            NC_TRY(channels_of(w, n->subs[i].graph, o));
        formula_first(&c, n);
    }
    for (nc_node *n = g->first, *next; n; n = next) {
        next = n->next;
        NC_TRY(rows_to_image(&c, n));
        NC_TRY(image_to_rows(&c, n));
        NC_TRY(split_to_slices(&c, n));
    }
    drop_moves(g);
    return NC_OK;
}

nc_code nc_lower_channels(nc_work *w, nc_model *m, const nc_plan_options *o) {
    return o->no_layout ? NC_OK : channels_of(w, m->main, o);
}
