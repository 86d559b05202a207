/* ops/pool/pool.c: cards of MaxPool, AveragePool, LpPool, of the sum under a window (nacre.SumPool) and of the
 * gradients. The first two dims of X are no part of the window; how many others there may be is the bindings' matter
 * (pool_cpu.c). Pools over whole planes are in global.c, MaxUnpool in unpool.c. */
#include "ops/blocked.h"
#include "ops/build.h"
#include "ops/card.h"
#include "ops/pool/pool.h"
#include "ops/pool/pool_parts.h"
#include "ops/window.h"

#include <math.h>
#include <string.h>

static nc_code pool_dims(nc_infer *c, const nc_type *x, const nc_dim **dims) {
    nc_window a;
    int64_t k[NC_WINDOW_MAX_SPATIAL];
    if (x->rank < 3) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 3 are expected", x->rank);
    NC_TRY(nc_window_read(c->w, c->node, x->rank - 2, &a));
    if (!nc_attr_has(c->node, "kernel_shape")) NC_FAIL(c->w, NC_E_BAD_GRAPH, "kernel_shape is missing");
    NC_TRY(nc_window_ints(c->w, c->node, "kernel_shape", x->rank - 2, 1, 1, k));
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int i = 0; i < x->rank - 2; i++)
        dims[i + 2] = nc_window_out(c->dims, &a, i, x->dims[i + 2], nc_dim_const(c->dims, k[i]));
    return NC_OK;
}

nc_code nc_pool_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    if (x->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, x->elem, -1));
        return nc_out_unknown(c, 1, NC_INT64, -1);
    }
    NC_TRY(pool_dims(c, x, dims));
    NC_TRY(nc_out(c, 0, x->elem, x->rank, dims));
    return nc_out(c, 1, NC_INT64, x->rank, dims);
}

/* dY against X, the last input: as many batches and channels, behind them what the window leaves. MaxPool's gradient
 * has no window but indices, one for each element of dY. */
static nc_code pool_grad_infer(nc_infer *c) {
    int at = c->node->n_in - 1, rank;
    const nc_type *x = nc_in(c, at);
    const nc_dim *dims[NC_MAX_RANK];
    if (at > 1) NC_TRY(nc_in_same(c, 1, 0));
    if (x == NULL || x->rank < 0 || !nc_in_rank(c, 0, &rank)) return nc_out_like(c, 0, at);
    if (rank != x->rank) NC_FAIL(c->w, NC_E_SHAPE, "dY has %d dims, expected %d as X", rank, x->rank);
    for (int k = 0; k < rank && k < 2; k++) dims[k] = x->dims[k];
    if (at == 1) NC_TRY(pool_dims(c, x, dims));
    for (int k = 0; k < (at == 1 ? rank : 2); k++) NC_TRY(nc_in_expect(c, 0, k, dims[k]));
    return nc_out_like(c, 0, at);
}

/* ---- the greatest ---- */

/* Where each maximum came from, in row-major order: the forward node's own output where it says so, else a pool over
 * the same input that gives them. */
static nc_value *indices_of(nc_grad *g) {
    nc_node *n = g->node->out[0]->def;
    if (g->b->code != NC_OK) return NULL;
    bool own = n->version->since >= 8 && nc_attr_int(n, "storage_order") == 0;
    if (own && n->n_out > 1 && n->out[1] != NULL) return nc_grad_y(g, 1);
    if (own && n->n_out < 2) {
        if (nc_edit_add_out(n, NULL) == NULL) {
            g->b->code = nc_fail(g->b->w, NC_E_MEMORY, "out of memory");
            return NULL;
        }
        if (g->b->infer != NULL) g->b->code = g->b->infer(g->b->w, n);
        return nc_grad_y(g, 1);
    }
    nc_attr attrs[16];
    int n_attrs = 0;
    for (int i = 0; i < n->n_attrs && n_attrs < 16; i++)
        if (strcmp(n->attrs[i].name, "storage_order") != 0) attrs[n_attrs++] = n->attrs[i];
    nc_value *x = nc_grad_x(g, 0);
    nc_node *again = nc_build(g->b, "", "MaxPool", &x, 1, 2, attrs, n_attrs);
    return again != NULL ? again->out[1] : NULL;
}

static nc_code max_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[3] = {dy, indices_of(g), nc_grad_x(g, 0)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "MaxPoolGrad", in, 3, NULL, 0));
    return nc_grad_end(g);
}

/* dX = dY put at the indices; transposed, what lies at the indices. A window without taps has index -1 and no part. */
static nc_code max_grad_grad(nc_grad *g) {
    nc_value *u = nc_grad_dy(g, 0);
    if (u == NULL || !g->wants[0]) return NC_OK;
    int64_t all = -1;
    nc_value *at = nc_grad_x(g, 1), *flat = nc_build1(g->b, "Reshape", 2, u, nc_build_ints(g->b, &all, 1));
    nc_value *got = nc_build1(g->b, "Gather", 2, flat, at);
    if (g->b->code != NC_OK) return g->b->code;
    nc_value *some = nc_build1(g->b, "GreaterOrEqual", 2, at, nc_build_int(g->b, 0));
    nc_grad_set(g, 0, nc_build1(g->b, "Where", 3, some, got, nc_build_scalar(g->b, u->type->elem, 0)));
    return nc_grad_end(g);
}

/* dY added up at the indices; a window without taps has index -1 and no part. */
static nc_code max_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t all = -1, one = 1;
    nc_value *dy = n->in[0], *at = n->in[1], *x = n->in[2], *zero = nc_build_int(b, 0);
    if (!dy->type) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *flat = nc_build_ints(b, &all, 1), *none = nc_build_scalar(b, dy->type->elem, 0);
    nc_value *some = nc_build1(b, "GreaterOrEqual", 2, at, zero);
    nc_value *count = nc_build1(b, "Reshape", 2, nc_build1(b, "Size", 1, x), nc_build_ints(b, &one, 1));
    nc_value *in[3] = {nc_build1(b, "Expand", 2, none, count),
                       nc_build1(b, "Reshape", 2, nc_build1(b, "Where", 3, some, at, zero), flat),
                       nc_build1(b, "Reshape", 2, nc_build1(b, "Where", 3, some, dy, none), flat)};
    nc_attr add = {.name = "reduction", .kind = NC_A_STRING, .s = {"add", 3}};
    out[0] = nc_build_reshape_like(b, nc_build_attr1(b, "", "ScatterElements", in, 3, &add, 1), x);
    return b->code;
}

/* ---- averages and sums ---- */

static nc_value *sum_grad_op(nc_grad *g, nc_value *dy, bool divide) {
    nc_attr attrs[16];
    int n_attrs = 0;
    for (int i = 0; i < g->node->n_attrs && n_attrs < 15; i++) attrs[n_attrs++] = g->node->attrs[i];
    attrs[n_attrs++] = (nc_attr){.name = "divide", .kind = NC_A_INT, .i = divide};
    nc_value *in[2] = {dy, nc_grad_x(g, 0)};
    return nc_build_attr1(g->b, "nacre", "AveragePoolGrad", in, 2, attrs, n_attrs);
}

static nc_code window_grad(nc_grad *g, bool divide) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_grad_set(g, 0, sum_grad_op(g, dy, divide));
    return nc_grad_end(g);
}

static nc_code average_grad(nc_grad *g) { return window_grad(g, true); }
static nc_code sum_grad(nc_grad *g) { return window_grad(g, false); }

/* dX is linear in dY, and AveragePool or SumPool is its transpose. */
static nc_code average_grad_grad(nc_grad *g) {
    nc_value *u = nc_grad_dy(g, 0);
    if (u == NULL || !g->wants[0]) return NC_OK;
    bool divide = nc_attr_int(g->node, "divide") != 0;
    nc_attr attrs[16];
    int n_attrs = 0;
    for (int i = 0; i < g->node->n_attrs && n_attrs < 16; i++) {
        const char *name = g->node->attrs[i].name;
        if (strcmp(name, "divide") == 0 || (!divide && strcmp(name, "count_include_pad") == 0)) continue;
        attrs[n_attrs++] = g->node->attrs[i];
    }
    nc_grad_set(g, 0,
                nc_build_attr1(g->b, divide ? "" : "nacre", divide ? "AveragePool" : "SumPool", &u, 1, attrs, n_attrs));
    return nc_grad_end(g);
}

static double norm_of(const nc_node *n) {
    return n->version->since == 1 ? nc_attr_float(n, "p") : (double)nc_attr_int(n, "p");
}

static nc_code lp_infer(nc_infer *c) {
    if (!(norm_of(c->node) > 0)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "p is %g, expected more than 0", norm_of(c->node));
    return nc_pool_infer(c);
}

static nc_code lp_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *power;
    double p = norm_of(n);
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type of X");
    nc_dtype t = x->type->elem;
    nc_attr attrs[16];
    int n_attrs = 0;
    for (int i = 0; i < n->n_attrs && n_attrs < 16; i++)
        if (strcmp(n->attrs[i].name, "p") != 0) attrs[n_attrs++] = n->attrs[i];
    if (p == 2)
        power = nc_build1(b, "Mul", 2, x, x);
    else
        power = nc_build1(b, "Abs", 1, x);
    if (p != 2 && p != 1) power = nc_build1(b, "Pow", 2, power, nc_build_scalar(b, t, p));
    nc_value *sum = nc_build_attr1(b, "nacre", "SumPool", &power, 1, attrs, n_attrs);
    out[0] = p == 1   ? sum
             : p == 2 ? nc_build1(b, "Sqrt", 1, sum)
                      : nc_build1(b, "Pow", 2, sum, nc_build_scalar(b, t, 1 / p));
    return b->code;
}

/* ---- channels in blocks ---- */

static bool pool_blocks(const nc_node *n, nc_blocking *k) {
    if (!nc_blocks_input(n, 0, k)) return false;
    bool all = k->block == NC_BLOCK_ALL;
    k->why = all ? "one or two spatial dims are supported" : "one to three spatial dims are supported";
    return n->in[0]->type->rank <= (all ? 4 : 5);
}

/* The lanes of a block are one more spatial dim, under a window of one element. */
static nc_value *pool_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    static const nc_blocked_attr longer[] = {
        {"kernel_shape", 1, 1}, {"strides", 1, 1}, {"dilations", 1, 1}, {"pads", 2, 0}, {0}};
    (void)k;
    return nc_blocked_same(b, n, in, longer);
}

/* ---- versions ---- */

#define T_MAX (T_FLOAT | NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))
#define WINDOW A_INTS_OPT("pads"), A_STR("auto_pad", "NOTSET"), A_INTS_OPT("strides")
#define KERNEL A_INTS_REQ("kernel_shape")
#define CEIL A_INT("ceil_mode", 0)
#define DILATED A_INTS_OPT("dilations")
#define X_Y(types) IN({"X", types}), OUT({"Y", SAME(0)})
#define X_YI(types) IN({"X", types}), OUT({"Y", SAME(0)}, {"Indices", T_I64, OPTIONAL})
#define MAX_ATTR ATTR(A_INT("storage_order", 0), DILATED, CEIL, WINDOW, KERNEL)

static const nc_op_version max_versions[] = {
    {.since = 22, X_YI(T_MAX | NC_BIT(NC_BFLOAT16)), MAX_ATTR},
    {.since = 12, X_YI(T_MAX), MAX_ATTR},
    {.since = 11, X_YI(T_FLOAT), MAX_ATTR},
    {.since = 10, X_YI(T_FLOAT), MAX_ATTR},
    {.since = 8, X_YI(T_FLOAT), ATTR(A_INT("storage_order", 0), WINDOW, KERNEL)},
    {.since = 1, X_Y(T_FLOAT), ATTR(WINDOW, KERNEL)},
    {0}};
#define PADDED A_INT("count_include_pad", 0)
static const nc_op_version average_versions[] = {
    {.since = 22, X_Y(T_FLOAT_ALL), ATTR(PADDED, DILATED, CEIL, WINDOW, KERNEL)},
    {.since = 19, X_Y(T_FLOAT), ATTR(PADDED, DILATED, CEIL, WINDOW, KERNEL)},
    {.since = 11, X_Y(T_FLOAT), ATTR(PADDED, CEIL, WINDOW, KERNEL)},
    {.since = 10, X_Y(T_FLOAT), ATTR(PADDED, CEIL, WINDOW, KERNEL)},
    {.since = 7, X_Y(T_FLOAT), ATTR(PADDED, WINDOW, KERNEL)},
    {.since = 1, X_Y(T_FLOAT), ATTR(WINDOW, KERNEL)},
    {0}};
static const nc_op_version lp_versions[] = {
    {.since = 22, X_Y(T_FLOAT_ALL), ATTR(A_INT("p", 2), DILATED, CEIL, WINDOW, KERNEL)},
    {.since = 18, X_Y(T_FLOAT), ATTR(A_INT("p", 2), DILATED, CEIL, WINDOW, KERNEL)},
    {.since = 11, X_Y(T_FLOAT), ATTR(A_INT("p", 2), WINDOW, KERNEL)},
    {.since = 2, X_Y(T_FLOAT), ATTR(A_INT("p", 2), WINDOW, KERNEL)},
    {.since = 1, X_Y(T_FLOAT), ATTR(A_FLOAT("p", 2), WINDOW, A_INTS_OPT("kernel_shape"))},
    {0}};
static const nc_op_version sum_versions[] = {{.since = 1, X_Y(T_FLOAT_ALL), ATTR(DILATED, CEIL, WINDOW, KERNEL)}, {0}};
static const nc_op_version max_grad_versions[] = {
    {.since = 1, IN({"dY", T_FLOAT_ALL}, {"Indices", T_I64}, {"X", SAME(0)}), OUT({"dX", SAME(0)}), NO_ATTR}, {0}};
static const nc_op_version average_grad_versions[] = {{.since = 1,
                                                       IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}),
                                                       OUT({"dX", SAME(0)}),
                                                       ATTR(A_INT("divide", 1), PADDED, DILATED, CEIL, WINDOW, KERNEL)},
                                                      {0}};

const nc_card nc_card_max_pool = {.name = "MaxPool",
                                  .doc = "The greatest element under a sliding window, and where it lies.",
                                  .versions = max_versions,
                                  .traits = NC_PASSES_ON,
                                  .infer = nc_pool_infer,
                                  .grad = max_grad,
                                  .blocks = pool_blocks,
                                  .blocked = pool_blocked};
const nc_card nc_card_average_pool = {.name = "AveragePool",
                                      .doc = "The mean of the elements under a sliding window.",
                                      .versions = average_versions,
                                      .infer = nc_pool_infer,
                                      .grad = average_grad,
                                      .blocks = pool_blocks,
                                      .blocked = pool_blocked};
const nc_card nc_card_lp_pool = {.name = "LpPool",
                                 .doc = "The p-norm of the elements under a sliding window.",
                                 .versions = lp_versions,
                                 .infer = lp_infer,
                                 .decompose = lp_decompose};
const nc_card nc_card_sum_pool = {.name = "SumPool",
                                  .domain = "nacre",
                                  .doc = "The sum of the elements under a sliding window.",
                                  .versions = sum_versions,
                                  .infer = nc_pool_infer,
                                  .grad = sum_grad};
const nc_card nc_card_max_pool_grad = {.name = "MaxPoolGrad",
                                       .domain = "nacre",
                                       .doc = "Gradient of MaxPool: dY added up at the indices of the maxima.",
                                       .versions = max_grad_versions,
                                       .infer = pool_grad_infer,
                                       .grad = max_grad_grad,
                                       .decompose = max_grad_decompose,
                                       .no_grad_in = 2 | 4,
                                       .dims_only_in = 4};
const nc_card nc_card_average_pool_grad = {.name = "AveragePoolGrad",
                                           .domain = "nacre",
                                           .doc = "Gradient of AveragePool, or without `divide` of SumPool.",
                                           .versions = average_grad_versions,
                                           .infer = pool_grad_infer,
                                           .grad = average_grad_grad,
                                           .decompose = nc_average_grad_decompose,
                                           .no_grad_in = 2,
                                           .dims_only_in = 2};
