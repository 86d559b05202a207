/* ops/shape/concat.c: the card of Concat. Output 0 may grow out of input 0 in place: a cache that gets longer. */
#include "ops/shape/shape.h"

#include "ops/blocked.h"

/* Version 1 counts from axis 1 when it says none. */
static int64_t axis_of(const nc_node *n) { return nc_attr_has(n, "axis") ? nc_attr_int(n, "axis") : 1; }

/* Dims beside the axis must agree; the one that says most is kept. */
static nc_code agree(nc_infer *c, int i, int k, const nc_dim *d, const nc_dim **into) {
    int64_t a, b;
    bool fixed = nc_dim_is_const(*into, &a), also = nc_dim_is_const(d, &b);
    if (fixed && also && a != b)
        NC_FAIL(c->w, NC_E_SHAPE, "dim %d of input %d is %lld, of the inputs before %lld", k, i, (long long)b,
                (long long)a);
    if (also) *into = d;
    return NC_OK;
}

static nc_code concat_infer(nc_infer *c) {
    int rank = -1, axis = 0, r;
    const nc_dim *dims[NC_MAX_RANK], *sum = nc_dim_const(c->dims, 0);
    nc_dtype elem = NC_UNDEFINED;
    bool open = false;
    for (int i = 0; i < c->node->n_in; i++) {
        const nc_type *x = nc_in(c, i);
        if (x != NULL && elem == NC_UNDEFINED) elem = x->elem;
        if (!nc_in_rank(c, i, &r)) {
            open = true;
            continue;
        }
        if (rank >= 0 && r != rank) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, the inputs before %d", i, r, rank);
        for (int k = 0; k < r; k++) {
            if (rank < 0) dims[k] = x->dims[k];
        }
        if (rank < 0) NC_TRY(nc_axis(c, axis_of(c->node), r, &axis));
        rank = r;
        for (int k = 0; k < r; k++)
            if (k != axis) NC_TRY(agree(c, i, k, x->dims[k], &dims[k]));
        sum = nc_dim_add(c->dims, sum, x->dims[axis]);
    }
    if (elem == NC_UNDEFINED) return NC_OK;
    if (rank < 0) return nc_out_unknown(c, 0, elem, -1);
    dims[axis] = open ? nc_fresh(c, "n") : sum;
    return nc_out(c, 0, elem, rank, dims);
}

static nc_code concat_fold(nc_infer *c) {
    const nc_dim *all[NC_MAX_ELEMS];
    int n_all = 0, rank, n;
    for (int i = 0; i < c->node->n_in; i++) {
        const nc_dim *const *elems = nc_in_rank(c, i, &rank) && rank == 1 ? nc_in_elems(c, i, &n) : NULL;
        if (elems == NULL || n_all + n > NC_MAX_ELEMS) return NC_OK;
        for (int k = 0; k < n; k++) all[n_all++] = elems[k];
    }
    return nc_out_elems(c, 0, n_all, all);
}

/* The sizes of the inputs along the axis as one int64 value. */
static nc_value *input_sizes(nc_grad *g, int axis) {
    const nc_node *n = g->node;
    nc_value **one = nc_arena_array(&g->b->w->scratch, (size_t)n->n_in, sizeof *one);
    int64_t *sizes = nc_arena_array(&g->b->w->scratch, (size_t)n->n_in, sizeof *sizes);
    bool fixed = one != NULL && sizes != NULL;
    if (!fixed) {
        g->b->code = nc_fail(g->b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    for (int i = 0; fixed && i < n->n_in; i++) fixed = nc_dim_is_const(n->in[i]->type->dims[axis], &sizes[i]);
    if (fixed) return nc_build_ints(g->b, sizes, n->n_in);
    nc_attr range[2] = {{.name = "start", .kind = NC_A_INT, .i = axis},
                        {.name = "end", .kind = NC_A_INT, .i = axis + 1}};
    for (int i = 0; i < n->n_in; i++) {
        nc_value *x = nc_grad_like(g, i);
        one[i] = nc_build_attr1(g->b, "", "Shape", &x, 1, range, 2);
    }
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(g->b, "", "Concat", one, n->n_in, &first, 1);
}

static nc_code concat_grad(nc_grad *g) {
    const nc_node *n = g->node;
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->type == NULL || n->in[i]->type->rank < 0)
            NC_FAIL(g->b->w, NC_E_SHAPE, "the gradient needs known ranks");
    int rank = n->in[0]->type->rank;
    int64_t axis = axis_of(n);
    if (axis < 0) axis += rank;
    nc_value *in[2] = {dy, input_sizes(g, (int)axis)};
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    nc_node *parts = nc_build(g->b, "", "Split", in, 2, n->n_in, &attr, 1);
    for (int i = 0; parts != NULL && i < n->n_in; i++) nc_grad_set(g, i, parts->out[i]);
    return nc_grad_end(g);
}

/* Along the channels all inputs but the last must end with a block. */
static bool concat_blocks(const nc_node *n, nc_blocking *k) {
    int64_t C;
    if (n->n_in > 32) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!nc_blocks_input(n, i, k)) return false;
    int axis = nc_blocks_axis(n, axis_of(n));
    k->why = "an input ends within a block of channels";
    if (k->block == NC_BLOCK_ALL) return axis >= 0;
    for (int i = 0; axis == 1 && i + 1 < n->n_in; i++)
        if (!nc_dim_is_const(n->in[i]->type->dims[1], &C) || C % k->block != 0) return false;
    return axis >= 0;
}

static nc_value *concat_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_blocks_axis(n, axis_of(n))};
    if (axis.i == 1 && k->block == NC_BLOCK_ALL) axis.i = n->in[0]->type->rank;
    return nc_build_card1(b, n->card, in, n->n_in, &axis, 1);
}

static bool concat_is_identity(const nc_node *n) { return n->n_in == 1; }

#define CONCAT(types) IN({"inputs", types, VARIADIC}), OUT({"concat_result", SAME(0)})
static const nc_op_version concat_versions[] = {{.since = 13, CONCAT(T_TENSOR_ALL), ATTR(A_INT_REQ("axis"))},
                                                {.since = 11, CONCAT(T_TENSOR), ATTR(A_INT_REQ("axis"))},
                                                {.since = 4, CONCAT(T_TENSOR), ATTR(A_INT_REQ("axis"))},
                                                {.since = 1, CONCAT(T_FLOAT), ATTR(A_INT_OPT("axis"))},
                                                {0}};

const nc_card nc_card_concat = {.name = "Concat",
                                .doc = "Its inputs one behind the other along an axis.",
                                .versions = concat_versions,
                                .traits = NC_GROWS,
                                .infer = concat_infer,
                                .fold = concat_fold,
                                .grad = concat_grad,
                                .blocks = concat_blocks,
                                .blocked = concat_blocked,
                                .is_identity = concat_is_identity};
