/* ops/quant/bnb4.c: the card of MatMulBnb4 (com.microsoft): weights as bitsandbytes packs them, two codes of 4 bits
 * a byte, high half first, over W (N,K) row by row; each code is one of sixteen numbers, times the largest
 * magnitude of its block, which may go over ends of rows. It has a kernel on GPUs (nbits_cuda.c); else
 * it runs, and has its gradient by A, as what it is made of. */
#include "base/intmath.h"
#include "ir/edit.h"
#include "ops/contrib.h"
#include "ops/quant/nbits.h"

enum { A, B, ABSMAX };

/* The sixteen numbers of FP4 (sign, two bits of exponent, one of fraction, without 0.0625) and of NF4 (quantiles of the
 * normal distribution), as bitsandbytes has them. */
static const float numbers[2][16] = {
    {0.0f, 0.005208333333f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f, -0.005208333333f,
     -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f}};

const float *nc_bnb4_numbers(const nc_node *n) { return numbers[nc_attr_int(n, "quant_type")]; }

static nc_code check_attrs(nc_infer *c, int64_t K, int64_t N, int64_t block) {
    int64_t kind = nc_attr_int(c->node, "quant_type");
    if (K < 1 || N < 1 || N > INT64_MAX / 2 / K)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "K is %lld and N is %lld, expected at least 1", (long long)K, (long long)N);
    if (block < 16 || (block & (block - 1)) != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "block_size is %lld, expected a power of 2 from 16 on", (long long)block);
    if (kind != 0 && kind != 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "quant_type is %lld, expected 0 (FP4) or 1 (NF4)", (long long)kind);
    return NC_OK;
}

static nc_code check_count(nc_infer *c, int i, int64_t want) {
    int64_t d;
    NC_TRY(nc_contrib_rank(c, i, 1));
    if (nc_in(c, i) == NULL || nc_in(c, i)->rank != 1 || !nc_dim_is_const(nc_in_dim(c, i, 0), &d) || d == want)
        return NC_OK;
    NC_FAIL(c->w, NC_E_SHAPE, "%s has %lld elements, expected %lld", c->node->version->in[i].name, (long long)d,
            (long long)want);
}

static nc_code bnb4_infer(nc_infer *c) {
    int64_t K = nc_attr_int(c->node, "K"), N = nc_attr_int(c->node, "N"), block = nc_attr_int(c->node, "block_size");
    const nc_type *a = nc_in(c, A);
    const nc_dim *dims[NC_MAX_RANK];
    bool turned = nc_attr_int(c->node, "transB") != 0;
    NC_TRY(check_attrs(c, K, N, block));
    NC_TRY(check_count(c, B, nc_ceil_div(K * N, 2)));
    NC_TRY(check_count(c, ABSMAX, nc_ceil_div(K * N, block)));
    if (a == NULL) return NC_OK;
    if (a->rank < 0) return nc_out_unknown(c, 0, a->elem, -1);
    if (a->rank < 1) NC_FAIL(c->w, NC_E_SHAPE, "A is a scalar, at least 1 dim is expected");
    NC_TRY(nc_in_expect(c, A, a->rank - 1, nc_dim_const(c->dims, turned ? K : N)));
    for (int i = 0; i < a->rank; i++) dims[i] = i < a->rank - 1 ? a->dims[i] : nc_dim_const(c->dims, turned ? N : K);
    return nc_out(c, 0, a->elem, a->rank, dims);
}

nc_code nc_bnb4_check_counts(const nc_call *c, int64_t K, int64_t N, int64_t block) {
    int64_t want[2] = {nc_ceil_div(K * N, 2), nc_ceil_div(K * N, block)};
    for (int i = 0; i < 2; i++)
        if (nc_tensor_numel(c->in[B + i]) != want[i])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, expected %lld", B + i,
                               (long long)nc_tensor_numel(c->in[B + i]), (long long)want[i]);
    return NC_OK;
}

static nc_value *shaped(nc_builder *b, nc_value *x, int64_t rows, int64_t columns) {
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (int64_t[]){rows, columns}, 2));
}

/* Bytes (n) as codes (n,2), high half first. */
static nc_value *halves(nc_builder *b, nc_value *x, int64_t n) {
    nc_attr right = {.name = "direction", .kind = NC_A_STRING, .s = {.p = "RIGHT", .n = 5}};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *in[2] = {shaped(b, x, n, 1), nc_build_scalar(b, NC_UINT8, 4)}, *parts[2];
    parts[0] = nc_build_attr1(b, "", "BitShift", in, 2, &right, 1);
    parts[1] = nc_build_newest1(b, "BitwiseAnd", (nc_value *[]){in[0], nc_build_scalar(b, NC_UINT8, 15)}, 2, NULL, 0);
    return nc_build_attr1(b, "", "Concat", parts, 2, &axis, 1);
}

/* The first `count` of the elements of x, as one row. */
static nc_value *first(nc_builder *b, nc_value *x, int64_t count) {
    int64_t zero = 0;
    x = nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (int64_t[]){-1}, 1));
    return nc_build1(b, "Slice", 3, x, nc_build_ints(b, &zero, 1), nc_build_ints(b, &count, 1));
}

/* W (N,K) of type t. */
static nc_value *bnb4_weights(nc_builder *b, const nc_node *n, nc_value *of, nc_dtype t) {
    int64_t K = nc_attr_int(n, "K"), N = nc_attr_int(n, "N"), block = nc_attr_int(n, "block_size");
    nc_value *codes = nc_build_cast(b, first(b, halves(b, n->in[B], nc_ceil_div(K * N, 2)), K * N), NC_INT64);
    nc_value *w = nc_build_cast(b, nc_build1(b, "Gather", 2, of, codes), t);
    nc_value *most = nc_build1(b, "Expand", 2, shaped(b, nc_build_cast(b, n->in[ABSMAX], t), -1, 1),
                               nc_build_ints(b, (int64_t[]){1, block}, 2));
    return shaped(b, nc_build1(b, "Mul", 2, w, first(b, most, K * N)), N, K);
}

static nc_code bnb4_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->in[A]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    int64_t sixteen = 16;
    nc_dtype t = n->in[A]->type->elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT;
    const nc_literal *l = nc_edit_literal(b->graph->model, NC_FLOAT, 1, &sixteen, nc_bnb4_numbers(n));
    NC_NEED(b->w, l);
    nc_value *table = nc_edit_const(b->graph, NULL, l);
    NC_NEED(b->w, table);
    nc_value *w = bnb4_weights(b, n, table, t);
    if (nc_attr_int(n, "transB") != 0) w = nc_build_transpose(b, w, (int64_t[]){1, 0}, 2);
    out[0] = nc_build_cast(b, nc_build1(b, "MatMul", 2, nc_contrib_wide(b, n->in[A]), w), n->in[A]->type->elem);
    return b->code;
}

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"A", T_FLOAT_ALL}, {"B", NC_BIT(NC_UINT8)}, {"absmax", SAME(0)}),
                                          OUT({"Y", SAME(0)}),
                                          ATTR(A_INT_REQ("K"), A_INT_REQ("N"), A_INT_REQ("block_size"),
                                               A_INT_REQ("quant_type"), A_INT("training_mode", 0), A_INT("transB", 1))},
                                         {0}};

const nc_card nc_card_matmul_bnb4 = {.name = "MatMulBnb4",
                                     .domain = NC_MICROSOFT,
                                     .doc = "A product with weights of 4 bits in blocks, as bitsandbytes packs them.",
                                     .versions = versions,
                                     .no_grad_in = 1u << B | 1u << ABSMAX,
                                     .infer = bnb4_infer,
                                     .decompose = bnb4_decompose};
