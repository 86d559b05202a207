/* ops/training/dims.c: sums, splits and joins whose arguments a training graph finds in the run: which axes a gradient
 * is summed over where broadcasting widened its operand (BroadcastGradientArgs), and ReduceSum, Split and Concat as
 * older opsets lack them. */
#include "ops/reduce/reduce_card.h"
#include "ops/training/dims.h"
#include "ops/training/training.h"

/* ---- BroadcastGradientArgs ---- */

bool nc_training_widened(const int64_t *a, int n_a, const int64_t *b, int n_b, int64_t *axes, int *n) {
    int rank = n_a > n_b ? n_a : n_b;
    *n = 0;
    for (int k = rank - 1; k >= 0; k--) {
        int i = k - (rank - n_a), j = k - (rank - n_b);
        int64_t x = i >= 0 ? a[i] : 1, y = j >= 0 ? b[j] : 1;
        if (x != y && x != 1 && y != 1) return false;
        if (i < 0 || (j >= 0 && x == 1 && y != 1)) axes[(*n)++] = k;
    }
    return true;
}

static const nc_dim *bound(nc_infer *c) {
    int64_t a = NC_MAX_RANK, b = NC_MAX_RANK;
    const nc_dim *na = nc_in_dim(c, 0, 0), *nb = nc_in_dim(c, 1, 0);
    if (na == NULL || !nc_dim_is_const(na, &a) || a > NC_MAX_RANK) a = NC_MAX_RANK;
    if (nb == NULL || !nc_dim_is_const(nb, &b) || b > NC_MAX_RANK) b = NC_MAX_RANK;
    return nc_dim_const(c->dims, a > b ? a : b);
}

static nc_code axes_out(nc_infer *c, int i, const int64_t *axes, int n) {
    const nc_dim *size = nc_dim_const(c->dims, n), *elems[NC_MAX_RANK];
    for (int k = 0; k < n; k++) NC_NEED(c->w, elems[k] = nc_dim_const(c->dims, axes[k]));
    NC_TRY(nc_out(c, i, NC_INT64, 1, &size));
    return nc_out_elems(c, i, n, elems);
}

/* Dims that are symbols are compared as such: what is the same symbol was not widened, what is 1 beside a symbol may
 * have been. */
static bool known_dims(nc_infer *c, int i, int64_t *v, int *n) {
    int count;
    const nc_dim *const *elems = nc_in_elems(c, i, &count);
    if (elems == NULL || count > NC_MAX_RANK) return false;
    for (int k = 0; k < count; k++)
        if (!nc_dim_is_const(elems[k], &v[k])) return false;
    *n = count;
    return true;
}

static nc_code args_infer(nc_infer *c) {
    int64_t dims[2][NC_MAX_RANK], axes[NC_MAX_RANK];
    int n[2], n_axes;
    for (int i = 0; i < 2; i++) NC_TRY(nc_contrib_rank(c, i, 1));
    bool known = known_dims(c, 0, dims[0], &n[0]) && known_dims(c, 1, dims[1], &n[1]);
    for (int i = 0; i < c->node->n_out && i < 2; i++) {
        if (known) {
            if (!nc_training_widened(dims[i], n[i], dims[!i], n[!i], axes, &n_axes))
                NC_FAIL(c->w, NC_E_SHAPE, "the shapes do not broadcast");
            NC_TRY(axes_out(c, i, axes, n_axes));
            continue;
        }
        const nc_dim *size = nc_fresh(c, i == 0 ? "a" : "b"), *most = bound(c);
        NC_NEED(c->w, size);
        NC_NEED(c->w, most);
        nc_dim_set_bound(c->dims, size, most);
        NC_TRY(nc_out(c, i, NC_INT64, 1, &size));
    }
    return NC_OK;
}

/* ---- ReduceSumTraining ---- */

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_build_attr1(b, "", "ReduceSum", n->in, n->n_in, n->attrs, n->n_attrs);
    return b->code;
}

/* ---- SplitTraining ---- */

static nc_code split_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int n = 0, axis;
    if (x == NULL) return NC_OK;
    const nc_dim *const *sizes = nc_in_elems(c, 1, &n);
    if (sizes != NULL && n != c->node->n_out)
        NC_FAIL(c->w, NC_E_SHAPE, "split has %d sizes, the node %d outputs", n, c->node->n_out);
    for (int k = 0; x->rank < 0 && k < c->node->n_out; k++) NC_TRY(nc_out_unknown(c, k, x->elem, -1));
    if (x->rank < 0) return NC_OK;
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    for (int k = 0; k < c->node->n_out; k++) {
        dims[axis] = sizes != NULL ? sizes[k] : nc_fresh(c, "n");
        NC_NEED(c->w, dims[axis]);
        if (sizes == NULL) nc_dim_set_bound(c->dims, dims[axis], x->dims[axis]);
        NC_TRY(nc_out(c, k, x->elem, x->rank, dims));
    }
    return NC_OK;
}

static nc_code split_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
    nc_node *made = nc_build(b, "", "Split", n->in, 2, n->n_out, &axis, 1);
    for (int i = 0; made != NULL && i < n->n_out; i++) out[i] = made->out[i];
    return b->code;
}

/* ---- ConcatTraining ---- */

static nc_code concat_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK], *count = nc_dim_const(c->dims, c->node->n_in);
    int axis;
    NC_TRY(nc_out(c, 1, NC_INT64, 1, &count));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    for (int i = 1; i < c->node->n_in; i++) {
        const nc_type *y = nc_in(c, i);
        if (y == NULL || y->rank < 0) return nc_out_unknown(c, 0, x->elem, x->rank);
        if (y->rank != x->rank) NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, input 0 %d", i, y->rank, x->rank);
        for (int k = 0; k < x->rank; k++)
            if (k != axis) NC_TRY(nc_in_expect(c, i, k, x->dims[k]));
        dims[axis] = nc_dim_add(c->dims, dims[axis], y->dims[axis]);
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static nc_code concat_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")}, first = {.name = "axis"};
    out[0] = nc_build_attr1(b, "", "Concat", n->in, n->n_in, &axis, 1);
    if (!nc_contrib_wants(n, 1) || b->code != NC_OK) return b->code;
    if (n->in[0]->type == NULL || n->in[0]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    int at = (int)(axis.i < 0 ? axis.i + n->in[0]->type->rank : axis.i);
    nc_value **sizes = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof(nc_value *));
    NC_NEED(b->w, sizes);
    for (int i = 0; i < n->n_in; i++) sizes[i] = nc_contrib_size(b, n->in[i], at);
    first.kind = NC_A_INT;
    out[1] = nc_build_attr1(b, "", "Concat", sizes, n->n_in, &first, 1);
    return b->code;
}

/* ---- cards ---- */

static const nc_op_version args_versions[] = {{.since = 1,
                                               IN({"a_shape", T_I64}, {"b_shape", SAME(0)}),
                                               OUT({"a_axes", SAME(0), OPTIONAL}, {"b_axes", SAME(0), OPTIONAL}),
                                               NO_ATTR},
                                              {0}};
static const nc_op_version sum_versions[] = {{.since = 1,
                                              IN({"data", T_BIG_NUMBER_ALL}, {"axes", T_I64}),
                                              OUT({"reduced", SAME(0)}),
                                              ATTR(KEEP, A_INT("noop_with_empty_axes", 0))},
                                             {0}};
static const nc_op_version split_versions[] = {{.since = 1,
                                                IN({"input", T_TENSOR_ALL}, {"split", T_I64}),
                                                OUT({"outputs", SAME(0), VARIADIC}),
                                                ATTR(A_INT("axis", 0))},
                                               {0}};
static const nc_op_version concat_versions[] = {{.since = 1,
                                                 IN({"inputs", T_TENSOR_ALL, VARIADIC}),
                                                 OUT({"concat_result", SAME(0)}, {"per_input_length", T_I64, OPTIONAL}),
                                                 ATTR(A_INT_REQ("axis"))},
                                                {0}};

NC_TRAINING_CARD(broadcast_gradient_args, "BroadcastGradientArgs",
                 "The axes along which two shapes are widened to the one they broadcast to.", args_versions,
                 .infer = args_infer, .host_in = 3, .zero_grad = true);
NC_TRAINING_CARD(reduce_sum, "ReduceSumTraining", "The sum along axes, which are an input.", sum_versions,
                 .infer = nc_reduce_infer, .host_in = 2, .no_grad_in = 2, .decompose = sum_decompose);
NC_TRAINING_CARD(split, "SplitTraining", "Parts along an axis, their sizes an input.", split_versions,
                 .infer = split_infer, .host_in = 2, .no_grad_in = 2, .decompose = split_decompose);
NC_TRAINING_CARD(concat, "ConcatTraining", "The inputs behind each other along an axis, and their lengths.",
                 concat_versions, .infer = concat_infer, .decompose = concat_decompose);
