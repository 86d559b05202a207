/* ops/attention/sparse.c: the card of SparseAttention (com.microsoft): a query sees the blocks of keys that a layout of
 * its head names, rows and columns of a compressed matrix of blocks. It is GroupQueryAttention's nacre.CachedAttention
 * with the layouts as a bias. */
#include "ops/attention/contrib.h"

#include <math.h>

enum { QUERY, KEY, VALUE, PAST_K, PAST_V, ROWS, COLUMNS, TOTAL, LENGTHS, COS, SIN };

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static bool has(const nc_infer *c, int i) { return i < c->node->n_in && c->node->in[i] != NULL; }

static nc_code check_layouts(nc_infer *c) {
    int64_t heads = nc_attr_int(c->node, "num_heads"), layouts;
    for (int i = ROWS; i <= COLUMNS; i++) NC_TRY(nc_contrib_rank(c, i, 2));
    const nc_dim *L = nc_in_dim(c, ROWS, 0);
    NC_TRY(nc_in_expect(c, COLUMNS, 0, L));
    if (L != NULL && nc_dim_is_const(L, &layouts) && (layouts < 1 || heads % layouts != 0))
        NC_FAIL(c->w, NC_E_SHAPE, "num_heads %lld is not a multiple of %lld layouts", (long long)heads,
                (long long)layouts);
    return NC_OK;
}

static nc_code sparse_infer(nc_infer *c) {
    const nc_type *q = nc_in(c, QUERY);
    int64_t heads = nc_attr_int(c->node, "num_heads"), kv = nc_attr_int(c->node, "kv_num_heads"), columns;
    int64_t parts = has(c, KEY) ? heads : heads + 2 * kv;
    if (heads < 1 || kv < 1 || heads % kv != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "num_heads %lld do not share kv_num_heads %lld evenly", (long long)heads,
                (long long)kv);
    if (nc_attr_int(c->node, "sparse_block_size") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "sparse_block_size is %lld, expected at least 1",
                (long long)nc_attr_int(c->node, "sparse_block_size"));
    if (has(c, KEY) != has(c, VALUE)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "key and value must come together");
    if (nc_contrib_int(c->node, "do_rotary", 0) != 0 && (!has(c, COS) || !has(c, SIN)))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "do_rotary is 1: cos_cache and sin_cache are needed");
    NC_TRY(check_layouts(c));
    NC_TRY(nc_contrib_rank(c, QUERY, 3));
    for (int i = PAST_K; i <= PAST_V; i++) {
        NC_TRY(nc_contrib_rank(c, i, 4));
        NC_TRY(nc_in_expect(c, i, 0, nc_in_dim(c, QUERY, 0)));
        NC_TRY(nc_in_expect(c, i, 1, nc_dim_const(c->dims, kv)));
        NC_TRY(nc_in_expect(c, i, 2, nc_in_dim(c, PAST_K, 2)));
    }
    if (q == NULL) return NC_OK;
    if (q->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, q->elem, 3));
    } else {
        if (nc_dim_is_const(q->dims[2], &columns) && columns % parts != 0)
            NC_FAIL(c->w, NC_E_SHAPE, "query has %lld columns, which %lld heads do not divide", (long long)columns,
                    (long long)parts);
        const nc_dim *D = nc_dim_floordiv(c->dims, q->dims[2], nc_dim_const(c->dims, parts));
        const nc_dim *all = nc_dim_mul(c->dims, nc_dim_const(c->dims, heads), D);
        NC_TRY(nc_in_expect(c, PAST_K, 3, D));
        NC_TRY(nc_out(c, 0, q->elem, 3, (const nc_dim *[]){q->dims[0], q->dims[1], all}));
    }
    NC_TRY(nc_out_like(c, 1, PAST_K));
    return nc_out_like(c, 2, PAST_V);
}

/* ---- decomposition ---- */

static nc_value *counted(nc_builder *b, nc_value *n) {
    nc_value *scalar = nc_build1(b, "Squeeze", 2, n, one(b, 0));
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), scalar, nc_build_int(b, 1));
}

/* The layouts (L,R,R) as 1 where a block is there, else 0. Element j of a row of columns is of the row that so many
 * rows end before. */
static nc_value *blocks_of(nc_builder *b, const nc_node *n) {
    nc_value *starts = nc_build_cast(b, n->in[ROWS], NC_INT64), *columns = nc_build_cast(b, n->in[COLUMNS], NC_INT64);
    nc_value *L = nc_contrib_size(b, starts, 0), *zero = nc_build_int(b, 0);
    nc_value *R = nc_build1(b, "Sub", 2, nc_contrib_size(b, starts, 1), nc_build_int(b, 1));
    nc_value *ends = nc_build1(b, "Slice", 4, starts, one(b, 1), nc_contrib_size(b, starts, 1), one(b, 1));
    nc_value *j = nc_build1(b, "Unsqueeze", 2, counted(b, nc_contrib_size(b, columns, 1)), one(b, 1));
    nc_value *over = nc_build1(b, "LessOrEqual", 2, nc_build1(b, "Unsqueeze", 2, ends, one(b, 1)), j); /* (L,N,R) */
    nc_value *row = nc_build_reduce_sum(b, nc_build_cast(b, over, NC_INT64), (int64_t[]){2}, 1, false);
    nc_value *there =
        nc_build1(b, "And", 2, nc_build1(b, "Less", 2, row, R), nc_build1(b, "GreaterOrEqual", 2, columns, zero));
    nc_value *last = nc_build1(b, "Sub", 2, R, nc_build_int(b, 1));
    nc_value *layout = nc_build1(b, "Unsqueeze", 2, counted(b, L), one(b, 1));
    nc_value *at = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, layout, R), nc_build1(b, "Min", 2, row, last));
    at = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, at, R), nc_build1(b, "Max", 2, columns, zero));
    nc_value *all = nc_attn_join(b, (nc_value *[]){L, R, R}, 3, 0);
    nc_value *size = nc_build1(b, "Mul", 2, nc_build1(b, "Mul", 2, L, R), R);
    nc_value *put[3] = {nc_build1(b, "Expand", 2, zero, size), nc_build1(b, "Reshape", 2, at, one(b, -1)),
                        nc_build1(b, "Reshape", 2, nc_build_cast(b, there, NC_INT64), one(b, -1))};
    nc_attr most = {.name = "reduction", .kind = NC_A_STRING, .s = {.p = "max", .n = 3}};
    return nc_build1(b, "Reshape", 2, nc_build_attr1(b, "", "ScatterElements", put, 3, &most, 1), all);
}

static nc_value *gather(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_value *in[2] = {x, at};
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Gather", in, 2, &attr, 1);
}

/* What the layouts add to scores (B,heads,S,total): places (B,S) of queries and 0.. of keys, by blocks. */
static nc_value *layout_bias(nc_builder *b, const nc_node *n, nc_value *places, nc_value *total, nc_dtype t) {
    nc_value *size = nc_build_int(b, nc_attr_int(n, "sparse_block_size")), *layouts = blocks_of(b, n);
    nc_value *row = nc_build1(b, "Div", 2, places, size), *column = nc_build1(b, "Div", 2, counted(b, total), size);
    nc_value *seen = gather(b, gather(b, layouts, row, 1), column, 3); /* (L,B,S,total) */
    nc_value *head = counted(b, one(b, nc_attr_int(n, "num_heads")));
    nc_value *which = nc_build1(b, "Mod", 2, head, nc_contrib_size(b, n->in[ROWS], 0));
    seen = nc_build_transpose(b, gather(b, seen, which, 0), (int64_t[]){1, 0, 2, 3}, 4);
    nc_value *blind = nc_build1(b, "Equal", 2, seen, nc_build_int(b, 0));
    return nc_build1(b, "Where", 3, blind, nc_build_scalar(b, t, -(double)INFINITY), nc_build_scalar(b, t, 0));
}

static nc_code sparse_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t heads = nc_attr_int(n, "num_heads"), kv = nc_attr_int(n, "kv_num_heads");
    nc_value *qkv[3];
    if (n->in[QUERY]->type == NULL || n->in[QUERY]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    for (int i = 0; i < 3; i++) qkv[i] = nc_contrib_in(n, QUERY + i);
    if (qkv[1] == NULL) NC_TRY(nc_msattn_apart(b, n->in[QUERY], heads, kv, qkv));
    nc_value *S = nc_contrib_size(b, n->in[QUERY], 1);
    nc_value *total = nc_build_cast(b, nc_build1(b, "Reshape", 2, n->in[TOTAL], one(b, 1)), NC_INT64);
    nc_value *lengths = nc_build_cast(b, nc_build1(b, "Reshape", 2, n->in[LENGTHS], one(b, -1)), NC_INT64);
    nc_value *starts = nc_build1(b, "Where", 3, nc_build1(b, "Equal", 2, total, S), nc_build_int(b, 0),
                                 nc_build1(b, "Sub", 2, lengths, S));
    nc_value *places = nc_build1(b, "Add", 2, nc_build1(b, "Unsqueeze", 2, starts, one(b, 1)), counted(b, S));
    if (nc_contrib_int(n, "do_rotary", 0) != 0) {
        int64_t in_turn = nc_contrib_int(n, "rotary_interleaved", 0);
        qkv[0] = nc_msattn_turned(b, qkv[0], n->in[COS], n->in[SIN], places, heads, in_turn);
        qkv[1] = nc_msattn_turned(b, qkv[1], n->in[COS], n->in[SIN], places, kv, in_turn);
    }
    if (b->code != NC_OK) return b->code;
    nc_value *in[8] = {qkv[0],
                       qkv[1],
                       qkv[2],
                       starts,
                       nc_build1(b, "Squeeze", 2, total, one(b, 0)),
                       n->in[PAST_K],
                       n->in[PAST_V],
                       layout_bias(b, n, places, total, qkv[0]->type->elem)};
    nc_attr attrs[3] = {{.name = "q_num_heads", .kind = NC_A_INT, .i = heads},
                        {.name = "kv_num_heads", .kind = NC_A_INT, .i = kv},
                        {.name = "scale", .kind = NC_A_FLOAT, .f = (float)nc_contrib_float(n, "scale", 0)}};
    nc_node *done =
        nc_build_wanted(b, "nacre", "CachedAttention", in, 8, (const bool[]){true, true, true}, 3, attrs, 3);
    for (int i = 0; done != NULL && i < n->n_out; i++) out[i] = done->out[i];
    return b->code;
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"query", T_FLOAT_ALL}, {"key", SAME(0), OPTIONAL}, {"value", SAME(0), OPTIONAL}, {"past_key", SAME(0)},
        {"past_value", SAME(0)}, {"block_row_indices", T_I32}, {"block_col_indices", T_I32},
        {"total_sequence_length", T_I32}, {"key_total_sequence_lengths", T_I32}, {"cos_cache", SAME(0), OPTIONAL},
        {"sin_cache", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_key", SAME(0)}, {"present_value", SAME(0)}),
     ATTR(A_INT_REQ("num_heads"), A_INT_REQ("kv_num_heads"), A_FLOAT_OPT("scale"), A_INT_REQ("sparse_block_size"),
          A_INT_OPT("do_rotary"), A_INT_OPT("rotary_interleaved"))},
    {0}};

const nc_card nc_card_sparse_attention = {
    .name = "SparseAttention",
    .domain = NC_MICROSOFT,
    .doc = "Attention over a cache, of which each head sees the blocks that its layout names.",
    .versions = versions,
    .host_in = 1u << TOTAL,
    .no_grad_in = 1u << ROWS | 1u << COLUMNS | 1u << TOTAL | 1u << LENGTHS,
    .infer = sparse_infer,
    .decompose = sparse_decompose};
