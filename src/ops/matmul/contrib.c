/* ops/matmul/contrib.c: cards of com.microsoft that are products of another kind: CDist (distances between rows),
 * ComplexMul and ComplexMulConj (the last dim is a number's real and imaginary part), MatMulInteger16. They run as what
 * they are made of. */
#include <string.h>

#include "ops/contrib.h"

extern const nc_card nc_card_matmul;

/* ---- CDist: a (M,K), b (N,K) ---- */

static nc_code cdist_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *y = nc_in(c, 1);
    const char *metric = nc_attr_str(c->node, "metric");
    if (strcmp(metric, "sqeuclidean") != 0 && strcmp(metric, "euclidean") != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "metric is '%.60s', expected euclidean or sqeuclidean", metric);
    NC_TRY(nc_contrib_rank(c, 0, 2));
    NC_TRY(nc_contrib_rank(c, 1, 2));
    if (x == NULL) return NC_OK;
    if (x->rank != 2 || y == NULL || y->rank != 2) return nc_out_unknown(c, 0, x->elem, 2);
    NC_TRY(nc_in_expect(c, 1, 1, x->dims[1]));
    return nc_out(c, 0, x->elem, 2, (const nc_dim *[]){x->dims[0], y->dims[0]});
}

static nc_value *squares(nc_builder *b, nc_value *x) {
    return nc_build_reduce_sum(b, nc_build1(b, "Mul", 2, x, x), (int64_t[]){1}, 1, true);
}

/* a a - 2 a b + b b, which rounding may make negative. */
static nc_code cdist_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t turned[] = {1, 0};
    nc_value *x = n->in[0], *y = n->in[1];
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_dtype t = x->type->elem;
    nc_value *product = nc_build1(b, "MatMul", 2, x, nc_build_transpose(b, y, turned, 2));
    nc_value *twice = nc_build1(b, "Mul", 2, product, nc_build_scalar(b, t, 2));
    nc_value *sums = nc_build1(b, "Add", 2, squares(b, x), nc_build_transpose(b, squares(b, y), turned, 2));
    nc_value *d = nc_build1(b, "Max", 2, nc_build1(b, "Sub", 2, sums, twice), nc_build_scalar(b, t, 0));
    out[0] = strcmp(nc_attr_str(n, "metric"), "euclidean") == 0 ? nc_build1(b, "Sqrt", 1, d) : d;
    return b->code;
}

/* ---- complex numbers ---- */

typedef struct complex_kind {
    bool conjugate; /* of b */
} complex_kind;

static nc_code complex_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    const nc_type *x = nc_in(c, 0);
    int rank;
    if (x == NULL) return NC_OK;
    for (int i = 0; i < 2; i++)
        if (nc_in_rank(c, i, &rank)) {
            if (rank < 1) NC_FAIL(c->w, NC_E_SHAPE, "%s is a scalar, expected 2 in the last dim", i == 0 ? "A" : "B");
            NC_TRY(nc_in_expect(c, i, rank - 1, nc_dim_const(c->dims, 2)));
        }
    NC_TRY(nc_broadcast_in(c, 0, 2, dims, &rank));
    return rank < 0 ? nc_out_unknown(c, 0, x->elem, -1) : nc_out(c, 0, x->elem, rank, dims);
}

static nc_code complex_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    bool conjugate = ((const complex_kind *)n->card->own)->conjugate;
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = -1}, {.name = "num_outputs", .kind = NC_A_INT, .i = 2}};
    nc_node *x = nc_build(b, "", "Split", &n->in[0], 1, 2, attrs, 2),
            *y = nc_build(b, "", "Split", &n->in[1], 1, 2, attrs, 2);
    if (x == NULL || y == NULL) return b->code;
    nc_value *rr = nc_build1(b, "Mul", 2, x->out[0], y->out[0]), *ii = nc_build1(b, "Mul", 2, x->out[1], y->out[1]);
    nc_value *ri = nc_build1(b, "Mul", 2, x->out[0], y->out[1]), *ir = nc_build1(b, "Mul", 2, x->out[1], y->out[0]);
    nc_value *parts[2] = {nc_build1(b, conjugate ? "Add" : "Sub", 2, rr, ii),
                          conjugate ? nc_build1(b, "Sub", 2, ir, ri) : nc_build1(b, "Add", 2, ri, ir)};
    out[0] = nc_build_attr1(b, "", "Concat", parts, 2, attrs, 1);
    return b->code;
}

/* ---- MatMulInteger16 ---- */

static nc_code integer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *y = nc_in(c, 1);
    NC_TRY(nc_card_matmul.infer(c));
    const nc_type *t = c->out[0].type;
    if (t == NULL || x == NULL || y == NULL) return NC_OK;
    nc_dtype to = x->elem == NC_UINT16 && y->elem == NC_UINT16 ? NC_UINT32 : NC_INT32;
    return t->rank < 0 ? nc_out_unknown(c, 0, to, -1) : nc_out(c, 0, to, t->rank, t->dims);
}

static nc_code integer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    if (n->out[0]->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need known types");
    nc_dtype t = n->out[0]->type->elem;
    out[0] = nc_build1(b, "MatMul", 2, nc_build_cast(b, n->in[0], t), nc_build_cast(b, n->in[1], t));
    return b->code;
}

/* ---- cards ---- */

#define I16 (NC_BIT(NC_INT16) | NC_BIT(NC_UINT16))
#define TWO(types) IN({"A", types}, {"B", SAME(0)}), OUT({"C", SAME(0)})
static const nc_op_version cdist_versions[] = {
    {.since = 1, TWO(NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE)), ATTR(A_STR("metric", "sqeuclidean"))}, {0}};
static const nc_op_version complex_versions[] = {{.since = 1, TWO(T_FLOAT), NO_ATTR}, {0}};
static const nc_op_version conj_versions[] = {{.since = 1, TWO(T_FLOAT), NO_ATTR}, {0}};
static const nc_op_version integer_versions[] = {
    {.since = 1, IN({"A", I16}, {"B", I16}), OUT({"Y", NC_BIT(NC_INT32) | NC_BIT(NC_UINT32)}), NO_ATTR}, {0}};
const nc_card nc_card_cdist = {.name = "CDist",
                               .domain = NC_MICROSOFT,
                               .doc = "Distances between the rows of A and those of B.",
                               .versions = cdist_versions,
                               .infer = cdist_infer,
                               .decompose = cdist_decompose};
const nc_card nc_card_complex_mul = {.name = "ComplexMul",
                                     .domain = NC_MICROSOFT,
                                     .doc = "Products of complex numbers.",
                                     .versions = complex_versions,
                                     .own = &(const complex_kind){.conjugate = false},
                                     .infer = complex_infer,
                                     .decompose = complex_decompose};
const nc_card nc_card_complex_mul_conj = {.name = "ComplexMulConj",
                                          .domain = NC_MICROSOFT,
                                          .doc = "Products of complex numbers and the conjugates of others.",
                                          .versions = conj_versions,
                                          .own = &(const complex_kind){.conjugate = true},
                                          .infer = complex_infer,
                                          .decompose = complex_decompose};
const nc_card nc_card_matmul_integer16 = {.name = "MatMulInteger16",
                                          .domain = NC_MICROSOFT,
                                          .doc = "A product of matrices of 16-bit integers.",
                                          .versions = integer_versions,
                                          .zero_grad = true,
                                          .infer = integer_infer,
                                          .decompose = integer_decompose};
