/* ops/norm/embed.c: cards of EmbedLayerNormalization and QEmbedLayerNormalization (com.microsoft): rows of tables of
 * words, positions and segments, added and normalized; and how many places of the mask are 1. They run, and are
 * differentiated, as Gather, Add and LayerNormalization. */
#include "ops/contrib.h"

/* Where the operands stand. Quantized tables and vectors come with a scale and a zero point each. */
typedef struct embed_kind {
    int mask, positions; /* 0: no such input */
    int scales, zeros;   /* of words, positions, segments, gamma, beta in a row; 0: tables are not quantized */
} embed_kind;

enum { IDS, SEGMENT_IDS, WORDS, POSITIONS, SEGMENTS, GAMMA, BETA };

static nc_code embed_infer(nc_infer *c) {
    const embed_kind *kind = c->node->card->own;
    const nc_type *gamma = nc_in(c, GAMMA);
    int rank;
    for (int i = IDS; i <= SEGMENTS; i++) NC_TRY(nc_contrib_rank(c, i, 2));
    if (nc_in_rank(c, kind->mask, &rank) && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "mask has %d dims, expected 2", rank);
    const nc_dim *B = nc_in_dim(c, IDS, 0), *S = nc_in_dim(c, IDS, 1), *H = nc_in_dim(c, WORDS, 1);
    for (int i = POSITIONS; i <= SEGMENTS; i++) NC_TRY(nc_in_expect(c, i, 1, H));
    for (int i = GAMMA; i <= BETA; i++) NC_TRY(nc_contrib_vector(c, i, H));
    NC_TRY(nc_in_expect(c, SEGMENT_IDS, 1, S));
    NC_TRY(nc_in_expect(c, kind->mask, 1, S));
    if (gamma == NULL) return NC_OK;
    nc_dtype t = kind->scales > 0 ? NC_FLOAT : gamma->elem;
    if (B == NULL || H == NULL) {
        NC_TRY(nc_out_unknown(c, 0, t, 3));
        NC_TRY(nc_out_unknown(c, 1, NC_INT32, 1));
        return nc_out_unknown(c, 2, t, 3);
    }
    NC_TRY(nc_out(c, 0, t, 3, (const nc_dim *[]){B, S, H}));
    NC_TRY(nc_out(c, 1, NC_INT32, 1, &B));
    return nc_out(c, 2, t, 3, (const nc_dim *[]){B, S, H});
}

/* Operand i as numbers; `which` is its place among the scales. */
static nc_value *real(nc_builder *b, const nc_node *n, nc_value *v, int which) {
    const embed_kind *kind = n->card->own;
    if (kind->scales == 0) return nc_contrib_wide(b, v);
    nc_value *in[3] = {v, nc_contrib_in(n, kind->scales + which), nc_contrib_in(n, kind->zeros + which)};
    return nc_build_attr1(b, "", "DequantizeLinear", in, 3, NULL, 0);
}

static nc_value *rows(nc_builder *b, const nc_node *n, int table, nc_value *ids) {
    nc_value *got = nc_build1(b, "Gather", 2, n->in[table], ids);
    return real(b, n, got, table - WORDS);
}

/* Row i of the table for place i. */
static nc_value *first_rows(nc_builder *b, const nc_node *n) {
    int64_t zero = 0;
    nc_value *from = nc_build_ints(b, &zero, 1);
    nc_value *got = nc_build1(b, "Slice", 4, n->in[POSITIONS], from, nc_contrib_size(b, n->in[IDS], 1), from);
    return real(b, n, got, POSITIONS - WORDS);
}

static nc_value *count_ones(nc_builder *b, const nc_node *n) {
    const embed_kind *kind = n->card->own;
    nc_value *mask = nc_contrib_in(n, kind->mask);
    int64_t one = 1;
    nc_value *ones = mask != NULL ? nc_build1(b, "Equal", 2, mask, nc_build_scalar(b, NC_INT32, 1))
                                  : nc_build1(b, "Less", 2, n->in[IDS], n->in[IDS]);
    return nc_build_reduce_sum(b, nc_build_cast(b, ones, NC_INT32), &one, 1, false);
}

static nc_code embed_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const embed_kind *kind = n->card->own;
    nc_value *at = kind->positions > 0 ? nc_contrib_in(n, kind->positions) : NULL;
    nc_value *sum = rows(b, n, WORDS, n->in[IDS]);
    sum = nc_contrib_add(b, sum, at != NULL ? rows(b, n, POSITIONS, at) : first_rows(b, n));
    if (n->in[SEGMENT_IDS] != NULL && n->in[SEGMENTS] != NULL)
        sum = nc_contrib_add(b, sum, rows(b, n, SEGMENTS, n->in[SEGMENT_IDS]));
    nc_value *in[3] = {sum, real(b, n, n->in[GAMMA], GAMMA - WORDS), real(b, n, n->in[BETA], BETA - WORDS)};
    nc_attr eps = {.name = "epsilon", .kind = NC_A_FLOAT, .f = (float)nc_attr_float(n, "epsilon")};
    nc_value *y = nc_build_attr1(b, "", "LayerNormalization", in, 3, &eps, 1);
    if (b->code != NC_OK) return b->code;
    nc_dtype t = kind->scales > 0 ? NC_FLOAT : n->in[GAMMA]->type->elem;
    out[0] = nc_build_cast(b, y, t);
    if (nc_contrib_wants(n, 1)) out[1] = count_ones(b, n);
    if (nc_contrib_wants(n, 2)) out[2] = nc_build_cast(b, sum, t);
    return b->code;
}

#define T_BYTE (NC_BIT(NC_INT8) | NC_BIT(NC_UINT8))
static const nc_op_version versions[] = {
    {.since = 1,
     IN({"input_ids", T_I32}, {"segment_ids", T_I32, OPTIONAL}, {"word_embedding", T_FLOAT_ALL},
        {"position_embedding", SAME(2)}, {"segment_embedding", SAME(2), OPTIONAL}, {"gamma", SAME(2)},
        {"beta", SAME(2)}, {"mask", T_I32, OPTIONAL}, {"position_ids", T_I32, OPTIONAL}),
     OUT({"output", SAME(2)}, {"mask_index", T_I32, OPTIONAL}, {"embedding_sum", SAME(2), OPTIONAL}),
     ATTR(A_FLOAT("epsilon", 1e-12f), A_INT_OPT("mask_index_type"))},
    {0}};
static const nc_op_version quantized_versions[] = {
    {.since = 1,
     IN({"input_ids", T_I32}, {"segment_ids", T_I32, OPTIONAL}, {"word_embedding_quant", T_BYTE},
        {"position_embedding_quant", SAME(2)}, {"segment_embedding", SAME(2), OPTIONAL}, {"gamma_quant", SAME(2)},
        {"beta_quant", SAME(2)}, {"mask", T_I32, OPTIONAL}, {"word_embedding_scale", T_F32},
        {"position_embedding_scale", T_F32}, {"segment_embedding_scale", T_F32, OPTIONAL}, {"gamma_scale", T_F32},
        {"beta_scale", T_F32}, {"word_embedding_zero_point", SAME(2)}, {"position_embedding_zero_point", SAME(2)},
        {"segment_embedding_zero_point", SAME(2), OPTIONAL}, {"gamma_zero_point", SAME(2)},
        {"beta_zero_point", SAME(2)}),
     OUT({"layernorm_out", T_F32}, {"mask_index_out", T_I32}),
     ATTR(A_FLOAT("epsilon", 1e-12f))},
    {0}};

#define INDICES (1u << IDS | 1u << SEGMENT_IDS | 1u << 7)
const nc_card nc_card_embed_layer_normalization = {
    .name = "EmbedLayerNormalization",
    .domain = NC_MICROSOFT,
    .doc = "Embeddings of words, positions and segments, added and normalized; counts the mask.",
    .versions = versions,
    .own = &(const embed_kind){.mask = 7, .positions = 8},
    .no_grad_in = INDICES | 1u << 8,
    .infer = embed_infer,
    .decompose = embed_decompose};
const nc_card nc_card_qembed_layer_normalization = {.name = "QEmbedLayerNormalization",
                                                    .domain = NC_MICROSOFT,
                                                    .doc = "EmbedLayerNormalization of 8-bit tables.",
                                                    .versions = quantized_versions,
                                                    .own = &(const embed_kind){.mask = 7, .scales = 8, .zeros = 13},
                                                    .zero_grad = true,
                                                    .infer = embed_infer,
                                                    .decompose = embed_decompose};
