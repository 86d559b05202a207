/* ops/lane.c: what cards of element formulas have in common besides gradients and kernels: inference of the output
 * and the reading of parameters. Gradients are in lane_grad.c, the kernel in lane_cpu.c. */
#include "ops/lane.h"

#include "kernels/cpu/tile.h"

extern const nc_card nc_card_cast;

static nc_dtype out_elem(nc_infer *c) {
    const nc_param *p = &c->node->version->out[0];
    const nc_type *named = p->name != NULL && p->types == 0 ? nc_in(c, p->same) : NULL;
    if (named != NULL) return named->elem;
    if (p->name != NULL && p->types != 0 && (p->types & (p->types - 1)) == 0)
        return (nc_dtype)__builtin_ctzll(p->types);
    const nc_type *first = nc_in(c, 0);
    return first != NULL ? first->elem : NC_UNDEFINED;
}

static bool is_one(const nc_type *t) {
    int64_t d;
    for (int i = 0; i < t->rank; i++)
        if (!nc_dim_is_const(t->dims[i], &d) || d != 1) return false;
    return true;
}

/* Inputs that are laid out alike, blocks included, give such an output; one number for all fits any layout. */
static nc_code keep_layout(nc_infer *c) {
    const nc_type *first = NULL;
    for (int i = 0; i < c->node->n_in && first == NULL; i++)
        if (nc_in(c, i) != NULL && nc_in(c, i)->layout.block != 0) first = nc_in(c, i);
    if (first == NULL) return NC_OK;
    for (int i = 0; i < c->node->n_in; i++) {
        const nc_type *t = nc_in(c, i);
        if (t != NULL && t->layout.block == 0 && is_one(t)) continue;
        if (t == NULL || t->layout.block != first->layout.block || t->layout.axis != first->layout.axis ||
            t->layout.logical != first->layout.logical)
            NC_FAIL(c->w, NC_E_BAD_GRAPH, "input %d is laid out differently", i);
    }
    return nc_out_layout(c, 0, first->layout);
}

static int rank_of(const nc_value *v) {
    return v != NULL && v->type != NULL && v->type->kind == NC_T_TENSOR ? v->type->rank : -1;
}

int nc_lane_trailing(const nc_node *n) {
    if (n->n_in != 2 || n->version->since >= 7) return 0;
    const nc_attr *axis = nc_node_attr(n, "axis"), *on = nc_node_attr(n, "broadcast");
    bool prelu = n->card->lane == NCK_LANE_prelu + 1;
    if (!prelu && (axis == NULL || on == NULL || on->i == 0)) return 0;
    int ra = rank_of(n->in[0]), rb = rank_of(n->in[1]);
    if (ra < 0 || rb < 0) return -1;
    int64_t shared;
    if (prelu && rb == 1 && nc_dim_is_const(n->in[1]->type->dims[0], &shared) && shared == 1) return 0;
    if (prelu) return rb == 1 && ra > 2 ? ra - 2 : 0;
    int64_t at = axis->i < 0 ? axis->i + ra : axis->i;
    return at >= 0 && at + rb <= ra ? (int)(ra - rb - at) : -1;
}

static bool is_f32_or_half(const nc_value *v) {
    return v != NULL && v->type != NULL && v->type->kind == NC_T_TENSOR && nck_tile_compute(v->type->elem) == NC_FLOAT;
}

bool nc_lane_casts(const nc_node *n) {
    return n->card == &nc_card_cast && n->n_out == 1 && is_f32_or_half(n->in[0]) && is_f32_or_half(n->out[0]);
}

int nc_lane_number(const nc_node *n) { return nc_lane_casts(n) ? NCK_LANE_identity : n->card->lane - 1; }

/* Input 1 within the dims of input 0 from some axis on: the result has those of input 0. */
static nc_code infer_within(nc_infer *c, nc_dtype elem, int trailing) {
    const nc_type *a = nc_in(c, 0), *b = nc_in(c, 1);
    if (trailing < 0 || a == NULL || b == NULL || a->rank < 0 || b->rank < 0)
        NC_FAIL(c->w, NC_E_SHAPE, "broadcast along an axis needs known ranks and an axis where B fits into A");
    for (int i = 0; i < b->rank; i++) {
        int64_t x, y;
        int k = a->rank - trailing - b->rank + i;
        if (nc_dim_is_const(a->dims[k], &x) && nc_dim_is_const(b->dims[i], &y) && x != y && y != 1)
            NC_FAIL(c->w, NC_E_SHAPE, "B has %lld elements along A's axis %d of %lld", (long long)y, k, (long long)x);
    }
    return nc_out(c, 0, elem, a->rank, a->dims);
}

nc_code nc_lane_infer(nc_infer *c) {
    nc_dtype elem = out_elem(c);
    if (elem == NC_UNDEFINED) return NC_OK;
    int trailing = nc_lane_trailing(c->node);
    if (trailing != 0) return infer_within(c, elem, trailing);
    const nc_dim *dims[NC_MAX_RANK];
    int rank;
    NC_TRY(nc_broadcast_in(c, 0, c->node->n_in, dims, &rank));
    if (rank < 0) return nc_out_unknown(c, 0, elem, -1);
    NC_TRY(nc_out(c, 0, elem, rank, dims));
    return keep_layout(c);
}

void nc_lane_params(const nc_node *n, double params[2]) {
    for (int i = 0; i < 2; i++) params[i] = n->card->lane_params[i] ? nc_attr_float(n, n->card->lane_params[i]) : 0;
}

int nc_lane_forward_of(int grad_lane) {
    for (int i = 0; i < NCK_N_LANES; i++)
        if (nck_lane_get(i)->grad == grad_lane) return i;
    return -1;
}
