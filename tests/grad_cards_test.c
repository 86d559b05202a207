/* tests/grad_cards_test.c: small cards of ops that gradients emit, for tests of autodiff alone; no kernels. A card of
 * the same name in ops.list goes first. */
#include "tests/grad_cards.h"

#include "ops/binding.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code shape_infer(nc_infer *c) {
    int rank;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_INT64, 1);
    const nc_dim *n = nc_dim_const(c->dims, rank);
    NC_TRY(nc_out(c, 0, NC_INT64, 1, &n));
    return nc_out_elems(c, 0, rank, c->in[0].type->dims);
}

static nc_code expand_infer(nc_infer *c) {
    int n;
    const nc_dim *const *shape = nc_in_elems(c, 1, &n);
    if (!shape) return nc_out_unknown(c, 0, nc_in(c, 0)->elem, -1);
    return nc_out(c, 0, nc_in(c, 0)->elem, n, shape);
}

static nc_code expand_grad(nc_grad *g) {
    nc_grad_set(g, 0, nc_grad_sum_to(g, nc_grad_dy(g, 0), 0));
    return nc_grad_end(g);
}

static nc_code reduce_infer(nc_infer *c) {
    int64_t axes[NC_MAX_RANK];
    int n = 0, rank, r = 0;
    const nc_dim *dims[NC_MAX_RANK];
    if (!nc_in_rank(c, 0, &rank) || (c->node->n_in > 1 && !nc_in_ints(c, 1, axes, NC_MAX_RANK, &n)))
        return nc_out_unknown(c, 0, nc_in(c, 0)->elem, -1);
    bool keep = nc_attr_int(c->node, "keepdims") != 0;
    for (int i = 0; i < rank; i++) {
        bool gone = n == 0;
        for (int k = 0; k < n; k++) gone |= axes[k] == i;
        if (!gone) dims[r++] = nc_in_dim(c, 0, i);
        else if (keep) dims[r++] = nc_dim_const(c->dims, 1);
    }
    return nc_out(c, 0, nc_in(c, 0)->elem, r, dims);
}

static nc_code reduce_grad(nc_grad *g) {
    nc_grad_set(g, 0, nc_build_expand_like(g->b, nc_grad_dy(g, 0), nc_grad_x(g, 0)));
    return nc_grad_end(g);
}

static nc_code gather_infer(nc_infer *c) {
    const nc_type *t = nc_in(c, 0);
    return nc_out(c, 0, t->elem, t->rank - 1, t->dims + 1);
}

static nc_code matmul_infer(nc_infer *c) {
    const nc_dim *dims[2] = {nc_in_dim(c, 0, 0), nc_in_dim(c, 1, 1)};
    return nc_out(c, 0, nc_in(c, 0)->elem, 2, dims);
}

static nc_code matmul_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (g->wants[0]) nc_grad_set(g, 0, nc_build1(g->b, "MatMul", 2, dy, nc_build_swap_last(g->b, nc_grad_x(g, 1))));
    if (g->wants[1]) nc_grad_set(g, 1, nc_build1(g->b, "MatMul", 2, nc_build_swap_last(g->b, nc_grad_x(g, 0)), dy));
    return nc_grad_end(g);
}

static nc_code transpose_infer(nc_infer *c) {
    const nc_dim *dims[2] = {nc_in_dim(c, 0, 1), nc_in_dim(c, 0, 0)};
    return nc_out(c, 0, nc_in(c, 0)->elem, 2, dims);
}

static nc_code same_infer(nc_infer *c) {
    return nc_out_like(c, 0, 0);
}

/* Appends a zero: [n] -> [n+1]. */
static nc_code grow_infer(nc_infer *c) {
    const nc_dim *d = nc_dim_add(c->dims, nc_in_dim(c, 0, 0), nc_dim_const(c->dims, 1));
    return nc_out(c, 0, nc_in(c, 0)->elem, 1, &d);
}

static nc_code grow_grad(nc_grad *g) {
    nc_value *in[2] = {nc_grad_dy(g, 0), nc_grad_x(g, 0)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "test", "Like", in, 2, NULL, 0));
    return nc_grad_end(g);
}

static nc_code like_infer(nc_infer *c) {
    return nc_out_like(c, 0, 1);
}

#define V(...) (const nc_op_version[]){{.since = 1, __VA_ARGS__, OUT({"Y", T_ANYTHING})}, {0}}
#define X {"X", T_ANYTHING}

static const nc_card cards[] = {
    {.name = "Shape", .versions = V(IN(X), NO_ATTR), .infer = shape_infer, .zero_grad = true},
    {.name = "Expand", .versions = V(IN(X, {"shape", T_I64}), NO_ATTR), .infer = expand_infer, .grad = expand_grad,
     .no_grad_in = 2},
    {.name = "ReduceSum", .infer = reduce_infer, .grad = reduce_grad, .no_grad_in = 2,
     .versions = V(IN(X, {"axes", T_I64, OPTIONAL}), ATTR(A_INT("keepdims", 1), A_INT("noop_with_empty_axes", 0)))},
    {.name = "Gather", .versions = V(IN(X, {"indices", T_INDEX}), NO_ATTR), .infer = gather_infer, .no_grad_in = 2},
    {.name = "MatMul", .versions = V(IN(X, {"B", T_ANYTHING}), NO_ATTR), .infer = matmul_infer, .grad = matmul_grad},
    {.name = "Transpose", .versions = V(IN(X), ATTR(A_INTS_OPT("perm"))), .infer = transpose_infer},
    {.name = "Grow", .domain = "test", .versions = V(IN(X), NO_ATTR), .infer = grow_infer, .grad = grow_grad},
    {.name = "Like", .domain = "test", .versions = V(IN(X, {"like", T_ANYTHING}), NO_ATTR), .infer = like_infer},
    {.name = "Opaque", .domain = "test", .versions = V(IN(X), NO_ATTR), .infer = same_infer},
};

static const nc_card *find(const nc_registry *r, const char *domain, const char *op) {
    (void)r;
    const nc_card *real = nc_ops_registry()->find(nc_ops_registry(), domain, op);
    for (size_t i = 0; !real && i < sizeof cards / sizeof cards[0]; i++) {
        const char *own = cards[i].domain ? cards[i].domain : "";
        if (strcmp(cards[i].name, op) == 0 && strcmp(own, domain) == 0) real = &cards[i];
    }
    return real;
}

const nc_registry nc_test_cards = {.find = find};
