/* ops/norm/rows.c: see rows.h. */
#include "ops/norm/rows.h"

#include "ops/card.h"
#include "ops/norm/batch.h"

nc_norm_how nc_norm_read(const nc_node *n, nc_norm_kind kind) {
    return (nc_norm_how){
        .axis = nc_attr_int(n, "axis"),
        .groups = kind == NC_NORM_BY_GROUP ? nc_attr_int(n, "num_groups") : 0,
        .epsilon = nc_attr_float(n, "epsilon"),
        .momentum = nc_attr_float(n, "momentum"),
        .center = kind == NC_NORM_GRADIENT ? nc_attr_int(n, "center") != 0 : kind != NC_NORM_UNCENTERED,
        .by_group = kind == NC_NORM_BY_GROUP && n->version->since < 21,
        .trains = kind == NC_NORM_BATCH_GRADIENT ? nc_attr_int(n, "constant") == 0
                                                 : kind == NC_NORM_BY_BATCH && nc_batch_trains(n),
        .spatial = kind == NC_NORM_BATCH_GRADIENT ? nc_attr_int(n, "spatial") != 0
                                                  : kind == NC_NORM_BY_BATCH && nc_batch_is_spatial(n)};
}

int nc_norm_axis(const nc_norm_how *s, const nc_tensor *x) { return (int)(s->axis < 0 ? s->axis + x->rank : s->axis); }

int64_t nc_norm_product(const nc_tensor *t, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= t->dims[i];
    return n;
}

bool nc_norm_spread(const nc_tensor *v, const nc_tensor *x, int axis, int64_t *strides) {
    int64_t dims[NC_MAX_RANK];
    int rank = x->rank - axis, r_out;
    nc_tensor t;
    nc_tensor_copy(&t, v);
    while (t.rank > rank && t.dims[0] == 1) { /* leading ones beyond the normalized dims */
        for (int i = 1; i < t.rank; i++) t.dims[i - 1] = t.dims[i], t.strides[i - 1] = t.strides[i];
        t.rank--;
    }
    if (!nc_broadcast(t.dims, t.rank, x->dims + axis, rank, dims, &r_out) || r_out != rank) return false;
    for (int i = 0; i < rank; i++)
        if (dims[i] != x->dims[axis + i]) return false;
    nc_broadcast_strides(&t, rank, dims, strides);
    return true;
}

nc_code nc_norm_not_spread(const nc_call *c) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "scale or bias does not spread over the normalized dims");
}

nc_code nc_norm_counts(const nc_call *c, int from, int to, int64_t want) {
    for (int i = from; i < to; i++)
        if (nc_tensor_numel(c->in[i]) != want)
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, %lld are expected", i,
                               (long long)nc_tensor_numel(c->in[i]), (long long)want);
    return NC_OK;
}

nc_code nc_norm_groups(const nc_norm_how *s, const nc_call *c, int64_t *groups) {
    int64_t C = c->in[0]->dims[1], G = s->groups > 0 ? s->groups : C;
    if (G != 0 && C % G != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld channels do not divide into %lld groups",
                           (long long)C, (long long)G);
    *groups = G;
    return nc_norm_counts(c, 1, 3, s->by_group ? G : C);
}
