/* ops/attention/rotary.c: the card of RotaryEmbedding: pairs of columns turned by the angles of their row's position.
 * A rotation's gradient is the rotation back; by the caches it is that of what the op is made of. The kernel is in
 * rotary_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code rotary_infer(nc_infer *c) {
    int rank, cache;
    bool ids = c->node->n_in > 3 && c->node->in[3] != NULL;
    if (nc_in_rank(c, 0, &rank) && rank != 3 && rank != 4)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected 3 or 4", rank);
    if (nc_in_rank(c, 0, &rank) && rank == 3 &&
        (!nc_attr_has(c->node, "num_heads") || nc_attr_int(c->node, "num_heads") < 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "X has 3 dims: num_heads is needed");
    for (int i = 1; i < 3; i++)
        if (nc_in_rank(c, i, &cache) && cache != (ids ? 2 : 3))
            NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d", i == 1 ? "cos_cache" : "sin_cache", cache,
                    ids ? 2 : 3);
    if (nc_in_rank(c, 3, &rank) && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "position_ids has %d dims, expected 2", rank);
    return nc_out_like(c, 0, 0);
}

/* ---- what it is made of ---- */

static nc_value *slice(nc_builder *b, nc_value *x, int64_t first, int64_t end, int64_t step) {
    nc_value *axis = nc_build_ints(b, &(int64_t){-1}, 1);
    return nc_build1(b, "Slice", 5, x, nc_build_ints(b, &first, 1), nc_build_ints(b, &end, 1), axis,
                     nc_build_ints(b, &step, 1));
}

static nc_value *join(nc_builder *b, nc_value *x, nc_value *y) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    return nc_build_attr1(b, "", "Concat", (nc_value *[]){x, y}, 2, &axis, 1);
}

static nc_value *unsqueeze(nc_builder *b, nc_value *x, int64_t axis) {
    return nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, &axis, 1));
}

/* (B,S,1,R/2) of a table, by positions where there are some. */
static nc_value *angles(nc_builder *b, nc_value *table, nc_value *ids, int64_t part) {
    if (ids != NULL) table = nc_build1(b, "Gather", 2, table, ids);
    if (part > 0) table = slice(b, table, 0, part / 2, 1);
    return unsqueeze(b, table, 2);
}

/* x (B,S,H,R): its pairs turned. */
static nc_value *turned(nc_builder *b, nc_value *x, nc_value *cos, nc_value *sin, bool interleaved) {
    const nc_attr halves[] = {{.name = "axis", .kind = NC_A_INT, .i = -1},
                              {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_value *p, *q;
    if (interleaved) {
        p = slice(b, x, 0, INT64_MAX, 2), q = slice(b, x, 1, INT64_MAX, 2);
    } else {
        nc_node *both = nc_build(b, "", "Split", &x, 1, 2, halves, 2);
        if (both == NULL) return NULL;
        p = both->out[0], q = both->out[1];
    }
    nc_value *re = nc_build1(b, "Sub", 2, nc_build1(b, "Mul", 2, p, cos), nc_build1(b, "Mul", 2, q, sin));
    nc_value *im = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, p, sin), nc_build1(b, "Mul", 2, q, cos));
    if (!interleaved) return join(b, re, im);
    return nc_build_reshape_like(b, join(b, unsqueeze(b, re, -1), unsqueeze(b, im, -1)), x);
}

static nc_code rotary_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    int64_t part = nc_attr_int(n, "rotary_embedding_dim"), heads = nc_attr_int(n, "num_heads");
    if (in[0]->type == NULL || in[0]->type->rank < 3)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "the gradient by the caches needs a known rank");
    bool packed = in[0]->type->rank == 3;
    nc_value *ids = n->n_in > 3 ? in[3] : NULL;
    nc_value *x = packed ? nc_build1(b, "Reshape", 2, in[0], nc_build_ints(b, (int64_t[]){0, 0, heads, -1}, 4))
                         : nc_build_transpose(b, in[0], (int64_t[]){0, 2, 1, 3}, 4);
    nc_value *cos = angles(b, in[1], ids, part), *sin = angles(b, in[2], ids, part);
    nc_value *y = turned(b, part > 0 ? slice(b, x, 0, part, 1) : x, cos, sin, nc_attr_int(n, "interleaved") != 0);
    if (part > 0) y = join(b, y, slice(b, x, part, INT64_MAX, 1));
    out[0] = packed ? nc_build_reshape_like(b, y, in[0]) : nc_build_transpose(b, y, (int64_t[]){0, 2, 1, 3}, 4);
    return b->code;
}

static nc_code rotary_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    const nc_node *n = g->node;
    if (dy == NULL) return NC_OK;
    if (g->wants[1] || g->wants[2]) return nc_grad_by_parts(g, rotary_parts);
    if (!g->wants[0]) return NC_OK;
    nc_value *in[4] = {dy, nc_grad_x(g, 1), nc_build1(g->b, "Neg", 1, nc_grad_x(g, 2)), NULL};
    int n_in = n->n_in > 3 && n->in[3] != NULL ? 4 : 3;
    if (n_in == 4) in[3] = nc_grad_x(g, 3);
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "RotaryEmbedding", in, n_in, n->attrs, n->n_attrs));
    return nc_grad_end(g);
}

#define T_ROTARY (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version versions[] = {
    {.since = 23,
     IN({"X", T_ROTARY}, {"cos_cache", SAME(0)}, {"sin_cache", SAME(0)}, {"position_ids", T_I64, OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("interleaved", 0), A_INT_OPT("num_heads"), A_INT("rotary_embedding_dim", 0))},
    {0}};

const nc_card nc_card_rotary_embedding = {.name = "RotaryEmbedding",
                                          .doc = "Turns pairs of columns by the angles of their position.",
                                          .versions = versions,
                                          .no_grad_in = 1u << 3,
                                          .settings_in = 3u << 1,
                                          .infer = rotary_infer,
                                          .grad = rotary_grad};
