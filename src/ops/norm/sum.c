/* ops/norm/sum.c: the card of nacre.SumNorm, which lowering makes of a sum in front of a LayerNormalization: Sum is
 * Other and X, of which dropout by `ratio` may have left some, where there is a State; Y is its norm, of the type `to`.
 */
#include "ops/card.h"
#include "ops/norm/norm.h"

enum { X, OTHER, SCALE, BIAS, STATE };
enum { Y, MEAN, INV_STD, SUM };

nc_value *nc_norm_dropped(nc_builder *b, const nc_node *n, nc_value *v, nc_value *state) {
    if (state == NULL) return v;
    nc_value *in[4] = {v, nc_build_scalar(b, NC_FLOAT, nc_attr_float(n, "ratio")), nc_build_scalar(b, NC_BOOL, 1),
                       state};
    nc_value *y = nc_build_attr1(b, "nacre", "PhiloxDropout", in, 4, NULL, 0);
    if (y != NULL) y->def->random_id = n->random_id;
    return y;
}

static nc_code sum_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, OTHER);
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1);
    int axis = 0;
    int64_t to = nc_attr_int(c->node, "to");
    NC_TRY(nc_in_same(c, X, OTHER));
    NC_TRY(nc_out_like(c, SUM, OTHER));
    if (x == NULL) return NC_OK;
    if (x->rank < 0) NC_FAIL(c->w, NC_E_UNSUPPORTED, "the norm of a sum needs a known rank");
    if (!nc_dtype_is_float((nc_dtype)to))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "to is %lld, expected a type of floats", (long long)to);
    NC_TRY(nc_axis(c, nc_attr_int(c->node, "axis"), x->rank, &axis));
    NC_TRY(nc_out(c, Y, (nc_dtype)to, x->rank, x->dims));
    for (int k = 0; k < x->rank; k++) dims[k] = k < axis ? x->dims[k] : one;
    NC_TRY(nc_out(c, MEAN, NC_FLOAT, x->rank, dims));
    return nc_out(c, INV_STD, NC_FLOAT, x->rank, dims);
}

static nc_value *in_type(nc_builder *b, const nc_node *n, int i, nc_dtype t) {
    return n->n_in > i && n->in[i] != NULL ? nc_build_cast(b, n->in[i], t) : NULL;
}

static nc_code sum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[OTHER]->type->elem;
    nc_value *x = nc_norm_dropped(b, n, n->in[X], n->n_in > STATE ? n->in[STATE] : NULL);
    nc_value *sum = nc_build1(b, "Add", 2, n->in[OTHER], nc_build_cast(b, x, t));
    nc_value *in[3] = {sum, in_type(b, n, SCALE, t), in_type(b, n, BIAS, t)};
    bool wanted[3] = {true, n->n_out > MEAN && n->out[MEAN] != NULL, n->n_out > INV_STD && n->out[INV_STD] != NULL};
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = nc_attr_int(n, "axis")},
                        {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")}};
    nc_node *norm = nc_build_wanted(b, "", "LayerNormalization", in, in[2] != NULL ? 3 : 2, wanted, 3, attrs, 2);
    if (norm == NULL) return b->code;
    out[Y] = nc_build_cast(b, norm->out[0], (nc_dtype)nc_attr_int(n, "to"));
    for (int i = MEAN; i <= INV_STD; i++)
        if (wanted[i]) out[i] = norm->out[i];
    if (n->n_out > SUM && n->out[SUM] != NULL) out[SUM] = sum;
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT_ALL}, {"Other", T_FLOAT_ALL}, {"Scale", T_FLOAT_ALL}, {"B", SAME(2), OPTIONAL},
        {"State", T_I64, OPTIONAL}),
     OUT({"Y", T_FLOAT_ALL}, {"Mean", T_FLOAT, OPTIONAL}, {"InvStdDev", T_FLOAT, OPTIONAL}, {"Sum", SAME(1)}),
     ATTR(A_FLOAT("epsilon", 1e-5f), A_INT("axis", -1), A_INT("to", 1), A_FLOAT("ratio", 0))},
    {0}};

const nc_card nc_card_sum_norm = {.name = "SumNorm",
                                  .domain = "nacre",
                                  .no_grad = NC_LOWERED_NO_GRAD,
                                  .doc = "A sum, one part of which dropout may thin out, and its LayerNormalization.",
                                  .versions = versions,
                                  .infer = sum_infer,
                                  .decompose = sum_decompose};
