/* ops/scatter/gather_nd.c: cards of GatherND, of its gradient nacre.GatherNDGrad, and of ScatterND: whole slices by
 * index tuples, the last dim of indices. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/scatter/scatter.h"
#include "ops/standard.h"

static int64_t batch_dims(const nc_node *n) {
    return nc_node_attr(n, "batch_dims") != NULL ? nc_attr_int(n, "batch_dims") : 0;
}

/* How many dims of data an index tuple fixes; -1: not known. */
static nc_code tuple_size(nc_infer *c, const nc_type *x, const nc_type *at, int64_t batch, int64_t *m) {
    *m = -1;
    if (at == NULL || at->rank < 0) return NC_OK;
    if (at->rank == 0) NC_FAIL(c->w, NC_E_SHAPE, "indices has no dims, expected at least 1");
    if (batch < 0 || batch >= at->rank || (x->rank >= 0 && batch > x->rank))
        NC_FAIL(c->w, NC_E_SHAPE, "batch_dims is %lld, indices has %d dims, data %d", (long long)batch, at->rank,
                x->rank);
    if (!nc_dim_is_const(at->dims[at->rank - 1], m)) return NC_OK;
    if (x->rank >= 0 && batch + *m > x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "indices pick along %lld dims behind %lld batch dims, data has %d", (long long)*m,
                (long long)batch, x->rank);
    return NC_OK;
}

/* ---- GatherND ---- */

static nc_code gather_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1);
    const nc_dim *dims[2 * NC_MAX_RANK];
    int64_t m, batch = batch_dims(c->node);
    int n = 0;
    if (x == NULL) return NC_OK;
    NC_TRY(tuple_size(c, x, at, batch, &m));
    if (m < 0 || x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    for (int k = 0; k < at->rank - 1; k++) dims[n++] = at->dims[k];
    for (int k = (int)(batch + m); k < x->rank; k++) dims[n++] = x->dims[k];
    return nc_out(c, 0, x->elem, n, dims);
}

static nc_attr batch_attr(const nc_node *n) {
    return (nc_attr){.name = "batch_dims", .kind = NC_A_INT, .i = batch_dims(n)};
}

static nc_code gather_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[3] = {nc_build_shape(g->b, nc_grad_like(g, 0)), nc_grad_x(g, 1), dy};
    nc_attr batch = batch_attr(g->node);
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "GatherNDGrad", in, 3, &batch, 1));
    return nc_grad_end(g);
}

#define GATHER(types) IN({"data", types}, {"indices", T_I64}), OUT({"output", SAME(0)})
static const nc_op_version gather_versions[] = {{.since = 13, GATHER(T_TENSOR_ALL), ATTR(A_INT("batch_dims", 0))},
                                                {.since = 12, GATHER(T_TENSOR), ATTR(A_INT("batch_dims", 0))},
                                                {.since = 11, GATHER(T_TENSOR), NO_ATTR},
                                                {0}};

const nc_card nc_card_gather_nd = {.name = "GatherND",
                                   .doc = "Slices of data, each picked by an index tuple.",
                                   .versions = gather_versions,
                                   .no_grad_in = 1u << 1,
                                   .infer = gather_infer,
                                   .grad = gather_grad};

/* ---- nacre.GatherNDGrad ---- */

static nc_code gather_grad_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 2);
    int64_t m;
    if (dy == NULL) return NC_OK;
    NC_TRY(nc_out_of_shape(c, dy->elem, 0, -1));
    return tuple_size(c, c->out[0].type, nc_in(c, 1), batch_dims(c->node), &m);
}

static nc_code gather_grad_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[2]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_x(g, 1)};
    nc_attr batch = batch_attr(g->node);
    nc_grad_set(g, 2, nc_build_attr1(g->b, "", "GatherND", in, 2, &batch, 1));
    return nc_grad_end(g);
}

/* The tuples with their places along the batch dims in front: ScatterND knows no batches. */
static nc_value *whole_tuples(nc_builder *b, nc_value *shape, nc_value *at, int batch) {
    int64_t ones[NC_MAX_RANK], rank = at->type->rank;
    nc_value *parts[NC_MAX_RANK];
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1}, first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *tuples[2] = {nc_build1(b, "Slice", 3, nc_build_shape(b, at), nc_build_ints(b, &(int64_t){0}, 1),
                                     nc_build_ints(b, &(int64_t){-1}, 1)),
                           nc_build_ints(b, &(int64_t){1}, 1)};
    nc_value *column = nc_build_attr1(b, "", "Concat", tuples, 2, &first, 1);
    for (int k = 0; k < batch; k++) {
        for (int i = 0; i < rank; i++) ones[i] = i == k ? -1 : 1;
        nc_value *size = nc_build1(b, "Gather", 2, shape, nc_build_int(b, k));
        nc_value *places = nc_build1(b, "Range", 3, nc_build_int(b, 0), size, nc_build_int(b, 1));
        parts[k] =
            nc_build1(b, "Expand", 2, nc_build1(b, "Reshape", 2, places, nc_build_ints(b, ones, (int)rank)), column);
    }
    parts[batch] = at;
    return nc_build_attr1(b, "", "Concat", parts, batch + 1, &last, 1);
}

nc_code nc_gather_nd_grad_standard(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *shape = n->in[0], *at = n->in[1], *dy = n->in[2];
    int64_t batch = batch_dims(n);
    if (!dy->type || !at->type || at->type->rank <= batch)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    nc_value *zeros = nc_build1(b, "Expand", 2, nc_build_scalar(b, dy->type->elem, 0), shape);
    nc_value *in[3] = {zeros, batch > 0 ? whole_tuples(b, shape, at, (int)batch) : at, dy};
    nc_attr add = {.name = "reduction", .kind = NC_A_STRING, .s = {"add", 3}};
    out[0] = nc_build_attr1(b, "", "ScatterND", in, 3, &add, 1);
    return b->code;
}

static const nc_op_version gather_grad_versions[] = {{.since = 1,
                                                      IN({"shape", T_I64}, {"indices", T_I64}, {"dY", T_FLOAT_ALL}),
                                                      OUT({"dX", SAME(2)}),
                                                      ATTR(A_INT("batch_dims", 0))},
                                                     {0}};

const nc_card nc_card_gather_nd_grad = {.name = "GatherNDGrad",
                                        .domain = "nacre",
                                        .doc = "dY's slices added up where the index tuples say, else 0.",
                                        .versions = gather_grad_versions,
                                        .host_in = 1,
                                        .no_grad_in = 3,
                                        .infer = gather_grad_infer,
                                        .grad = gather_grad_grad};

/* ---- ScatterND ---- */

static nc_code scatter_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1), *u = nc_in(c, 2);
    int64_t m;
    if (x == NULL) return NC_OK;
    NC_TRY(tuple_size(c, x, at, 0, &m));
    if (m >= 0 && x->rank >= 0 && u != NULL && u->rank >= 0 && u->rank != at->rank - 1 + x->rank - m)
        NC_FAIL(c->w, NC_E_SHAPE, "updates has %d dims, expected %lld", u->rank,
                (long long)(at->rank - 1 + x->rank - m));
    for (int k = 0; m >= 0 && x->rank >= 0 && k < at->rank - 1 + x->rank - m; k++)
        NC_TRY(nc_in_expect(c, 2, k, k < at->rank - 1 ? at->dims[k] : x->dims[k - (at->rank - 1) + m]));
    return nc_out_like(c, 0, 0);
}

static nc_code scatter_grad(nc_grad *g) {
    return nc_scatter_grad(g, &(const nc_scatter_pair){"ScatterND", "GatherND", NULL, 0});
}

#define SCATTER(types) IN({"data", types}, {"indices", T_I64}, {"updates", SAME(0)}), OUT({"output", SAME(0)})
static const nc_op_version scatter_versions[] = {{.since = 18, SCATTER(T_TENSOR_ALL), ATTR(A_STR("reduction", "none"))},
                                                 {.since = 16, SCATTER(T_TENSOR_ALL), ATTR(A_STR("reduction", "none"))},
                                                 {.since = 13, SCATTER(T_TENSOR_ALL), NO_ATTR},
                                                 {.since = 11, SCATTER(T_TENSOR), NO_ATTR},
                                                 {0}};

const nc_card nc_card_scatter_nd = {.name = "ScatterND",
                                    .doc = "data with slices of updates put, added, ... where index tuples say.",
                                    .versions = scatter_versions,
                                    .no_grad_in = 1u << 1,
                                    .infer = scatter_infer,
                                    .grad = scatter_grad};
