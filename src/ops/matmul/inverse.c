/* ops/matmul/inverse.c: the card of Inverse (com.microsoft). The kernel is in inverse_cpu.c, the gradient is two
 * products. */
#include "ops/contrib.h"

static nc_code inverse_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank;
    int64_t m, n;
    if (x == NULL) return NC_OK;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_like(c, 0, 0);
    if (rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    if (nc_dim_is_const(x->dims[rank - 2], &m) && nc_dim_is_const(x->dims[rank - 1], &n) && m != n)
        NC_FAIL(c->w, NC_E_SHAPE, "matrices of %lld rows and %lld columns are not square", (long long)m, (long long)n);
    return nc_out_like(c, 0, 0);
}

/* dX = -Y' dY Y'. */
static nc_code inverse_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *turned = nc_build_swap_last(g->b, nc_grad_y(g, 0));
    nc_value *dx = nc_build1(g->b, "MatMul", 2, nc_build1(g->b, "MatMul", 2, turned, dy), turned);
    nc_grad_set(g, 0, nc_build1(g->b, "Neg", 1, dx));
    return nc_grad_end(g);
}

static const nc_op_version versions[] = {{.since = 1, IN({"X", T_FLOAT_ALL}), OUT({"Y", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_inverse = {.name = "Inverse",
                                 .domain = NC_MICROSOFT,
                                 .doc = "Inverses of square matrices.",
                                 .versions = versions,
                                 .infer = inverse_infer,
                                 .grad = inverse_grad};
