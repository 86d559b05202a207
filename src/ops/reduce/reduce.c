/* ops/reduce/reduce.c: cards of ReduceSum, ReduceMean, ReduceMax, ReduceMin and ReduceProd. Axes are an attribute in
 * old versions and an input in new ones; no axes means all, or none where noop_with_empty_axes says so. A scalar may be
 * reduced along axis 0 or -1, as exporters write it. Gradients are in reduce_grad.c. */
#include "ops/blocked.h"
#include "ops/reduce/reduce.h"

#include "ops/reduce/reduce_card.h"
#include "ops/reduce/reduce_grad.h"

#include <string.h>

bool nc_reduce_mask(const int64_t *axes, int n, int rank, nc_axes *mask) {
    int within = rank > 0 ? rank : 1;
    *mask = 0;
    for (int i = 0; i < n; i++) {
        int64_t a = axes[i] < 0 ? axes[i] + within : axes[i];
        if (a < 0 || a >= within) return false;
        if (rank > 0) *mask |= nc_axes_of(a);
    }
    return true;
}

static nc_code mask_of(nc_infer *c, int rank, nc_axes *mask, bool *known) {
    int64_t v[NC_MAX_RANK];
    const int64_t *axes = v;
    int n = 0;
    *known = true;
    const nc_attr *attr = nc_node_attr(c->node, "axes"), *noop = nc_node_attr(c->node, "noop_with_empty_axes");
    if (attr != NULL) {
        axes = attr->ints;
        n = attr->n;
    } else if (c->node->n_in > 1 && c->in[1].present && !nc_in_ints(c, 1, v, NC_MAX_RANK, &n)) {
        *known = false;
        return NC_OK;
    }
    if (!nc_reduce_mask(axes, n, rank, mask)) NC_FAIL(c->w, NC_E_SHAPE, "an axis is out of range for %d dims", rank);
    if (n == 0 && (noop == NULL || noop->i == 0)) *mask = nc_axes_below(rank);
    return NC_OK;
}

/* The rank when only the number of axes is known: different axes, so each takes one dim; -1: not known. */
static int rank_left(nc_infer *c, int rank) {
    int axes_rank;
    int64_t n;
    if (rank == 0) return 0;
    if (!nc_in_rank(c, 1, &axes_rank) || axes_rank != 1 || !nc_dim_is_const(nc_in_dim(c, 1, 0), &n)) return -1;
    if (n == 0) return nc_attr_int(c->node, "noop_with_empty_axes") != 0 ? rank : 0;
    return n <= rank ? rank - (int)n : -1;
}

nc_code nc_reduce_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank, n = 0;
    nc_axes mask;
    bool known, keep = nc_attr_int(c->node, "keepdims") != 0;
    if (x == NULL) return NC_OK;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, x->elem, -1);
    NC_TRY(mask_of(c, rank, &mask, &known));
    if (!known) return nc_out_unknown(c, 0, x->elem, keep ? rank : rank_left(c, rank));
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    NC_NEED(c->w, one);
    for (int i = 0; i < rank; i++) {
        if (!(mask >> i & 1))
            dims[n++] = x->dims[i];
        else if (keep)
            dims[n++] = one;
    }
    return nc_out(c, 0, x->elem, n, dims);
}

typedef const nc_dim *(*join_dims)(nc_dims *t, const nc_dim *a, const nc_dim *b);

/* A vector of sizes reduced to one. */
static nc_code fold(nc_infer *c, join_dims join) {
    int n, rank;
    nc_axes mask;
    bool known;
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    if (elems == NULL || n < 1 || !nc_in_rank(c, 0, &rank) || rank != 1 || c->out[0].type == NULL) return NC_OK;
    if (c->out[0].type->elem != NC_INT64) return NC_OK;
    NC_TRY(mask_of(c, rank, &mask, &known));
    if (!known) return NC_OK;
    if (mask == 0) return nc_out_elems(c, 0, n, elems);
    const nc_dim *out = elems[0];
    for (int i = 1; i < n && out != NULL; i++) out = join(c->dims, out, elems[i]);
    return out != NULL ? nc_out_elems(c, 0, 1, &out) : NC_OK;
}

static nc_code sum_fold(nc_infer *c) { return fold(c, nc_dim_add); }
static nc_code max_fold(nc_infer *c) { return fold(c, nc_dim_max); }
static nc_code min_fold(nc_infer *c) { return fold(c, nc_dim_min); }
static nc_code prod_fold(nc_infer *c) { return fold(c, nc_dim_mul); }

double nc_reduce_cost(const nc_node *n, const int64_t *const *in_dims) {
    double cost = 1;
    for (int i = 0; n->in[0]->type != NULL && i < n->in[0]->type->rank; i++) cost *= (double)in_dims[0][i];
    return cost;
}

/* ---- channels in blocks ---- */

static const int64_t *known_axes(const nc_node *n, int64_t given[NC_MAX_RANK], int *count) {
    int64_t total;
    *count = 0;
    if (n->n_in < 2) return nc_attr_ints(n, "axes", count);
    if (n->in[1] == NULL || n->in[1]->lit == NULL || !nc_literal_ints(n->in[1]->lit, given, NC_MAX_RANK, &total))
        return NULL;
    *count = (int)total;
    return given;
}

/* Over spatial axes alone; as dims of 1 they stay in the blocked form. */
static bool reduce_blocks(const nc_node *n, nc_blocking *k) {
    int64_t given[NC_MAX_RANK];
    int count;
    const int64_t *axes = known_axes(n, given, &count);
    k->why = "it reduces more than spatial dims";
    if (axes == NULL || count == 0) return false;
    for (int i = 0; n->in[0]->type != NULL && i < count; i++) {
        int axis = nc_blocks_axis(n, axes[i]);
        if (axis < 2) return false;
        if (nc_attr_int(n, "keepdims") == 0) k->dropped |= nc_axes_of(axis);
    }
    return nc_blocks_input(n, 0, k);
}

/* The builder makes the newest form, whatever the model's: axes are an input there. */
static nc_value *reduce_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    int64_t given[NC_MAX_RANK], axes[NC_MAX_RANK];
    int count;
    const int64_t *from = known_axes(n, given, &count);
    nc_attr keepdims = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    (void)k;
    for (int i = 0; i < count; i++) axes[i] = nc_blocks_axis(n, from[i]);
    nc_value *args[2] = {in[0], nc_build_ints(b, axes, count)};
    return nc_build_card1(b, n->card, args, 2, &keepdims, 1);
}

#define T_BYTES (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))

static const nc_op_version sum_versions[] = {{.since = 13, BY_INPUT(T_BIG_NUMBER_ALL)},
                                             {.since = 11, BY_ATTR(T_BIG_NUMBER)},
                                             {.since = 1, BY_ATTR(T_BIG_NUMBER)},
                                             {0}};

static const nc_op_version mean_versions[] = {{.since = 18, BY_INPUT(T_BIG_NUMBER_ALL)},
                                              {.since = 13, BY_ATTR(T_BIG_NUMBER_ALL)},
                                              {.since = 11, BY_ATTR(T_BIG_NUMBER)},
                                              {.since = 1, BY_ATTR(T_BIG_NUMBER)},
                                              {0}};

static const nc_op_version extreme_versions[] = {{.since = 20, BY_INPUT(T_BIG_NUMBER_ALL | T_BYTES | T_BOOL)},
                                                 {.since = 18, BY_INPUT(T_BIG_NUMBER_ALL | T_BYTES)},
                                                 {.since = 13, BY_ATTR(T_BIG_NUMBER_ALL | T_BYTES)},
                                                 {.since = 12, BY_ATTR(T_BIG_NUMBER | T_BYTES)},
                                                 {.since = 11, BY_ATTR(T_BIG_NUMBER)},
                                                 {.since = 1, BY_ATTR(T_BIG_NUMBER)},
                                                 {0}};

static const nc_op_version prod_versions[] = {{.since = 18, BY_INPUT(T_BIG_NUMBER_ALL)},
                                              {.since = 13, BY_ATTR(T_BIG_NUMBER_ALL)},
                                              {.since = 11, BY_ATTR(T_BIG_NUMBER)},
                                              {.since = 1, BY_ATTR(T_BIG_NUMBER)},
                                              {0}};

#define REDUCE(symbol, op, text, rows, fold_fn, grad_fn)         \
    const nc_card nc_card_##symbol = {.name = op,                \
                                      .doc = text,               \
                                      .versions = rows,          \
                                      .infer = nc_reduce_infer,  \
                                      .fold = fold_fn,           \
                                      .grad = grad_fn,           \
                                      .cost = nc_reduce_cost,    \
                                      .blocks = reduce_blocks,   \
                                      .blocked = reduce_blocked, \
                                      .host_in = 1u << 1,        \
                                      .no_grad_in = 1u << 1};

REDUCE(reduce_sum, "ReduceSum", "The sum along axes.", sum_versions, sum_fold, nc_reduce_grad_sum)
REDUCE(reduce_mean, "ReduceMean", "The mean along axes; of integers cut towards zero.", mean_versions, NULL,
       nc_reduce_grad_mean)
REDUCE(reduce_max, "ReduceMax", "The largest along axes; NaN where any is NaN.", extreme_versions, max_fold,
       nc_reduce_grad_extreme)
REDUCE(reduce_min, "ReduceMin", "The smallest along axes; NaN where any is NaN.", extreme_versions, min_fold,
       nc_reduce_grad_extreme)
REDUCE(reduce_prod, "ReduceProd", "The product along axes.", prod_versions, prod_fold, nc_reduce_grad_prod)
