/* ops/attention/longformer.c: card of com.microsoft's LongformerAttention. A row sees the keys at most `window` places
 * away and those that are marked as global; a row that is marked sees all keys, by projections of its own. It runs, and
 * is differentiated, as two Attentions of ai.onnx, of which the first has a mask (B,1,S,S). */
#include <math.h>

#include "ops/attention/contrib.h"

enum { X, WEIGHT, BIAS, MASK, GLOBAL_WEIGHT, GLOBAL_BIAS, GLOBAL };

static nc_code infer(nc_infer *c) {
    const nc_dim *three = nc_dim_const(c->dims, 3), *H = nc_in_dim(c, X, 2);
    NC_TRY(nc_contrib_rank(c, X, 3));
    NC_TRY(nc_msattn_check_heads(c, "num_heads", H, "input"));
    if (nc_attr_int(c->node, "window") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "window is %lld, expected at least 1", (long long)nc_attr_int(c->node, "window"));
    for (int i = WEIGHT; i <= GLOBAL_WEIGHT; i += GLOBAL_WEIGHT - WEIGHT) {
        NC_TRY(nc_contrib_rank(c, i, 2));
        NC_TRY(nc_in_expect(c, i, 0, H));
        if (H != NULL) NC_TRY(nc_in_expect(c, i, 1, nc_dim_mul(c->dims, H, three)));
        NC_TRY(nc_contrib_vector(c, i + 1, nc_in_dim(c, i, 1)));
    }
    for (int i = MASK; i <= GLOBAL; i += GLOBAL - MASK) {
        NC_TRY(nc_contrib_rank(c, i, 2));
        for (int k = 0; k < 2; k++) NC_TRY(nc_in_expect(c, i, k, nc_in_dim(c, X, k)));
    }
    return nc_out_like(c, 0, X);
}

/* Attention of the input's product with weights i, with `bias` added to the scores. */
static nc_value *attended(nc_builder *b, const nc_node *n, int i, nc_value *bias) {
    int64_t heads = nc_attr_int(n, "num_heads");
    nc_value *qkv[3];
    nc_value *all = nc_build1(b, "Add", 2, nc_build1(b, "MatMul", 2, n->in[X], n->in[i]), n->in[i + 1]);
    if (b->code != NC_OK || nc_msattn_apart(b, all, heads, heads, qkv) != NC_OK) return NULL;
    nc_msattn a = {.q = qkv[0], .k = qkv[1], .v = qkv[2], .bias = bias, .heads = heads, .node = n};
    nc_node *attention = nc_msattn_build(b, &a, (const bool[4]){true});
    return attention != NULL ? attention->out[0] : NULL;
}

/* True (S,S) where row and column are at most `window` apart. */
static nc_value *near(nc_builder *b, const nc_node *n) {
    static const int64_t axes[2] = {0, 1};
    nc_value *S = nc_build1(b, "Squeeze", 1, nc_contrib_size(b, n->in[X], 1));
    nc_value *at = nc_build1(b, "Range", 3, nc_build_int(b, 0), S, nc_build_int(b, 1));
    nc_value *apart = nc_build1(b, "Sub", 2, nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, axes, 1)),
                                nc_build1(b, "Unsqueeze", 2, at, nc_build_ints(b, axes + 1, 1)));
    return nc_build1(b, "LessOrEqual", 2, nc_build1(b, "Abs", 1, apart), nc_build_int(b, nc_attr_int(n, "window")));
}

static nc_code decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t columns[2] = {1, 2}, last[1] = {2};
    if (n->in[X]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *global = nc_build1(b, "Greater", 2, n->in[GLOBAL], nc_build_scalar(b, NC_INT32, 0));
    nc_value *mask = nc_build1(b, "Unsqueeze", 2, n->in[MASK], nc_build_ints(b, columns, 2));
    nc_value *seen =
        nc_build1(b, "Or", 2, near(b, n), nc_build1(b, "Unsqueeze", 2, global, nc_build_ints(b, columns, 2)));
    nc_value *hidden = nc_build_scalar(b, n->in[X]->type->elem, -INFINITY);
    nc_value *local = attended(b, n, WEIGHT, nc_build1(b, "Where", 3, seen, mask, hidden));
    nc_value *rows = nc_build1(b, "Unsqueeze", 2, global, nc_build_ints(b, last, 1));
    out[0] = nc_build1(b, "Where", 3, rows, attended(b, n, GLOBAL_WEIGHT, mask), local);
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"input", T_FLOAT_ALL}, {"weight", SAME(0)}, {"bias", SAME(0)}, {"mask", SAME(0)}, {"global_weight", SAME(0)},
        {"global_bias", SAME(0)}, {"global", T_I32}),
     OUT({"output", SAME(0)}),
     ATTR(A_INT_REQ("num_heads"), A_INT_REQ("window"))},
    {0}};
const nc_card nc_card_longformer_attention = {.name = "LongformerAttention",
                                              .domain = NC_MICROSOFT,
                                              .doc = "Self-attention over neighbours and over marked tokens.",
                                              .versions = versions,
                                              .no_grad_in = 1u << GLOBAL,
                                              .infer = infer,
                                              .decompose = decompose};
