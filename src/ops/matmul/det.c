/* ops/matmul/det.c: the cards of Det and of its gradient nacre.DetGrad: dX = dY * cofactors of X, which needs no
 * inverse and holds for singular matrices. DetGrad decomposes into Det of all minors, for matrices of known size.
 * Kernels are in det_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"

static nc_code det_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank;
    int64_t m, n;
    if (x == NULL) return NC_OK;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, x->elem, -1);
    if (rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, at least 2 are expected", rank);
    if (nc_dim_is_const(x->dims[rank - 2], &m) && nc_dim_is_const(x->dims[rank - 1], &n) && m != n)
        NC_FAIL(c->w, NC_E_SHAPE, "matrices of %lld rows and %lld columns are not square", (long long)m, (long long)n);
    return nc_out(c, 0, x->elem, rank - 2, x->dims);
}

static nc_code det_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[2] = {dy, nc_grad_x(g, 0)};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "DetGrad", in, 2, NULL, 0));
    return nc_grad_end(g);
}

enum { MAX_N = 16 };

static nc_value *matrix_of(nc_builder *b, const int64_t *v, int64_t rows, int64_t columns) {
    int64_t shape[2] = {rows, columns};
    return nc_build1(b, "Reshape", 2, nc_build_ints(b, v, (int)(rows * columns)), nc_build_ints(b, shape, 2));
}

static nc_value *gather(nc_builder *b, nc_value *x, nc_value *index, int64_t axis) {
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return nc_build_attr1(b, "", "Gather", (nc_value *[]){x, index}, 2, &attr, 1);
}

/* Minors (...,r,s,n-1,n-1) of x (...,n,n): rows without r, columns without s. */
static nc_value *minors(nc_builder *b, nc_value *x, int64_t n) {
    int64_t others[MAX_N * MAX_N], perm[NC_MAX_RANK];
    int rank = x->type->rank, k = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < n; i++)
            if (i != r) others[k++] = i;
    nc_value *index = matrix_of(b, others, n, n - 1);
    x = gather(b, gather(b, x, index, rank - 1), index, rank - 2); /* (...,r,rows,s,columns) */
    for (int i = 0; i < rank + 2; i++) perm[i] = i;
    perm[rank - 1] = rank;
    perm[rank] = rank - 1;
    return nc_build_transpose(b, x, perm, rank + 2);
}

static nc_code det_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *x = n->in[1];
    const nc_type *t = x->type;
    int64_t size, signs[MAX_N * MAX_N], last[2] = {-1, -2};
    if (t->rank < 2 || t->rank + 2 > NC_MAX_RANK || !nc_dim_is_const(t->dims[t->rank - 1], &size) || size > MAX_N)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its decomposition takes matrices of known size up to %d", MAX_N);
    nc_value *wide = nc_build1(b, "Unsqueeze", 2, dy, nc_build_ints(b, last, 2));
    out[0] = wide;
    if (size < 2) return b->code;
    for (int64_t i = 0; i < size * size; i++) signs[i] = (i / size + i % size) % 2 == 0 ? 1 : -1;
    nc_value *sign = nc_build_cast(b, matrix_of(b, signs, size, size), t->elem);
    nc_value *cofactors = nc_build1(b, "Mul", 2, nc_build1(b, "Det", 1, minors(b, x, size)), sign);
    out[0] = nc_build1(b, "Mul", 2, wide, cofactors);
    return b->code;
}

static nc_code det_grad_infer(nc_infer *c) { return nc_out_like(c, 0, 1); }

#define ROW(types) IN({"X", types}), OUT({"Y", SAME(0)}), NO_ATTR
static const nc_op_version versions[] = {{.since = 22, ROW(T_FLOAT_ALL)}, {.since = 11, ROW(T_FLOAT)}, {0}};
static const nc_op_version grad_versions[] = {
    {.since = 1, IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}), OUT({"dX", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_det = {.name = "Det",
                             .doc = "Determinants of square matrices.",
                             .versions = versions,
                             .infer = det_infer,
                             .grad = det_grad};
const nc_card nc_card_det_grad = {.name = "DetGrad",
                                  .domain = "nacre",
                                  .doc = "Gradient of Det: dY times the cofactors of X.",
                                  .versions = grad_versions,
                                  .infer = det_grad_infer,
                                  .decompose = det_grad_decompose};
