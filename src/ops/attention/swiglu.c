/* ops/attention/swiglu.c: the card of SwiGLU: a * sigmoid(alpha * a) * b, made of those lanes. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code swiglu_infer(nc_infer *c) {
    const nc_type *a = nc_in(c, 0), *b = nc_in(c, 1);
    int64_t x, y;
    if (a != NULL && b != NULL && a->rank >= 0 && b->rank >= 0) {
        if (a->rank != b->rank) NC_FAIL(c->w, NC_E_SHAPE, "A has %d dims, B has %d", a->rank, b->rank);
        for (int i = 0; i < a->rank; i++)
            if (nc_dim_is_const(a->dims[i], &x) && nc_dim_is_const(b->dims[i], &y) && x != y)
                NC_FAIL(c->w, NC_E_SHAPE, "A has %lld at dim %d, B has %lld", (long long)x, i, (long long)y);
    }
    return nc_out_like(c, 0, 0);
}

static nc_code swiglu_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *a = n->in[0], *x = a;
    double alpha = nc_attr_float(n, "alpha");
    if (alpha != 1) x = nc_build1(b, "Mul", 2, a, nc_build_scalar(b, a->type->elem, alpha));
    x = nc_build1(b, "Mul", 2, a, nc_build1(b, "Sigmoid", 1, x));
    out[0] = nc_build1(b, "Mul", 2, x, n->in[1]);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 28, IN({"A", T_FLOAT_ALL}, {"B", SAME(0)}), OUT({"Y", SAME(0)}), ATTR(A_FLOAT("alpha", 1))}, {0}};

const nc_card nc_card_swiglu = {.name = "SwiGLU",
                                .doc = "b times a * sigmoid(alpha * a).",
                                .versions = versions,
                                .infer = swiglu_infer,
                                .decompose = swiglu_decompose};
