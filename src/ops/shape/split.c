/* ops/shape/split.c: the card of Split. Sizes of the parts come from the attribute or input `split`, or are equal;
 * from version 18 on the last ones may be smaller. The parts are views. */
#include "ops/shape/shape.h"

#include <string.h>

/* Part k of n equal parts of d; the last ones are smaller, or empty, where d does not divide. */
static const nc_dim *uneven_part(nc_dims *t, const nc_dim *d, int k, int n) {
    const nc_dim *count = nc_dim_const(t, n), *even = nc_dim_floordiv(t, d, count);
    if (nc_dim_mul(t, even, count) == d) return even;
    const nc_dim *chunk = nc_dim_ceildiv(t, d, count);
    const nc_dim *rest = nc_dim_sub(t, d, nc_dim_mul(t, chunk, nc_dim_const(t, k)));
    return nc_dim_max(t, nc_dim_min(t, rest, chunk), nc_dim_const(t, 0));
}

static nc_code equal_part(nc_infer *c, const nc_dim *d, int k, const nc_dim **out) {
    int n = c->node->n_out;
    int64_t size;
    if (c->node->version->since >= 18) {
        *out = uneven_part(c->dims, d, k, n);
    } else {
        if (nc_dim_is_const(d, &size) && size % n != 0)
            NC_FAIL(c->w, NC_E_SHAPE, "a dim of %lld does not divide into %d equal parts", (long long)size, n);
        *out = nc_dim_floordiv(c->dims, d, nc_dim_const(c->dims, n));
    }
    NC_NEED(c->w, *out);
    return NC_OK;
}

static nc_code check_sum(nc_infer *c, const nc_dim *const *sizes, int n, const nc_dim *d) {
    int64_t total, size, sum = 0;
    if (n != c->node->n_out) NC_FAIL(c->w, NC_E_SHAPE, "split has %d sizes, the node %d outputs", n, c->node->n_out);
    for (int k = 0; k < n; k++) {
        if (!nc_dim_is_const(sizes[k], &size)) return NC_OK;
        if (size < 0 || !nc_add_i64(sum, size, &sum))
            NC_FAIL(c->w, NC_E_SHAPE, "size %d of split is %lld", k, (long long)size);
    }
    if (nc_dim_is_const(d, &total) && sum != total)
        NC_FAIL(c->w, NC_E_SHAPE, "the sizes of split sum to %lld, the dim is %lld", (long long)sum, (long long)total);
    return NC_OK;
}

static nc_code part_size(nc_infer *c, const nc_dim *const *sizes, const nc_dim *d, int k, const nc_dim **out) {
    if (sizes != NULL) {
        *out = sizes[k];
        return NC_OK;
    }
    if (c->node->n_in < 2 || !c->in[1].present) return equal_part(c, d, k, out);
    *out = nc_fresh(c, "n");
    NC_NEED(c->w, *out);
    nc_dim_set_bound(c->dims, *out, d);
    return NC_OK;
}

static nc_code split_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    const nc_dim *const *sizes = NULL;
    int n, axis;
    if (x == NULL) return NC_OK;
    if (c->node->version->since < 2 && c->node->n_in > 1)
        NC_FAIL(c->w, NC_E_UNSUPPORTED,
                "version 1 with sizes as an input of floats; write them as the attribute split");
    if (nc_attr_has(c->node, "num_outputs") && nc_attr_int(c->node, "num_outputs") != c->node->n_out)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_outputs is %lld, the node has %d",
                (long long)nc_attr_int(c->node, "num_outputs"), c->node->n_out);
    for (int k = 0; x->rank < 0 && k < c->node->n_out; k++) NC_TRY(nc_out_unknown(c, k, x->elem, -1));
    if (x->rank < 0) return NC_OK;
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_shape_elems(c, 1, "split", &sizes, &n));
    if (sizes != NULL) NC_TRY(check_sum(c, sizes, n, x->dims[axis]));
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    for (int k = 0; k < c->node->n_out; k++) {
        NC_TRY(part_size(c, sizes, x->dims[axis], k, &dims[axis]));
        NC_TRY(nc_out(c, k, x->elem, x->rank, dims));
    }
    return NC_OK;
}

static nc_code split_fold(nc_infer *c) {
    int n, rank, at = 0;
    int64_t size;
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    if (elems == NULL || !nc_in_rank(c, 0, &rank) || rank != 1) return NC_OK;
    for (int k = 0; k < c->node->n_out; k++, at += (int)size) {
        const nc_type *y = c->out[k].type;
        if (y == NULL || !nc_dim_is_const(y->dims[0], &size) || at + size > n) return NC_OK;
        NC_TRY(nc_out_elems(c, k, (int)size, &elems[at]));
    }
    return NC_OK;
}

/* Parts that nobody names have no value to be like: split once more. */
static nc_value **named_parts(nc_grad *g) {
    const nc_node *n = g->node;
    bool all = true;
    for (int k = 0; k < n->n_out; k++) all &= n->out[k] != NULL;
    if (all) return NULL;
    nc_value *in[2] = {nc_grad_x(g, 0), NULL};
    int n_in = 1, n_sizes;
    const int64_t *sizes = nc_attr_ints(n, "split", &n_sizes);
    if (sizes != NULL)
        in[n_in++] = nc_build_ints(g->b, sizes, n_sizes);
    else if (n->n_in > 1 && n->in[1] != NULL)
        in[n_in++] = nc_grad_x(g, 1);
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "num_outputs", .kind = NC_A_INT, .i = n->n_out}};
    nc_node *again = nc_build(g->b, "", "Split", in, n_in, n->n_out, attrs, n_in == 1 ? 2 : 1);
    return again != NULL ? again->out : NULL;
}

static nc_code split_grad(nc_grad *g) {
    const nc_node *n = g->node;
    bool any = false;
    for (int k = 0; k < n->n_out; k++) any |= nc_grad_dy(g, k) != NULL;
    if (!any || !g->wants[0]) return NC_OK;
    nc_value **in = nc_arena_array(&g->b->w->scratch, (size_t)n->n_out, sizeof *in), **parts = named_parts(g);
    NC_NEED(g->b->w, in);
    NC_TRY(g->b->code);
    for (int k = 0; k < n->n_out; k++) {
        in[k] = nc_grad_dy(g, k);
        if (in[k] == NULL) in[k] = nc_build_zeros_like(g->b, parts != NULL ? parts[k] : nc_grad_y(g, k));
    }
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "Concat", in, n->n_out, &axis, 1));
    return nc_grad_end(g);
}

static bool split_is_identity(const nc_node *n) { return n->n_out == 1 && nc_shape_same_type(n); }

#define SPLIT(types) IN({"input", types}, {"split", T_I64, OPTIONAL}), OUT({"outputs", SAME(0), VARIADIC})
#define SPLIT_ATTR(types) \
    IN({"input", types}), OUT({"outputs", SAME(0), VARIADIC}), ATTR(A_INT("axis", 0), A_INTS_OPT("split"))
static const nc_op_version split_versions[] = {
    {.since = 18, SPLIT(T_TENSOR_ALL), ATTR(A_INT("axis", 0), A_INT_OPT("num_outputs"))},
    {.since = 13, SPLIT(T_TENSOR_ALL), ATTR(A_INT("axis", 0))},
    {.since = 11, SPLIT_ATTR(T_TENSOR)},
    {.since = 2, SPLIT_ATTR(T_TENSOR)},
    {.since = 1,
     IN({"input", T_FLOAT}, {"split", SAME(0), OPTIONAL}),
     OUT({"outputs...", SAME(0), VARIADIC}),
     ATTR(A_INT_OPT("axis"), A_INTS_OPT("split"))},
    {0}};

const nc_card nc_card_split = {.name = "Split",
                               .doc = "Parts of its input along an axis.",
                               .versions = split_versions,
                               .traits = NC_VIEW_STRIDED,
                               .host_in = 1u << 1,
                               .no_grad_in = 1u << 1,
                               .infer = split_infer,
                               .fold = split_fold,
                               .grad = split_grad,
                               .is_identity = split_is_identity};
