/* ops/attention/turn.c: the card of RotaryEmbedding of com.microsoft: positions come before the caches and may be one
 * offset. It runs, and is differentiated, as RotaryEmbedding of ai.onnx. */
#include "ops/attention/contrib.h"

enum { X, POSITIONS, COS, SIN };

/* Heads of packed X: said, or as many as rows of the caches fit; 0: not known. */
static int64_t heads_of(const nc_node *n, const nc_type *x, const nc_type *cos) {
    int64_t heads = nc_contrib_int(n, "num_heads", 0), columns, half;
    if (heads > 0 || x == NULL || x->rank != 3 || cos == NULL || cos->rank != 2) return heads;
    if (!nc_dim_is_const(x->dims[2], &columns) || !nc_dim_is_const(cos->dims[1], &half) || half < 1) return 0;
    return columns / (2 * half);
}

static nc_code turn_infer(nc_infer *c) {
    int rank;
    int64_t part = nc_contrib_int(c->node, "rotary_embedding_dim", 0), columns;
    if (nc_in_rank(c, X, &rank) && rank != 3 && rank != 4)
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 3 or 4", rank);
    if (nc_in_rank(c, POSITIONS, &rank) && rank != 1 && rank != 2)
        NC_FAIL(c->w, NC_E_SHAPE, "position_ids has %d dims, expected 1 or 2", rank);
    if (rank == 1) NC_TRY(nc_in_expect(c, POSITIONS, 0, nc_dim_const(c->dims, 1)));
    NC_TRY(nc_contrib_rank(c, COS, 2));
    NC_TRY(nc_contrib_rank(c, SIN, 2));
    if (part > 0 && nc_contrib_int(c->node, "num_heads", 0) < 1 && nc_in_rank(c, X, &rank) && rank == 3)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "rotary_embedding_dim is %lld: num_heads is needed", (long long)part);
    if (nc_in_rank(c, X, &rank) && rank == 3) {
        int64_t heads = heads_of(c->node, nc_in(c, X), nc_in(c, COS));
        if (heads > 0 && nc_dim_is_const(nc_in_dim(c, X, 2), &columns) && columns % heads != 0)
            NC_FAIL(c->w, NC_E_SHAPE, "input has %lld columns, which %lld heads do not divide", (long long)columns,
                    (long long)heads);
    }
    if (part > 0) {
        NC_TRY(nc_in_expect(c, COS, 1, nc_dim_const(c->dims, part / 2)));
        NC_TRY(nc_in_expect(c, SIN, 1, nc_dim_const(c->dims, part / 2)));
    }
    return nc_out_like(c, 0, X);
}

/* One offset, of the first row, as positions (B,S). */
static nc_value *positions_from(nc_builder *b, nc_value *x, nc_value *offset) {
    int rank = x->type->rank;
    int64_t zero = 0;
    nc_value *S = nc_contrib_size(b, x, rank - 2), *axis = nc_build_ints(b, &zero, 1);
    nc_value *row =
        nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build1(b, "Squeeze", 2, S, axis), nc_build_int(b, 1));
    nc_value *shape = nc_attn_join(b, (nc_value *[]){nc_contrib_size(b, x, 0), S}, 2, 0);
    return nc_build1(b, "Expand", 2, nc_build1(b, "Add", 2, row, offset), shape);
}

/* Packed x (B,S,columns) by heads (B,H,S,D), their number known in the run alone: D is twice a row of the cache. */
static nc_value *by_heads(nc_builder *b, nc_value *x, nc_value *cos) {
    int64_t rest = -1;
    nc_value *half = nc_contrib_size(b, cos, 1);
    nc_value *shape[3] = {nc_attn_dims(b, x, 0, 2), nc_build_ints(b, &rest, 1), nc_build1(b, "Add", 2, half, half)};
    x = nc_build1(b, "Reshape", 2, x, nc_attn_join(b, shape, 3, 0));
    return nc_build_transpose(b, x, (int64_t[]){0, 2, 1, 3}, 4);
}

static nc_code turn_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[X], *ids = n->in[POSITIONS];
    if (x->type == NULL || x->type->rank < 0 || ids->type == NULL || ids->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    int64_t heads = heads_of(n, x->type, n->in[COS]->type);
    if (ids->type->rank == 1) ids = positions_from(b, x, ids);
    bool splits = x->type->rank == 3 && heads < 1, packed = x->type->rank == 3 && !splits;
    if (splits) x = by_heads(b, x, n->in[COS]);
    nc_value *in[4] = {x, n->in[COS], n->in[SIN], ids};
    nc_attr attrs[3] = {
        {.name = "interleaved", .kind = NC_A_INT, .i = nc_contrib_int(n, "interleaved", 0)},
        {.name = "rotary_embedding_dim", .kind = NC_A_INT, .i = nc_contrib_int(n, "rotary_embedding_dim", 0)},
        {.name = "num_heads", .kind = NC_A_INT, .i = heads}};
    nc_value *y = nc_build_newest1(b, "RotaryEmbedding", in, 4, attrs, packed ? 3 : 2);
    if (splits) y = nc_build_reshape_like(b, nc_build_transpose(b, y, (int64_t[]){0, 2, 1, 3}, 4), n->in[X]);
    out[0] = y;
    return b->code;
}

#define T_TURNED (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"input", T_TURNED}, {"position_ids", T_I64}, {"cos_cache", SAME(0)}, {"sin_cache", SAME(0)}),
     OUT({"output", SAME(0)}),
     ATTR(A_FLOAT_OPT("scale"), A_INT_OPT("interleaved"), A_INT_OPT("rotary_embedding_dim"), A_INT_OPT("num_heads"),
          A_INT_OPT("is_packed_batching"))},
    {0}};

const nc_card nc_card_ms_rotary_embedding = {.name = "RotaryEmbedding",
                                             .domain = NC_MICROSOFT,
                                             .doc = "Turns pairs of columns by the angles of their position.",
                                             .versions = versions,
                                             .no_grad_in = 1u << POSITIONS,
                                             .settings_in = 1u << COS | 1u << SIN,
                                             .infer = turn_infer,
                                             .decompose = turn_decompose};
