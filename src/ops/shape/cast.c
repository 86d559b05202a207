/* ops/shape/cast.c: cards of Cast and CastLike: the same elements in another type. `saturate` and `round_mode` speak
 * of 8-bit floats only, see base/narrow.h. No gradient passes through an integer or a narrow float. */
#include "ops/shape/shape.h"

#include <string.h>

/* The type a Cast node makes; version 1 names it in capitals. */
static nc_dtype cast_target(const nc_node *n) {
    const nc_attr *to = nc_node_attr(n, "to");
    char name[16] = "";
    if (to == NULL) return NC_UNDEFINED;
    if (to->kind == NC_A_INT) return to->i > 0 && to->i < NC_N_DTYPES ? (nc_dtype)to->i : NC_UNDEFINED;
    for (size_t k = 0; k < to->s.n && k + 1 < sizeof name; k++)
        name[k] = to->s.p[k] >= 'A' && to->s.p[k] <= 'Z' ? (char)(to->s.p[k] + 'a' - 'A') : to->s.p[k];
    return nc_dtype_parse(name);
}

static nc_code infer_as(nc_infer *c, nc_dtype to) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return nc_out_unknown(c, 0, to, -1);
    return nc_out(c, 0, to, x->rank, x->dims);
}

static nc_code cast_infer(nc_infer *c) {
    nc_dtype to = cast_target(c->node);
    const nc_attr *attr = nc_node_attr(c->node, "to");
    if (to == NC_UNDEFINED || !(c->node->version->out[0].types & NC_BIT(to)))
        NC_FAIL(c->w, NC_E_TYPE, "cannot cast to type %lld",
                attr != NULL && attr->kind == NC_A_INT ? (long long)attr->i : 0);
    return infer_as(c, to);
}

static nc_code cast_like_infer(nc_infer *c) {
    const nc_type *like = nc_in(c, 1);
    return like != NULL ? infer_as(c, like->elem) : NC_OK;
}

/* Symbols stand for sizes, which fit the large types; constants are checked. */
static bool holds(nc_dtype t, const nc_dim *d) {
    int64_t v;
    if (!nc_dim_is_const(d, &v)) return t == NC_INT64 || t == NC_INT32;
    switch (t) {
    case NC_INT64: return true;
    case NC_INT32: return v >= INT32_MIN && v <= INT32_MAX;
    case NC_INT16: return v >= INT16_MIN && v <= INT16_MAX;
    case NC_INT8: return v >= INT8_MIN && v <= INT8_MAX;
    case NC_UINT8: return v >= 0 && v <= UINT8_MAX;
    case NC_BOOL: return v == 0 || v == 1;
    default: return false;
    }
}

static nc_code cast_fold(nc_infer *c) {
    int n;
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    const nc_dim *out[NC_MAX_ELEMS];
    if (elems == NULL || c->out[0].type == NULL || n > NC_MAX_ELEMS) return NC_OK;
    nc_dtype to = c->out[0].type->elem;
    for (int k = 0; k < n; k++) {
        int64_t v;
        out[k] = to == NC_BOOL && nc_dim_is_const(elems[k], &v) ? nc_dim_const(c->dims, v != 0) : elems[k];
        NC_NEED(c->w, out[k]);
        if (!holds(to, out[k])) return NC_OK;
    }
    return nc_out_elems(c, 0, n, out);
}

static nc_code cast_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_type *x = g->node->in[0]->type;
    if (dy == NULL || !g->wants[0] || x == NULL || !nc_dtype_is_float(x->elem)) return NC_OK;
    nc_grad_set(g, 0, nc_build_cast(g->b, dy, x->elem));
    return nc_grad_end(g);
}

nc_code nc_cast_read(nc_work *w, const nc_node *n, nc_narrowing *how) {
    static const char *const modes[] = {[NC_ROUND_UP] = "up", [NC_ROUND_NEAREST] = "nearest", [NC_ROUND_DOWN] = "down"};
    const nc_attr *saturate = nc_node_attr(n, "saturate"), *round = nc_node_attr(n, "round_mode");
    int k = 0;
    while (round != NULL && k < 3 && strcmp(round->s.p, modes[k]) != 0) k++;
    if (k == 3) NC_FAIL(w, NC_E_BAD_GRAPH, "round_mode is '%s', expected up, nearest or down", round->s.p);
    *how = (nc_narrowing){.saturate = saturate == NULL || saturate->i != 0, .round = (nc_round)k};
    return NC_OK;
}

static bool cast_is_identity(const nc_node *n) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    return x != NULL && y != NULL && x->elem == y->elem;
}

#define T_CAST (T_NUMBER | T_BOOL | T_STRING)
#define T_CAST_ALL (T_CAST | NC_BIT(NC_BFLOAT16))
#define CAST(types) IN({"input", types}), OUT({"output", types})
#define SATURATE A_INT_REQ("to"), A_INT("saturate", 1)
static const nc_op_version cast_versions[] = {
    {.since = 28, CAST(T_CAST_ALL | T_NARROW_28), ATTR(SATURATE, A_STR("round_mode", "up"))},
    {.since = 25, CAST(T_CAST_ALL | T_NARROW_25), ATTR(SATURATE, A_STR("round_mode", "up"))},
    {.since = 24, CAST(T_CAST_ALL | T_NARROW_24), ATTR(SATURATE, A_STR("round_mode", "up"))},
    {.since = 23, CAST(T_CAST_ALL | T_NARROW_23), ATTR(SATURATE)},
    {.since = 21, CAST(T_CAST_ALL | T_NARROW_21), ATTR(SATURATE)},
    {.since = 19, CAST(T_CAST_ALL | T_NARROW_19), ATTR(SATURATE)},
    {.since = 13, CAST(T_CAST_ALL), ATTR(A_INT_REQ("to"))},
    {.since = 9, CAST(T_CAST), ATTR(A_INT_REQ("to"))},
    {.since = 6, CAST(T_NUMBER | T_BOOL), ATTR(A_INT_REQ("to"))},
    {.since = 1, CAST(T_NUMBER | T_BOOL), ATTR(A_STR_REQ("to"))},
    {0}};

const nc_card nc_card_cast = {.name = "Cast",
                              .doc = "Its input as elements of another type.",
                              .versions = cast_versions,
                              .traits = NC_ELEMENTWISE,
                              .infer = cast_infer,
                              .fold = cast_fold,
                              .grad = cast_grad,
                              .is_identity = cast_is_identity};

#define CAST_LIKE(types) IN({"input", types}, {"target_type", types}), OUT({"output", SAME(1)})
static const nc_op_version cast_like_versions[] = {
    {.since = 25, CAST_LIKE(T_CAST_ALL | T_NARROW_25), ATTR(A_INT("saturate", 1), A_STR("round_mode", "up"))},
    {.since = 24, CAST_LIKE(T_CAST_ALL | T_NARROW_24), ATTR(A_INT("saturate", 1), A_STR("round_mode", "up"))},
    {.since = 23, CAST_LIKE(T_CAST_ALL | T_NARROW_23), ATTR(A_INT("saturate", 1))},
    {.since = 21, CAST_LIKE(T_CAST_ALL | T_NARROW_21), ATTR(A_INT("saturate", 1))},
    {.since = 19, CAST_LIKE(T_CAST_ALL | T_NARROW_19), ATTR(A_INT("saturate", 1))},
    {.since = 15, CAST_LIKE(T_CAST_ALL), NO_ATTR},
    {0}};

const nc_card nc_card_cast_like = {.name = "CastLike",
                                   .doc = "Its input in the element type of the second.",
                                   .versions = cast_like_versions,
                                   .dims_only_in = 1u << 1,
                                   .no_grad_in = 1u << 1,
                                   .infer = cast_like_infer,
                                   .fold = cast_fold,
                                   .grad = cast_grad,
                                   .is_identity = cast_is_identity};
