/* ops/reduce/reduce_grad.c: gradients of the reductions as ordinary nodes: dy is
 * spread back over the axes that were reduced. Axes that are known only in the run are passed on as a value. */
#include "ops/reduce/reduce_grad.h"

#include "ops/build.h"
#include "ops/reduce/reduce.h"

/* The axes of the forward node: none at all, all of them, or the value that names them. */
typedef struct axes {
    bool none, all;
    nc_value *value;
} axes;

static axes axes_of(nc_grad *g) {
    const nc_node *n = g->node;
    const nc_attr *attr = nc_node_attr(n, "axes"), *noop = nc_node_attr(n, "noop_with_empty_axes");
    const nc_value *in = n->n_in > 1 ? n->in[1] : NULL;
    bool empty_is_none = noop != NULL && noop->i != 0;
    if (n->in[0]->type != NULL && n->in[0]->type->rank == 0) return (axes){.none = true};
    if (attr != NULL && attr->n > 0) return (axes){.value = nc_build_ints(g->b, attr->ints, attr->n)};
    if (in == NULL || (in->elems != NULL && in->n_elems == 0) || (in->lit != NULL && in->lit->n == 0))
        return (axes){.none = empty_is_none, .all = !empty_is_none};
    int64_t v[NC_MAX_RANK], count;
    if (in->lit != NULL && nc_literal_ints(in->lit, v, NC_MAX_RANK, &count))
        return (axes){.value = nc_build_ints(g->b, v, (int)count)};
    return (axes){.value = nc_grad_x(g, 1)};
}

/* v, of the result's shape, with the reduced dims as 1; a scalar broadcasts as it is. */
static nc_value *with_dims(nc_grad *g, const axes *a, nc_value *v) {
    if (a->none || a->all || nc_attr_int(g->node, "keepdims") != 0) return v;
    return nc_build1(g->b, "Unsqueeze", 2, v, a->value);
}

nc_code nc_reduce_grad_sum(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    nc_grad_set(g, 0, a.none ? dy : nc_build_expand_like(g->b, with_dims(g, &a, dy), nc_grad_like(g, 0)));
    return nc_grad_end(g);
}

static bool const_numel(const nc_value *v, double *n) {
    int64_t size;
    *n = 1;
    if (v->type == NULL || v->type->rank < 0) return false;
    for (int i = 0; i < v->type->rank; i++) {
        if (!nc_dim_is_const(v->type->dims[i], &size)) return false;
        *n *= (double)size;
    }
    return true;
}

/* Elements of y over elements of x, in dy's type. */
static nc_value *share(nc_grad *g, nc_value *dy) {
    double nx, ny;
    nc_dtype t = dy->type->elem;
    if (const_numel(g->node->in[0], &nx) && const_numel(dy, &ny)) return nc_build_scalar(g->b, t, nx > 0 ? ny / nx : 0);
    nc_value *size_y = nc_build_cast(g->b, nc_build1(g->b, "Size", 1, dy), t);
    nc_value *size_x = nc_build_cast(g->b, nc_build1(g->b, "Size", 1, nc_grad_x(g, 0)), t);
    return nc_build1(g->b, "Div", 2, size_y, size_x);
}

nc_code nc_reduce_grad_mean(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    if (a.none) {
        nc_grad_set(g, 0, dy);
        return nc_grad_end(g);
    }
    nc_value *part = nc_build1(g->b, "Mul", 2, dy, share(g, dy));
    nc_grad_set(g, 0, nc_build_expand_like(g->b, with_dims(g, &a, part), nc_grad_like(g, 0)));
    return nc_grad_end(g);
}

static nc_value *count_along(nc_grad *g, const axes *a, nc_value *mask) {
    nc_value *in[2] = {mask, a->value};
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    return nc_build_attr1(g->b, "", "ReduceSum", in, a->all ? 1 : 2, &keep, 1);
}

nc_code nc_reduce_grad_extreme(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    if (a.none) {
        nc_grad_set(g, 0, dy);
        return nc_grad_end(g);
    }
    nc_value *y = with_dims(g, &a, nc_grad_y(g, 0));
    nc_value *hit = nc_build1(g->b, "Equal", 2, nc_grad_x(g, 0), y);
    nc_value *mask = nc_build_cast(g->b, hit, dy->type->elem);
    nc_value *part = nc_build1(g->b, "Div", 2, with_dims(g, &a, dy), count_along(g, &a, mask));
    nc_grad_set(g, 0, nc_build1(g->b, "Mul", 2, mask, part));
    return nc_grad_end(g);
}

nc_code nc_reduce_grad_log_sum_exp(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    nc_value *rest = nc_build1(g->b, "Sub", 2, nc_grad_x(g, 0), with_dims(g, &a, nc_grad_y(g, 0)));
    nc_grad_set(g, 0, nc_build1(g->b, "Mul", 2, nc_build1(g->b, "Exp", 1, rest), with_dims(g, &a, dy)));
    return nc_grad_end(g);
}

nc_code nc_reduce_grad_l2(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    nc_value *y = nc_grad_y(g, 0), *zero = nc_build_scalar(g->b, dy->type->elem, 0);
    nc_value *part =
        nc_build1(g->b, "Where", 3, nc_build1(g->b, "Equal", 2, y, zero), zero, nc_build1(g->b, "Div", 2, dy, y));
    nc_grad_set(g, 0, nc_build1(g->b, "Mul", 2, nc_grad_x(g, 0), with_dims(g, &a, part)));
    return nc_grad_end(g);
}

/* ---- ReduceProd ---- */

/* The axes as numbers, in order; false: known only in the run. */
static bool known_axes(nc_grad *g, const axes *a, int64_t *at, int *n) {
    int rank = g->node->in[0]->type != NULL ? g->node->in[0]->type->rank : -1;
    int64_t given[NC_MAX_RANK], count = 0;
    nc_axes mask = 0;
    if (rank < 0) return false;
    if (a->all) mask = nc_axes_below(rank);
    const nc_literal *lit = a->value != NULL ? a->value->lit : NULL;
    if (a->value != NULL && (lit == NULL || !nc_literal_ints(lit, given, NC_MAX_RANK, &count))) return false;
    if (a->value != NULL && !nc_reduce_mask(given, (int)count, rank, &mask)) return false;
    *n = 0;
    for (int i = 0; i < rank; i++)
        if (mask >> i & 1) at[(*n)++] = i;
    return true;
}

/* Per element, the product of all others along the axis: of those before times of those behind. */
static nc_value *others(nc_builder *b, nc_value *x, int64_t axis) {
    nc_value *in[2] = {x, nc_build_int(b, axis)};
    nc_attr attrs[2] = {{.name = "exclusive", .kind = NC_A_INT, .i = 1}, {.name = "reverse", .kind = NC_A_INT, .i = 1}};
    nc_value *before = nc_build_attr1(b, "nacre", "CumProd", in, 2, attrs, 1);
    nc_value *behind = nc_build_attr1(b, "nacre", "CumProd", in, 2, attrs, 2);
    return nc_build1(b, "Mul", 2, before, behind);
}

nc_code nc_reduce_grad_prod(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *x[NC_MAX_RANK + 1];
    int64_t at[NC_MAX_RANK];
    int n;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    axes a = axes_of(g);
    if (g->b->code == NC_OK && !known_axes(g, &a, at, &n))
        NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "the gradient needs axes and a rank that are known before the run");
    NC_TRY(g->b->code);
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    x[0] = nc_grad_x(g, 0);
    for (int i = 0; i < n; i++) {
        nc_value *in[2] = {x[i], nc_build_ints(g->b, &at[i], 1)};
        x[i + 1] = i + 1 < n ? nc_build_attr1(g->b, "", "ReduceProd", in, 2, &keep, 1) : NULL;
    }
    nc_value *dx = with_dims(g, &a, dy);
    for (int i = n - 1; i >= 0; i--) dx = nc_build1(g->b, "Mul", 2, dx, others(g->b, x[i], at[i]));
    nc_grad_set(g, 0, dx);
    return nc_grad_end(g);
}
