/* ops/shape/transpose.c: cards of Transpose and Expand: views with other strides. */
#include "ops/shape/shape.h"

/* The permutation of a node for a rank: attribute, or the axes reversed. */
static nc_code read_perm(nc_work *w, const nc_node *node, int rank, int64_t *perm) {
    int n;
    const int64_t *attr = nc_attr_ints(node, "perm", &n);
    bool seen[NC_MAX_RANK] = {false};
    if (attr != NULL && n != rank) NC_FAIL(w, NC_E_SHAPE, "perm has %d axes, the input %d dims", n, rank);
    for (int k = 0; k < rank; k++) {
        perm[k] = attr != NULL ? attr[k] : rank - 1 - k;
        if (perm[k] < 0 || perm[k] >= rank || seen[perm[k]])
            NC_FAIL(w, NC_E_SHAPE, "perm is not an order of the axes 0 to %d: perm[%d] is %lld", rank - 1, k,
                    (long long)perm[k]);
        seen[perm[k]] = true;
    }
    return NC_OK;
}

static nc_code transpose_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    int n;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, nc_attr_ints(c->node, "perm", &n) != NULL ? n : -1);
    int64_t perm[NC_MAX_RANK];
    const nc_dim *dims[NC_MAX_RANK];
    NC_TRY(read_perm(c->w, c->node, x->rank, perm));
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[perm[k]];
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code transpose_fold(nc_infer *c) {
    int rank;
    int64_t dims[NC_MAX_RANK], perm[NC_MAX_RANK], counts[NC_MAX_RANK], steps[NC_MAX_RANK];
    if (!nc_shape_known(c, dims, &rank)) return NC_OK;
    NC_TRY(read_perm(c->w, c->node, rank, perm));
    for (int k = 0; k < rank; k++) {
        counts[k] = dims[perm[k]], steps[k] = 1;
        for (int64_t i = perm[k] + 1; i < rank; i++) steps[k] *= dims[i];
    }
    return nc_shape_fold_steps(c, rank, counts, 0, steps);
}

/* Where the rank is not known, perm tells it; without one all axes change places, and do so again. */
static nc_code transpose_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_type *x = g->node->in[0]->type;
    int64_t perm[NC_MAX_RANK], back[NC_MAX_RANK] = {0};
    int rank;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    bool told = nc_attr_ints(g->node, "perm", &rank) != NULL;
    if (x != NULL && x->rank >= 0) rank = x->rank, told = true;
    if (!told) {
        nc_grad_set(g, 0, nc_build1(g->b, "Transpose", 1, dy));
        return nc_grad_end(g);
    }
    NC_TRY(read_perm(g->b->w, g->node, rank, perm));
    for (int k = 0; k < rank; k++) back[perm[k]] = k;
    nc_grad_set(g, 0, nc_build_transpose(g->b, dy, back, rank));
    return nc_grad_end(g);
}

static bool transpose_is_identity(const nc_node *n) {
    int n_perm;
    const int64_t *perm = nc_attr_ints(n, "perm", &n_perm);
    const nc_type *x = n->in[0]->type;
    if (x == NULL || x->rank < 0) return false;
    if (perm == NULL) return x->rank <= 1;
    for (int k = 0; k < n_perm; k++)
        if (perm[k] != k) return false;
    return n_perm == x->rank;
}

static bool transpose_permutes(const nc_node *n, int rank, int64_t *perm) {
    int n_perm;
    const int64_t *attr = nc_attr_ints(n, "perm", &n_perm);
    for (int k = 0; k < rank; k++) perm[k] = attr != NULL && n_perm == rank ? attr[k] : rank - 1 - k;
    return attr == NULL || n_perm == rank;
}

#define TRANSPOSE(types) IN({"data", types}), OUT({"transposed", SAME(0)}), ATTR(A_INTS_OPT("perm"))
static const nc_op_version transpose_versions[] = {{.since = 25, TRANSPOSE(T_TENSOR_ALL | T_NARROW_25)},
                                                   {.since = 24, TRANSPOSE(T_TENSOR_ALL | T_NARROW_24)},
                                                   {.since = 23, TRANSPOSE(T_TENSOR_ALL | T_NARROW_23)},
                                                   {.since = 21, TRANSPOSE(T_TENSOR_ALL | T_NARROW_21)},
                                                   {.since = 13, TRANSPOSE(T_TENSOR_ALL)},
                                                   {.since = 1, TRANSPOSE(T_TENSOR)},
                                                   {0}};

const nc_card nc_card_transpose = {.name = "Transpose",
                                   .doc = "The axes in another order.",
                                   .versions = transpose_versions,
                                   .traits = NC_VIEW_STRIDED,
                                   .infer = transpose_infer,
                                   .fold = transpose_fold,
                                   .grad = transpose_grad,
                                   .is_identity = transpose_is_identity,
                                   .permutes = transpose_permutes};

/* ---- Expand ---- */

static nc_code expand_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int n, rank;
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    const nc_dim *const *shape = nc_in_elems(c, 1, &n);
    if (shape == NULL || x->rank < 0) {
        n = shape != NULL ? n : nc_shape_count(c, 1);
        return nc_out_unknown(c, 0, x->elem, x->rank < 0 || n < 0 ? -1 : n > x->rank ? n : x->rank);
    }
    /* The shape takes part as if it were the shape of a second input. */
    nc_infer both = *c;
    nc_infer_val in[2] = {c->in[0], {.present = true}};
    in[1].type = nc_type_tensor(c->arena, x->elem, n, shape);
    NC_NEED(c->w, in[1].type);
    both.in = in;
    NC_TRY(nc_broadcast_in(&both, 0, 2, dims, &rank));
    return nc_out(c, 0, x->elem, rank, dims);
}

static nc_code expand_fold(nc_infer *c) {
    int n, rank;
    int64_t count;
    const nc_dim *all[NC_MAX_ELEMS];
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    const nc_type *y = c->out[0].type;
    if (elems == NULL || y == NULL || !nc_in_rank(c, 0, &rank)) return NC_OK;
    if (y->rank > 1 || (y->rank == 1 && !nc_dim_is_const(y->dims[0], &count))) return NC_OK;
    if (y->rank == 0) count = 1;
    if (count > NC_MAX_ELEMS || (n != 1 && n != count)) return NC_OK;
    for (int k = 0; k < count; k++) all[k] = elems[n == 1 ? 0 : k];
    return nc_out_elems(c, 0, (int)count, all);
}

static nc_code expand_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy != NULL && g->wants[0]) nc_grad_set(g, 0, nc_grad_sum_to(g, dy, 0));
    return nc_grad_end(g);
}

#define EXPAND(types) IN({"input", types}, {"shape", T_I64}), OUT({"output", SAME(0)}), NO_ATTR
static const nc_op_version expand_versions[] = {
    {.since = 13, EXPAND(T_TENSOR_ALL)}, {.since = 8, EXPAND(T_TENSOR)}, {0}};

const nc_card nc_card_expand = {.name = "Expand",
                                .doc = "Broadcast to a shape, both ways.",
                                .versions = expand_versions,
                                .traits = NC_VIEW_STRIDED,
                                .host_in = 1u << 1,
                                .no_grad_in = 1u << 1,
                                .infer = expand_infer,
                                .fold = expand_fold,
                                .grad = expand_grad,
                                .is_identity = nc_shape_same_type};
