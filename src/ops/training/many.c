/* ops/training/many.c: the same work over many tensors as one node, for kernels that do it in one launch
 * (plan/lower_many.c): nacre.AccumulateMany and nacre.CastMany. Where there is none they are taken apart. */
#include "ops/training/training.h"

static nc_code check_all_there(nc_infer *c) {
    for (int i = 0; i < c->node->n_in; i++)
        if (!c->node->in[i]) NC_FAIL(c->w, NC_E_BAD_GRAPH, "input %d is left out, all are expected", i);
    return NC_OK;
}

/* ---- sums ---- */

static nc_code accumulate_infer(nc_infer *c) {
    int n = c->node->n_out;
    if (c->node->n_in != 2 * n + 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs do not fit %d sums: expected %d", c->node->n_in, n, 2 * n + 1);
    NC_TRY(check_all_there(c));
    for (int i = 0; i < n; i++) {
        const nc_type *sum = nc_in(c, i);
        int rank;
        if (sum && sum->rank >= 0 && nc_in_rank(c, n + i, &rank) && rank != sum->rank)
            NC_FAIL(c->w, NC_E_SHAPE, "sum %d has %d dims, its value %d", i, sum->rank, rank);
        for (int d = 0; sum && d < sum->rank; d++) NC_TRY(nc_in_expect(c, n + i, d, sum->dims[d]));
        NC_TRY(nc_out_like(c, i, i));
    }
    return NC_OK;
}

static nc_code accumulate_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *overwrite = nc_training_rank0(b, n->in[2 * n->n_out]);
    for (int i = 0; i < n->n_out; i++) {
        nc_value *sum = n->in[i], *x = nc_build_cast(b, n->in[n->n_out + i], nc_training_elem(sum));
        out[i] = nc_build1(b, "Where", 3, overwrite, x, nc_training_op2(b, "Add", sum, x));
    }
    return b->code;
}

/* ---- casts ---- */

static nc_code cast_infer(nc_infer *c) {
    nc_dtype to = (nc_dtype)nc_attr_int(c->node, "to");
    if (c->node->n_in != c->node->n_out || !nc_dtype_is_float(to))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs and %d outputs of type %d: expected as many, of floats", c->node->n_in,
                c->node->n_out, (int)to);
    NC_TRY(check_all_there(c));
    for (int i = 0; i < c->node->n_out; i++) {
        const nc_type *t = nc_in(c, i);
        if (t) NC_TRY(t->rank < 0 ? nc_out_unknown(c, i, to, -1) : nc_out(c, i, to, t->rank, t->dims));
    }
    return NC_OK;
}

static nc_code cast_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    for (int i = 0; i < n->n_out; i++) out[i] = nc_build_cast(b, n->in[i], (nc_dtype)nc_attr_int(n, "to"));
    return b->code;
}

/* ---- cards ---- */

static const nc_op_version accumulate_versions[] = {
    {.since = 1, IN({"inputs", T_FLOAT_ALL | T_BOOL, MIXED}), OUT({"outputs", T_FLOAT_ALL, MIXED}), NO_ATTR}, {0}};
static const nc_op_version cast_versions[] = {
    {.since = 1, IN({"inputs", T_FLOAT_ALL, MIXED}), OUT({"outputs", T_FLOAT_ALL, MIXED}), ATTR(A_INT_REQ("to"))}, {0}};

const nc_card nc_card_training_accumulate_many = {
    .name = "AccumulateMany",
    .domain = "nacre",
    .doc = "The next versions of n sums: n values, or where these shall not overwrite them the sums plus the values.",
    .versions = accumulate_versions,
    .traits = NC_IN_PLACE,
    .n_updates = INT32_MAX,
    .infer = accumulate_infer,
    .decompose = accumulate_decompose,
    .no_grad = "it is made when gradients are there"};
const nc_card nc_card_training_cast_many = {.name = "CastMany",
                                            .domain = "nacre",
                                            .doc = "Tensors of floats, each as elements of another type of floats.",
                                            .versions = cast_versions,
                                            .infer = cast_infer,
                                            .decompose = cast_decompose,
                                            .no_grad = "it is made when gradients are there"};
