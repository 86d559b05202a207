/* ops/attention/rotary_shape.c: see rotary.h. */
#include "ops/attention/rotary.h"

#include "ops/card.h"

nc_rotary nc_rotary_read(const nc_node *n) {
    return (nc_rotary){.interleaved = nc_attr_int(n, "interleaved") != 0,
                       .columns = nc_attr_int(n, "rotary_embedding_dim"),
                       .heads = nc_attr_has(n, "num_heads") ? nc_attr_int(n, "num_heads") : 0};
}

static nc_code check(const nc_call *c, const nc_rotary_shape *j) {
    int64_t n = j->B * j->S, half = j->R / 2;
    bool ids = c->n_in > 3 && c->in[3]->data != NULL;
    for (int i = 1; i < 3; i++) {
        const nc_tensor *t = c->in[i];
        int64_t rows = ids ? t->dims[0] : t->rank == 3 ? t->dims[0] * t->dims[1] : -1;
        if (t->rank < 2 || t->dims[t->rank - 1] != half || (!ids && rows != n) || t->dims[0] != c->in[1]->dims[0])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld columns, %lld are expected",
                               i == 1 ? "cos_cache" : "sin_cache", (long long)t->dims[t->rank - 1], (long long)half);
    }
    if (j->R % 2 != 0 || j->R > j->D)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld columns of %lld cannot be rotated",
                           (long long)j->R, (long long)j->D);
    if (ids && nc_tensor_numel(c->in[3]) != n)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "position_ids has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[3]), (long long)n);
    return NC_OK;
}

nc_code nc_rotary_shape_of(const nc_rotary *r, const nc_call *c, nc_rotary_shape *out) {
    const nc_tensor *x = c->in[0];
    bool packed = x->rank == 3;
    if (packed && (r->heads < 1 || x->dims[2] % r->heads != 0))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld columns do not divide into %lld heads",
                           (long long)x->dims[2], (long long)r->heads);
    nc_rotary_shape j = {.B = x->dims[0],
                         .H = packed ? r->heads : x->dims[1],
                         .S = x->dims[packed ? 1 : 2],
                         .D = packed ? x->dims[2] / r->heads : x->dims[3]};
    j.R = r->columns > 0 ? r->columns : j.D;
    j.batch = j.H * j.S * j.D;
    j.head = packed ? j.D : j.S * j.D;
    j.row = packed ? j.H * j.D : j.D;
    *out = j;
    return nc_tensor_numel(x) == 0 ? NC_OK : check(c, &j);
}
