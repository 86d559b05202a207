/* ops/attention/mrope.c: the cards of MRotaryEmbedding and GemmaRotaryEmbedding (com.microsoft). The first turns by
 * angles of three positions (time, height, width), each of which serves some of the columns; the second by angles that
 * are given, of columns whose halves were exchanged before. The first is RotaryEmbedding of ai.onnx with rows of its
 * own in the caches. */
#include "ops/attention/contrib.h"

enum { X, POSITIONS, COS, SIN };

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_code check_sections(nc_infer *c) {
    int n = 0;
    const int64_t *v = nc_attr_ints(c->node, "mrope_section", &n);
    int64_t layout = nc_contrib_int(c->node, "mrope_layout", 0), sum = 0;
    if (n != 3) NC_FAIL(c->w, NC_E_BAD_GRAPH, "mrope_section has %d numbers, expected 3", n);
    for (int i = 0; i < 3; i++) {
        if (v[i] < 0) NC_FAIL(c->w, NC_E_BAD_GRAPH, "mrope_section has %lld, expected at least 0", (long long)v[i]);
        sum += v[i];
    }
    if (layout != 0 && layout != 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "mrope_layout is %lld, expected 0 or 1", (long long)layout);
    for (int i = COS; i <= SIN; i++) {
        NC_TRY(nc_contrib_rank(c, i, 2));
        NC_TRY(nc_in_expect(c, i, 1, nc_dim_const(c->dims, sum)));
    }
    return NC_OK;
}

static nc_code mrope_infer(nc_infer *c) {
    int rank;
    NC_TRY(check_sections(c));
    if (nc_in_rank(c, X, &rank) && rank != 3 && rank != 4)
        NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 3 or 4", rank);
    NC_TRY(nc_contrib_rank(c, POSITIONS, 3));
    NC_TRY(nc_in_expect(c, POSITIONS, 0, nc_dim_const(c->dims, 3)));
    if (nc_contrib_float(c->node, "scale", 1) != 1)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "scale is %g, expected 1", nc_contrib_float(c->node, "scale", 1));
    return nc_out_like(c, 0, X);
}

/* Which of the three positions column i takes. */
static int stream_of(const int64_t *sections, bool in_turn, int64_t i) {
    if (!in_turn) return i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    int k = (int)(i % 3);
    return k > 0 && i < 3 * sections[k] ? k : 0;
}

/* Rows of a cache (M,half) at three positions (3,B,S), each column from its own: (B,S,half). masks: (1,1,half). */
static nc_value *mixed(nc_builder *b, nc_value *cache, nc_value *ids, nc_value *const *masks) {
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *all = nc_build1(b, "Gather", 2, cache, ids), *rows[3];
    for (int i = 0; i < 3; i++) {
        nc_value *in[2] = {all, nc_build_int(b, i)};
        rows[i] = nc_build_attr1(b, "", "Gather", in, 2, &first, 1);
    }
    nc_value *y = nc_build1(b, "Where", 3, masks[1], rows[1], rows[0]);
    return nc_build1(b, "Where", 3, masks[2], rows[2], y);
}

/* Columns that take position k. */
static nc_value *mask_of(nc_builder *b, const int64_t *sections, bool in_turn, int k, int64_t half) {
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value **parts = nc_arena_array(&b->w->scratch, (size_t)half + 1, sizeof *parts);
    if (parts == NULL) return b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory"), NULL;
    for (int64_t i = 0; i < half; i++) parts[i] = one(b, stream_of(sections, in_turn, i) == k);
    nc_value *row = half > 0 ? nc_build_attr1(b, "", "Concat", parts, (int)half, &last, 1) : nc_build_ints(b, NULL, 0);
    return nc_build_cast(b, row, NC_BOOL);
}

static nc_code mrope_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int count = 0;
    const int64_t *sections = nc_attr_ints(n, "mrope_section", &count);
    int64_t half = sections[0] + sections[1] + sections[2], heads = nc_contrib_int(n, "num_heads", 0), columns;
    bool in_turn = nc_contrib_int(n, "mrope_layout", 0) == 1;
    nc_value *x = n->in[X], *masks[3] = {NULL};
    if (x->type == NULL || x->type->rank < 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    bool packed = x->type->rank == 3;
    if (packed && heads == 0 && nc_dim_is_const(x->type->dims[2], &columns) && half > 0) heads = columns / (2 * half);
    if (packed && heads == 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known number of heads");
    for (int k = 1; k < 3; k++) masks[k] = mask_of(b, sections, in_turn, k, half);
    nc_value *in[3] = {x, mixed(b, n->in[COS], n->in[POSITIONS], masks), mixed(b, n->in[SIN], n->in[POSITIONS], masks)};
    nc_attr attrs[3] = {{.name = "interleaved", .kind = NC_A_INT, .i = nc_contrib_int(n, "interleaved", 0)},
                        {.name = "rotary_embedding_dim", .kind = NC_A_INT, .i = 2 * half},
                        {.name = "num_heads", .kind = NC_A_INT, .i = heads}};
    out[0] = nc_build_newest1(b, "RotaryEmbedding", in, 3, attrs, packed ? 3 : 2);
    return b->code;
}

/* ---- GemmaRotaryEmbedding: angles, q, q with its halves exchanged, k, k likewise ---- */

static nc_code gemma_infer(nc_infer *c) {
    NC_TRY(nc_contrib_rank(c, 0, 3));
    for (int i = 1; i < 5; i++) NC_TRY(nc_contrib_rank(c, i, 4));
    NC_TRY(nc_out_like(c, 0, 1));
    return nc_out_like(c, 1, 3);
}

static nc_code gemma_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[1]->type->elem;
    nc_value *cos = nc_build1(b, "Unsqueeze", 2, nc_build_cast(b, nc_build1(b, "Cos", 1, n->in[0]), t), one(b, 1));
    nc_value *sin = nc_build1(b, "Unsqueeze", 2, nc_build_cast(b, nc_build1(b, "Sin", 1, n->in[0]), t), one(b, 1));
    for (int i = 0; i < 2; i++)
        out[i] = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, n->in[1 + 2 * i], cos),
                           nc_build1(b, "Mul", 2, n->in[2 + 2 * i], sin));
    return b->code;
}

#define T_TURNED (T_F32 | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version mrope_versions[] = {
    {.since = 1,
     IN({"input", T_TURNED}, {"position_ids", T_I64}, {"cos_cache", SAME(0)}, {"sin_cache", SAME(0)}),
     OUT({"output", SAME(0)}),
     ATTR(A_FLOAT_OPT("scale"), A_INT_OPT("interleaved"), A_INT_OPT("rotary_embedding_dim"), A_INT_OPT("num_heads"),
          A_INT_OPT("is_packed_batching"), A_INTS_REQ("mrope_section"), A_INT_OPT("mrope_layout"))},
    {0}};
static const nc_op_version gemma_versions[] = {
    {.since = 1,
     IN({"emb", T_F32 | NC_BIT(NC_DOUBLE)}, {"q", T_FLOAT_ALL}, {"q_rot", SAME(1)}, {"k", SAME(1)}, {"k_rot", SAME(1)}),
     OUT({"output1", SAME(1)}, {"output2", SAME(1)}),
     NO_ATTR},
    {0}};

const nc_card nc_card_mrotary_embedding = {.name = "MRotaryEmbedding",
                                           .domain = NC_MICROSOFT,
                                           .doc = "Turns pairs of columns by angles of three positions.",
                                           .versions = mrope_versions,
                                           .no_grad_in = 7u << POSITIONS,
                                           .infer = mrope_infer,
                                           .decompose = mrope_decompose};
const nc_card nc_card_gemma_rotary_embedding = {.name = "GemmaRotaryEmbedding",
                                                .domain = NC_MICROSOFT,
                                                .doc = "Queries and keys turned by given angles.",
                                                .versions = gemma_versions,
                                                .infer = gemma_infer,
                                                .decompose = gemma_decompose};
