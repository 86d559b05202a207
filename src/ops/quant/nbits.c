/* ops/quant/nbits.c: the cards of MatMulNBits and GatherBlockQuantized (com.microsoft): weights and tables of codes of
 * 2, 4 or 8 bits in blocks, each with a scale and a zero point. Both have kernels (nbits_cpu.c,
 * gather_blocks_cpu.c); parts serve other devices and the gradient by A. */
#include "ops/quant/nbits.h"

#include "base/intmath.h"
#include "ops/contrib.h"
#include "ops/quant/quant.h"

enum { A = NC_NBITS_A, B, SCALES, ZEROS, GROUPS, BIAS };

nc_nbits nc_nbits_read(const nc_node *n) {
    return (nc_nbits){.K = nc_attr_int(n, "K"),
                      .N = nc_attr_int(n, "N"),
                      .block = nc_attr_int(n, "block_size"),
                      .bits = nc_attr_int(n, "bits"),
                      .rounds = nc_attr_int(n, "accuracy_level") == 4};
}

/* ---- inference ---- */

static nc_code check_attrs(nc_infer *c, const nc_nbits *q) {
    if (q->bits != 2 && q->bits != 4 && q->bits != 8)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "bits is %lld, expected 2, 4 or 8", (long long)q->bits);
    if (q->K < 1 || q->N < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "K is %lld and N is %lld, expected at least 1", (long long)q->K, (long long)q->N);
    if (q->block < 16 || (q->block & (q->block - 1)) != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "block_size is %lld, expected a power of 2 from 16 on", (long long)q->block);
    if (nc_attr_int(c->node, "weight_prepacked") != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "weight_prepacked is %lld, expected 0: the layout is that of one machine",
                (long long)nc_attr_int(c->node, "weight_prepacked"));
    return NC_OK;
}

/* Input i has `want` elements, as far as its dims are known. */
static nc_code check_count(nc_infer *c, int i, int64_t want) {
    int rank;
    int64_t n = 1, d;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    for (int k = 0; k < rank; k++) {
        if (!nc_dim_is_const(nc_in_dim(c, i, k), &d)) return NC_OK;
        n *= d;
    }
    if (n != want)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %lld elements, expected %lld", c->node->version->in[i].name, (long long)n,
                (long long)want);
    return NC_OK;
}

static nc_code nbits_infer(nc_infer *c) {
    nc_nbits q = nc_nbits_read(c->node);
    const nc_type *a = nc_in(c, A), *zeros = nc_in(c, ZEROS);
    const nc_dim *dims[NC_MAX_RANK];
    NC_TRY(check_attrs(c, &q));
    int64_t blocks = nc_ceil_div(q.K, q.block);
    NC_TRY(check_count(c, B, q.N * blocks * (q.block * q.bits / 8)));
    NC_TRY(check_count(c, SCALES, q.N * blocks));
    bool packed = zeros != NULL && zeros->elem == NC_UINT8;
    if (zeros != NULL) NC_TRY(check_count(c, ZEROS, q.N * (packed ? nc_ceil_div(blocks * q.bits, 8) : blocks)));
    NC_TRY(check_count(c, GROUPS, q.K));
    NC_TRY(nc_contrib_vector(c, BIAS, nc_dim_const(c->dims, q.N)));
    if (a == NULL) return NC_OK;
    if (a->rank < 0) return nc_out_unknown(c, 0, a->elem, -1);
    if (a->rank < 1) NC_FAIL(c->w, NC_E_SHAPE, "A is a scalar, at least 1 dim is expected");
    NC_TRY(nc_in_expect(c, A, a->rank - 1, nc_dim_const(c->dims, q.K)));
    for (int i = 0; i < a->rank; i++) dims[i] = i < a->rank - 1 ? a->dims[i] : nc_dim_const(c->dims, q.N);
    return nc_out(c, 0, a->elem, a->rank, dims);
}

nc_code nc_nbits_check_counts(const nc_call *c, const nc_nbits *q) {
    int64_t blocks = nc_ceil_div(q->K, q->block);
    const nc_tensor *zeros = c->n_in > ZEROS && c->in[ZEROS]->data != NULL ? c->in[ZEROS] : NULL;
    int64_t want[4] = {q->N * blocks * (q->block * q->bits / 8), q->N * blocks,
                       q->N * (zeros && zeros->dtype == NC_UINT8 ? nc_ceil_div(blocks * q->bits, 8) : blocks), q->K};
    for (int i = B; i <= GROUPS && i < c->n_in; i++)
        if (c->in[i]->data != NULL && nc_tensor_numel(c->in[i]) != want[i - B])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, expected %lld", i,
                               (long long)nc_tensor_numel(c->in[i]), (long long)want[i - B]);
    return NC_OK;
}

/* ---- codes as numbers, by ops ---- */

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

nc_value *nc_nbits_unpacked(nc_builder *b, nc_value *x, int64_t bits, nc_dtype t) {
    int per = (int)(8 / bits);
    nc_value *parts[4];
    nc_attr right = {.name = "direction", .kind = NC_A_STRING, .s = {.p = "RIGHT", .n = 5}};
    nc_attr last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    if (b->code != NC_OK || bits == 8) return nc_build_cast(b, x, t);
    int rank = x->type->rank;
    for (int i = 0; i < per; i++) {
        nc_value *in[2] = {x, nc_build_scalar(b, NC_UINT8, (double)(i * bits))};
        nc_value *moved = i > 0 ? nc_build_attr1(b, "", "BitShift", in, 2, &right, 1) : x;
        moved = nc_build1(b, "BitwiseAnd", 2, moved, nc_build_scalar(b, NC_UINT8, (double)((1 << bits) - 1)));
        parts[i] = nc_build1(b, "Unsqueeze", 2, moved, ints(b, -1));
    }
    nc_value *y = nc_build_cast(b, nc_build_attr1(b, "", "Concat", parts, per, &last, 1), t);
    nc_attr ends[2] = {{.name = "start", .kind = NC_A_INT, .i = 0}, {.name = "end", .kind = NC_A_INT, .i = rank - 1}};
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *n = nc_build1(b, "Mul", 2, nc_contrib_size(b, x, rank - 1), nc_build_int(b, per));
    nc_value *shape[2] = {nc_build_attr1(b, "", "Shape", &x, 1, ends, 2), n};
    return nc_build1(b, "Reshape", 2, y, rank > 1 ? nc_build_attr1(b, "", "Concat", shape, 2, &first, 1) : n);
}

static nc_value *as_rows(nc_builder *b, nc_value *x, int64_t rows, int64_t columns) {
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (int64_t[]){rows, columns}, 2));
}

static nc_value *along(nc_builder *b, nc_value *x, nc_value *at, int64_t axis) {
    nc_value *in[2] = {x, at};
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Gather", in, 2, &attr, 1);
}

/* Block of each of n places. */
static nc_value *block_of(nc_builder *b, nc_value *n, int64_t block) {
    nc_value *all =
        nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build1(b, "Squeeze", 2, n, ints(b, 0)), nc_build_int(b, 1));
    return nc_build1(b, "Div", 2, all, nc_build_int(b, block));
}

/* W (N,K) of type t. */
static nc_value *weights(nc_builder *b, const nc_node *n, const nc_nbits *q, nc_dtype t) {
    int64_t blocks = nc_ceil_div(q->K, q->block), bytes = nc_ceil_div(blocks * q->bits, 8);
    nc_value *codes = nc_nbits_unpacked(b, as_rows(b, n->in[B], q->N, blocks * (q->block * q->bits / 8)), q->bits, t);
    codes = nc_build1(b, "Slice", 4, codes, ints(b, 0), ints(b, q->K), ints(b, 1));
    nc_value *at = nc_contrib_in(n, GROUPS) != NULL ? n->in[GROUPS] : block_of(b, ints(b, q->K), q->block);
    nc_value *scales = as_rows(b, nc_build_cast(b, n->in[SCALES], t), q->N, blocks), *zeros = nc_contrib_in(n, ZEROS);
    nc_value *zero = nc_build_scalar(b, t, (double)(1 << (q->bits - 1)));
    if (zeros != NULL && b->code == NC_OK) {
        bool packed = zeros->type->elem == NC_UINT8;
        zeros = packed ? nc_nbits_unpacked(b, as_rows(b, zeros, q->N, bytes), q->bits, t)
                       : as_rows(b, nc_build_cast(b, zeros, t), q->N, blocks);
        zero = along(b, zeros, at, 1);
    }
    return nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, codes, zero), along(b, scales, at, 1));
}

static nc_code nbits_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_nbits q = nc_nbits_read(n);
    if (n->in[A]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_dtype t = n->in[A]->type->elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT;
    nc_value *w = nc_build_transpose(b, weights(b, n, &q, t), (int64_t[]){1, 0}, 2);
    nc_value *y = nc_build1(b, "MatMul", 2, nc_contrib_wide(b, n->in[A]), w);
    out[0] = nc_build_cast(b, nc_contrib_add(b, y, nc_contrib_wide(b, nc_contrib_in(n, BIAS))), n->in[A]->type->elem);
    return b->code;
}

/* ---- GatherBlockQuantized: data, indices, scales, zero points ---- */

static nc_code axes_of(nc_work *w, const nc_node *n, int rank, int *gather, int *quantize) {
    int64_t g = nc_attr_int(n, "gather_axis"), q = nc_attr_int(n, "quantize_axis");
    if (g < -rank || g >= rank) NC_FAIL(w, NC_E_BAD_GRAPH, "gather_axis is %lld for %d dims", (long long)g, rank);
    if (q < -rank || q >= rank) NC_FAIL(w, NC_E_BAD_GRAPH, "quantize_axis is %lld for %d dims", (long long)q, rank);
    *gather = (int)(g < 0 ? g + rank : g);
    *quantize = (int)(q < 0 ? q + rank : q);
    return NC_OK;
}

/* Codes in one byte of data. */
static int64_t per_byte(const nc_node *n, nc_dtype t) { return t == NC_UINT8 ? 8 / nc_attr_int(n, "bits") : 1; }

static nc_code gather_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *at = nc_in(c, 1), *scales = nc_in(c, 2);
    int64_t bits = nc_attr_int(c->node, "bits"), block = nc_attr_int(c->node, "block_size");
    const nc_dim *dims[NC_MAX_RANK];
    int g, q, rank = 0;
    if (bits != 4 && bits != 8) NC_FAIL(c->w, NC_E_BAD_GRAPH, "bits is %lld, expected 4 or 8", (long long)bits);
    if (block < 16 || (block & (block - 1)) != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "block_size is %lld, expected a power of 2 from 16 on", (long long)block);
    if (x == NULL || at == NULL || scales == NULL) return NC_OK;
    if (x->rank < 0 || at->rank < 0) return nc_out_unknown(c, 0, scales->elem, -1);
    NC_TRY(axes_of(c->w, c->node, x->rank, &g, &q));
    if (g == q) NC_FAIL(c->w, NC_E_BAD_GRAPH, "gather_axis and quantize_axis are both %d", g);
    if (x->elem == NC_UINT8 && (g != 0 || q != x->rank - 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "uint8 data is gathered along axis 0 and quantized along the last, not %d and %d",
                g, q);
    NC_TRY(nc_contrib_rank(c, 2, x->rank));
    NC_TRY(nc_contrib_rank(c, 3, x->rank));
    if (x->rank - 1 + at->rank > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "the result has too many dims");
    const nc_dim *size = nc_dim_mul(c->dims, x->dims[q], nc_dim_const(c->dims, per_byte(c->node, x->elem)));
    NC_TRY(nc_in_expect(c, 2, q, nc_dim_ceildiv(c->dims, size, nc_dim_const(c->dims, block))));
    for (int i = 0; i < x->rank; i++) {
        if (i != q) NC_TRY(nc_in_expect(c, 2, i, x->dims[i]));
        for (int k = 0; i == g && k < at->rank; k++) dims[rank++] = at->dims[k];
        if (i != g) dims[rank++] = i == q ? size : x->dims[i];
    }
    return nc_out(c, 0, scales->elem, rank, dims);
}

static nc_code gather_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *x = n->in[0]->type, *at = n->in[1]->type;
    int g = 0, q = 0;
    if (x == NULL || x->rank < 0 || at == NULL || at->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known ranks");
    if (x->elem != NC_UINT8) NC_FAIL(b->w, NC_E_UNSUPPORTED, "no op of ai.onnx gathers %s", nc_dtype_name(x->elem));
    NC_TRY(axes_of(b->w, n, x->rank, &g, &q));
    int axis = q > g ? q - 1 + at->rank : q;
    nc_value *codes = nc_nbits_unpacked(b, along(b, n->in[0], n->in[1], g), nc_attr_int(n, "bits"), NC_FLOAT),
             *zeros = nc_contrib_in(n, 3);
    if (b->code != NC_OK) return b->code;
    nc_value *block = block_of(b, nc_contrib_size(b, codes, axis), nc_attr_int(n, "block_size"));
    nc_value *scales = along(b, along(b, nc_contrib_wide(b, n->in[2]), n->in[1], g), block, axis);
    double middle = (double)(1 << (nc_attr_int(n, "bits") - 1));
    nc_value *zero =
        zeros != NULL ? along(b, nc_nbits_unpacked(b, along(b, zeros, n->in[1], g), nc_attr_int(n, "bits"), NC_FLOAT),
                              block, axis)
                      : nc_build_scalar(b, NC_FLOAT, middle);
    nc_value *y = nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, codes, zero), scales);
    if (b->code != NC_OK) return b->code;
    out[0] = nc_build_cast(b, y, n->in[2]->type->elem);
    return b->code;
}

/* ---- cards ---- */

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"A", T_FLOAT_ALL}, {"B", NC_BIT(NC_UINT8)}, {"scales", SAME(0)},
        {"zero_points", NC_BIT(NC_UINT8) | T_FLOAT_ALL, OPTIONAL}, {"g_idx", T_I32, OPTIONAL},
        {"bias", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT_REQ("K"), A_INT_REQ("N"), A_INT("bits", 4), A_INT_REQ("block_size"), A_INT("accuracy_level", 0),
          A_INT("weight_prepacked", 0))},
    {0}};
static const nc_op_version gather_versions[] = {
    {.since = 1,
     IN({"data", T_INT4 | NC_BIT(NC_UINT8) | T_F8 | T_F4}, {"indices", T_INDEX}, {"scales", T_FLOAT_ALL},
        {"zero_points", SAME(0), OPTIONAL}),
     OUT({"output", SAME(2)}),
     ATTR(A_INT("gather_axis", 0), A_INT("quantize_axis", 1), A_INT("block_size", 128), A_INT("bits", 4))},
    {0}};

const nc_card nc_card_matmul_nbits = {.name = "MatMulNBits",
                                      .domain = NC_MICROSOFT,
                                      .doc = "A times weights of 2, 4 or 8 bits in blocks, plus a bias.",
                                      .versions = versions,
                                      .no_grad_in = 1u << B | 1u << SCALES | 1u << ZEROS | 1u << GROUPS,
                                      .infer = nbits_infer,
                                      .decompose = nbits_decompose};
const nc_card nc_card_gather_block_quantized = {.name = "GatherBlockQuantized",
                                                .domain = NC_MICROSOFT,
                                                .doc = "Rows of a table of codes in blocks, as numbers.",
                                                .versions = gather_versions,
                                                .zero_grad = true,
                                                .infer = gather_infer,
                                                .decompose = gather_decompose};
