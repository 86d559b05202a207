/* ops/nn/bias_dropout.c: the cards of BiasDropout, BitmaskDropout, BitmaskBiasDropout and BitmaskDropoutGrad
 * (com.microsoft): Dropout of data plus a bias, plus a residual, with a mask of bools or of bits, 32 in a number, the
 * first in its lowest bit. They draw as one Dropout does, which has their random id: plan/lower_random.c takes them
 * apart before it looks for what draws. */
#include "ops/contrib.h"

/* Where the operands stand; 0: there is none. */
typedef struct dropout_kind {
    int bias, residual, ratio;
    bool bits;
} dropout_kind;

enum { X, BITS = 32 };

static nc_value *one(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_code dropout_infer(nc_infer *c) {
    const dropout_kind *kind = c->node->card->own;
    const nc_type *x = nc_in(c, X);
    const nc_dim *all = nc_dim_const(c->dims, 1);
    NC_TRY(nc_out_like(c, 0, X));
    if (x == NULL) return NC_OK;
    if (!kind->bits) return x->rank < 0 ? nc_out_unknown(c, 1, NC_BOOL, -1) : nc_out(c, 1, NC_BOOL, x->rank, x->dims);
    if (x->rank < 0) return nc_out_unknown(c, 1, NC_UINT32, 1);
    for (int i = 0; i < x->rank; i++) all = nc_dim_mul(c->dims, all, x->dims[i]);
    all = nc_dim_add(c->dims, all, nc_dim_const(c->dims, BITS - 1));
    all = nc_dim_floordiv(c->dims, all, nc_dim_const(c->dims, BITS));
    return nc_out(c, 1, NC_UINT32, 1, &all);
}

/* ---- masks of bits ---- */

static nc_value *shifts(nc_builder *b) {
    nc_value *all = nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build_int(b, BITS), nc_build_int(b, 1));
    return nc_build_cast(b, all, NC_UINT32);
}

/* mask of bools as numbers of 32 bits, zeros behind the last. */
static nc_value *packed(nc_builder *b, nc_value *mask) {
    nc_attr left = {.name = "direction", .kind = NC_A_STRING, .s = {.p = "LEFT", .n = 4}};
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *flat = nc_build_cast(b, nc_build1(b, "Reshape", 2, mask, one(b, -1)), NC_UINT32);
    nc_value *n = nc_contrib_size(b, flat, 0), *size = one(b, BITS);
    nc_value *words = nc_build1(b, "Div", 2, nc_build1(b, "Add", 2, n, one(b, BITS - 1)), size);
    nc_value *more = nc_build1(b, "Sub", 2, nc_build1(b, "Mul", 2, words, size), n);
    nc_value *parts[2] = {flat, nc_build1(b, "Expand", 2, nc_build_scalar(b, NC_UINT32, 0), more)};
    nc_value *shape[2] = {words, size};
    nc_value *to[2] = {nc_build_attr1(b, "", "Concat", parts, 2, &first, 1),
                       nc_build_attr1(b, "", "Concat", shape, 2, &first, 1)};
    nc_attr zeros = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    nc_value *rows = nc_build_attr1(b, "", "Reshape", to, 2, &zeros, 1);
    nc_value *in[2] = {rows, shifts(b)};
    return nc_build_reduce_sum(b, nc_build_attr1(b, "", "BitShift", in, 2, &left, 1), (int64_t[]){1}, 1, false);
}

/* Bits as bools of the shape of `like`. */
static nc_value *unpacked(nc_builder *b, nc_value *bits, nc_value *like) {
    nc_attr right = {.name = "direction", .kind = NC_A_STRING, .s = {.p = "RIGHT", .n = 5}};
    nc_value *in[2] = {nc_build1(b, "Unsqueeze", 2, bits, one(b, 1)), shifts(b)};
    nc_value *all = nc_build_attr1(b, "", "BitShift", in, 2, &right, 1);
    all = nc_build1(b, "BitwiseAnd", 2, all, nc_build_scalar(b, NC_UINT32, 1));
    all = nc_build1(b, "Reshape", 2, nc_build_cast(b, all, NC_BOOL), one(b, -1));
    nc_value *n = nc_build1(b, "Reshape", 2, nc_build1(b, "Size", 1, like), one(b, 1));
    return nc_build_reshape_like(b, nc_build1(b, "Slice", 4, all, one(b, 0), n, one(b, 0)), like);
}

/* ---- decomposition ---- */

static nc_code dropout_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const dropout_kind *kind = n->card->own;
    nc_value *x = n->in[X], *residual = kind->residual > 0 ? nc_contrib_in(n, kind->residual) : NULL;
    if (kind->bias > 0) x = nc_build1(b, "Add", 2, x, n->in[kind->bias]);
    nc_value *in[3] = {x, nc_contrib_in(n, kind->ratio), nc_contrib_in(n, kind->ratio + 1)};
    const nc_attr *seed = nc_node_attr(n, "seed");
    int n_in = in[2] != NULL ? 3 : in[1] != NULL ? 2 : 1;
    nc_node *dropout = nc_build_newest(b, "Dropout", in, n_in, (const bool[]){true, nc_contrib_wants(n, 1)}, 2, seed,
                                       seed != NULL ? 1 : 0);
    if (dropout == NULL) return b->code;
    dropout->random_id = n->random_id;
    out[0] = nc_contrib_add(b, dropout->out[0], residual);
    if (nc_contrib_wants(n, 1)) out[1] = kind->bits ? packed(b, dropout->out[1]) : dropout->out[1];
    return b->code;
}

static nc_code like_first(nc_infer *c) { return nc_out_like(c, 0, 0); }

static nc_code grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    out[0] = nc_contrib_dropout_grad(b, n, n->in[0], unpacked(b, n->in[1], n->in[0]), 2);
    return b->code;
}

/* ---- cards ---- */

#define HOW \
    {"ratio", T_FLOAT_ALL, SINGLE_OPTIONAL}, { "training_mode", T_BOOL, SINGLE_OPTIONAL }
#define BIASED \
    {"data", T_FLOAT_ALL}, {"bias", SAME(0)}, { "residual", SAME(0), OPTIONAL }
#define MASKED(types) OUT({"output", SAME(0)}, {"mask", types, OPTIONAL}), ATTR(A_INT_OPT("seed"))
#define T_BITS NC_BIT(NC_UINT32)
static const nc_op_version bias_versions[] = {{.since = 1, IN(BIASED, HOW), MASKED(T_BOOL)}, {0}};
static const nc_op_version bias_bits_versions[] = {{.since = 1, IN(BIASED, HOW), MASKED(T_BITS)}, {0}};
static const nc_op_version bits_versions[] = {{.since = 1, IN({"data", T_FLOAT_ALL}, HOW), MASKED(T_BITS)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1, IN({"dy", T_FLOAT_ALL}, {"mask", T_BITS}, HOW), OUT({"dx", SAME(0)}), ATTR(A_INT_OPT("seed"))}, {0}};

const nc_card nc_card_bias_dropout = {.name = "BiasDropout",
                                      .domain = NC_MICROSOFT,
                                      .doc = "Dropout of data plus a bias, plus a residual.",
                                      .versions = bias_versions,
                                      .traits = NC_RANDOM,
                                      .own = &(const dropout_kind){.bias = 1, .residual = 2, .ratio = 3},
                                      .host_in = 3u << 3,
                                      .no_grad_in = 3u << 3,
                                      .infer = dropout_infer,
                                      .decompose = dropout_decompose};
const nc_card nc_card_bitmask_bias_dropout = {
    .name = "BitmaskBiasDropout",
    .domain = NC_MICROSOFT,
    .doc = "Dropout of data plus a bias, plus a residual, with a mask of bits.",
    .versions = bias_bits_versions,
    .traits = NC_RANDOM,
    .own = &(const dropout_kind){.bias = 1, .residual = 2, .ratio = 3, .bits = true},
    .host_in = 3u << 3,
    .no_grad_in = 3u << 3,
    .infer = dropout_infer,
    .decompose = dropout_decompose};
const nc_card nc_card_bitmask_dropout = {.name = "BitmaskDropout",
                                         .domain = NC_MICROSOFT,
                                         .doc = "Dropout with a mask of bits.",
                                         .versions = bits_versions,
                                         .traits = NC_RANDOM,
                                         .own = &(const dropout_kind){.ratio = 1, .bits = true},
                                         .host_in = 3u << 1,
                                         .no_grad_in = 3u << 1,
                                         .infer = dropout_infer,
                                         .decompose = dropout_decompose};
const nc_card nc_card_bitmask_dropout_grad = {.name = "BitmaskDropoutGrad",
                                              .domain = NC_MICROSOFT,
                                              .doc = "Gradient of Dropout from its mask of bits.",
                                              .versions = grad_versions,
                                              .host_in = 3u << 2,
                                              .no_grad_in = 7u << 1,
                                              .infer = like_first,
                                              .decompose = grad_decompose};
