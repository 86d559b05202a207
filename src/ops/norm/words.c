/* ops/norm/words.c: the pieces of normalizations, as nodes. Which op is made of which is said by the cards. */
#include "ops/norm/norm.h"

nc_dtype nc_norm_wide(nc_dtype t) { return t == NC_FLOAT16 || t == NC_BFLOAT16 ? NC_FLOAT : t; }

int nc_norm_axes(int from, int to, int64_t *axes) {
    for (int i = from; i < to; i++) axes[i - from] = i;
    return to > from ? to - from : 0;
}

nc_value *nc_norm_mean_of(nc_builder *b, nc_value *x, const int64_t *axes, int n) {
    nc_value *in[2] = {x, nc_build_ints(b, axes, n)};
    nc_attr attrs[2] = {{.name = "keepdims", .kind = NC_A_INT, .i = 1},
                        {.name = "noop_with_empty_axes", .kind = NC_A_INT, .i = 1}};
    return nc_build_attr1(b, "", "ReduceMean", in, 2, attrs, 2);
}

nc_value *nc_norm_inverse(nc_builder *b, nc_value *var, double epsilon) {
    if (b->code != NC_OK) return NULL;
    nc_value *sum = nc_build1(b, "Add", 2, var, nc_build_scalar(b, var->type->elem, epsilon));
    return nc_build1(b, "Reciprocal", 1, nc_build1(b, "Sqrt", 1, sum));
}

nc_norm_pieces nc_norm_pieces_of(nc_builder *b, nc_value *x, const int64_t *axes, int n, double epsilon, bool center) {
    nc_norm_pieces p = {0};
    nc_value *d = x;
    if (center) {
        p.mean = nc_norm_mean_of(b, x, axes, n);
        d = nc_build1(b, "Sub", 2, x, p.mean);
    }
    p.var = nc_norm_mean_of(b, nc_build1(b, "Mul", 2, d, d), axes, n);
    p.inv_std = nc_norm_inverse(b, p.var, epsilon);
    p.normal = nc_build1(b, "Mul", 2, d, p.inv_std);
    return p;
}

nc_value *nc_norm_channels(nc_builder *b, nc_value *v, int rank) {
    int64_t axes[NC_MAX_RANK];
    int n = nc_norm_axes(1, rank - 1, axes);
    return n == 0 ? v : nc_build1(b, "Unsqueeze", 2, v, nc_build_ints(b, axes, n));
}

nc_code nc_norm_rank(nc_builder *b, const nc_node *n, int least, int *rank) {
    const nc_type *x = n->in[0]->type;
    if (x == NULL || x->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    if (x->rank < least) NC_FAIL(b->w, NC_E_SHAPE, "X has %d dims, at least %d are expected", x->rank, least);
    *rank = x->rank;
    return NC_OK;
}

bool nc_norm_fits_rows(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    int64_t axis = nc_attr_int(n, "axis"), size;
    *why = "scale or bias differs from row to row";
    for (int i = 1; i < n->n_in && x != NULL && x->rank >= 0; i++) {
        const nc_type *t = n->in[i] != NULL ? n->in[i]->type : NULL;
        int most = (int)(axis < 0 ? -axis : x->rank - axis);
        for (int k = 0; t != NULL && k < t->rank - most; k++)
            if (!nc_dim_is_const(t->dims[k], &size) || size != 1) return false;
    }
    return true;
}
