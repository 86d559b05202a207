/* ops/quant/qmatmul_cpu.c: MatMulInteger and QLinearMatMul on the CPU: integer matrix products over broadcast batches,
 * and for the latter the sums in the workspace, quantized again row by row.
 *
 * Zero points and scales are one number, one per row of A (column of B), or one per row of every matrix of A. */
#include "base/intmath.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/quant/linear.h"
#include "kernels/cpu/quant/qgemm.h"
#include "ops/quant/quant.h"

enum { MAX_IN = 8 };

typedef struct roles {
    bool linear;
    int a, b, a_zero, b_zero; /* inputs */
} roles;

typedef struct product {
    int64_t M, N, K, a_rows, b_mats; /* rows of all matrices of A; matrices of B */
    const nc_tensor *a, *b, *a_zero, *b_zero;
} product;

static bool is_bytes(const nc_value *v) { return v->type != NULL && (NC_BIT(v->type->elem) & T_BYTE) != 0; }

bool nc_matmul_integer_fits(const nc_node *n, const char **why) {
    *why = "8-bit floats are not multiplied";
    return is_bytes(n->in[1]);
}

bool nc_qlinear_matmul_fits(const nc_node *n, const char **why) {
    *why = "8-bit floats are not multiplied";
    return is_bytes(n->in[3]) && is_bytes(n->out[0]);
}

nc_code nc_qmatmul_prepare(nc_prep *p) {
    roles *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = *(const nc_quant_row *)p->own == NC_QUANT_LINEAR ? (roles){true, 0, 3, 2, 5} : (roles){false, 0, 1, 2, 3};
    p->state = r;
    return NC_OK;
}

static int64_t product_of(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}

static void qmatmul_describe(const roles *r, nc_tensor *const *in, int n_in, product *p) {
    const nc_tensor *a = in[r->a], *b = in[r->b];
    p->a = a, p->b = b;
    p->a_zero = r->a_zero < n_in ? in[r->a_zero] : NULL;
    p->b_zero = r->b_zero < n_in ? in[r->b_zero] : NULL;
    p->K = a->dims[a->rank - 1];
    p->M = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    p->N = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    p->a_rows = product_of(a->dims, a->rank - 1);
    p->b_mats = b->rank > 2 ? product_of(b->dims, b->rank - 2) : 1;
}

static size_t sums_bytes(const roles *r, const nc_tensor *y) {
    return r->linear ? nc_align64((size_t)nc_tensor_numel(y) * sizeof(int32_t)) : 0;
}

size_t nc_qmatmul_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const roles *r = state;
    product p;
    (void)n_out;
    nc_tensor *pointers[MAX_IN];
    qmatmul_describe(r, nc_tensor_pointers(pointers, in, n_in < MAX_IN ? n_in : MAX_IN), n_in, &p);
    return sums_bytes(r, out) + nck_qgemm_workspace(p.a_rows, p.N, p.K);
}

/* A parameter of `n` numbers for matrices of `each` rows or columns, `all` in all of them. */
static nc_code check_count(const nc_call *c, const char *what, const nc_tensor *t, int64_t each, int64_t all) {
    int64_t n = t != NULL && t->data != NULL ? nc_tensor_numel(t) : 1;
    if (n == 1 || n == each || n == all) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld numbers, expected 1 or %lld", what,
                       (long long)n, (long long)each);
}

static nc_code qmatmul_check(const nc_call *c, const roles *r, const product *p) {
    int64_t K = p->b->dims[p->b->rank > 1 ? p->b->rank - 2 : 0], columns = p->b_mats * p->N;
    if (K != p->K)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B has %lld rows", (long long)p->K,
                           (long long)K);
    NC_TRY(check_count(c, "the zero point of A", p->a_zero, p->M, p->a_rows));
    NC_TRY(check_count(c, "the zero point of B", p->b_zero, p->N, columns));
    if (!r->linear) return NC_OK;
    NC_TRY(check_count(c, "the scale of A", c->in[1], p->M, p->a_rows));
    NC_TRY(check_count(c, "the scale of B", c->in[4], p->N, columns));
    NC_TRY(check_count(c, "the scale of y", c->in[6], 1, 1));
    return check_count(c, "the zero point of y", c->in[7], 1, 1);
}

/* A walk over the batches of the result, its first `lead` dims: which matrix of A (offset 0) and of B (offset 1) each
 * uses, in matrices. */
static void batches_of(const product *p, const nc_tensor *y, int lead, nck_walk *w) {
    const nc_tensor *t[2] = {p->a, p->b};
    int64_t strides[2][NC_MAX_RANK];
    for (int k = 0; k < 2; k++) {
        int rank = t[k]->rank > 2 ? t[k]->rank - 2 : 0;
        int64_t dense[NC_MAX_RANK];
        nc_dense_strides(t[k]->dims, rank, dense);
        nc_spread_strides(rank, t[k]->dims, dense, lead, y->dims, strides[k]);
    }
    nck_walk_init(w, lead, y->dims, 2, strides);
}

/* The numbers of one matrix: those that belong to it alone, or all. */
static const void *zeros_of(const nc_tensor *t, int64_t each, int64_t matrix, int64_t *n) {
    *n = 1;
    if (t == NULL || t->data == NULL) return NULL;
    *n = nc_tensor_numel(t);
    if (*n <= each) return t->data;
    *n = each;
    return (const char *)t->data + matrix * each;
}

static void multiply(const nc_call *c, const product *p, int32_t *sums, void *workspace) {
    const nc_tensor *y = c->out[0];
    bool one_b = p->b_mats == 1;
    int lead = y->rank - (p->a->rank > 1) - (p->b->rank > 1);
    int64_t n_batches = one_b && nc_tensor_numel(y) == p->a_rows * p->N ? 1 : product_of(y->dims, lead);
    bool merged = n_batches == 1;
    nck_qgemm_args g = {.M = merged ? p->a_rows : p->M,
                        .N = p->N,
                        .K = p->K,
                        .a_type = p->a->dtype,
                        .b_type = p->b->dtype,
                        .a_rs = p->K,
                        .a_cs = 1,
                        .b_rs = p->N,
                        .b_cs = 1,
                        .c_rs = p->N};
    nck_walk batches;
    nck_walk_at w;
    batches_of(p, y, lead, &batches);
    nck_walk_start(&w, &batches, 0);
    for (int64_t i = 0; i < n_batches; i++, nck_walk_next(&w)) {
        int64_t ma = w.offset[0], mb = w.offset[1];
        g.a = (const char *)p->a->data + ma * p->M * p->K;
        g.b = (const char *)p->b->data + mb * p->K * p->N;
        g.a_zero = zeros_of(p->a_zero, merged ? p->a_rows : p->M, ma, &g.a_zeros);
        g.b_zero = zeros_of(p->b_zero, p->N, mb, &g.b_zeros);
        g.c = sums + i * g.M * g.N;
        nck_qgemm(&g, workspace, c->pool);
    }
}

/* ---- QLinearMatMul: the sums quantized again ---- */

typedef struct qmatmul_rows {
    const nc_call *c;
    const product *p;
    const int32_t *sums;
    const nck_walk *batches;
} qmatmul_rows;

static float float_at(const nc_tensor *t, int64_t i) {
    if (t->dtype == NC_FLOAT) return ((const float *)t->data)[i];
    uint16_t h = ((const uint16_t *)t->data)[i];
    return t->dtype == NC_FLOAT16 ? nc_f16_to_f32(h) : nc_bf16_to_f32(h);
}

static float scale_at(const nc_tensor *t, int64_t each, int64_t matrix, int64_t i) {
    int64_t n = nc_tensor_numel(t);
    return float_at(t, n == 1 ? 0 : n == each ? i : matrix * each + i);
}

static void row_item(void *ctx, int64_t row) {
    const qmatmul_rows *r = ctx;
    nc_tensor *const *in = r->c->in;
    const nc_tensor *y = r->c->out[0];
    const product *p = r->p;
    nck_walk_at w;
    nck_walk_start(&w, r->batches, row / p->M);
    int64_t ma = w.offset[0], mb = w.offset[1];
    float a = scale_at(in[1], p->M, ma, row % p->M), inv = float_at(in[6], 0);
    int zero = y->dtype == NC_INT8 ? *(const int8_t *)in[7]->data : *(const uint8_t *)in[7]->data;
    const int32_t *sums = r->sums + row * p->N;
    char *out = (char *)y->data + row * p->N;
    if (nc_tensor_numel(in[4]) == 1) {
        nck_requantize(sums, p->N, (double)(a * float_at(in[4], 0) / inv), zero, y->dtype, out);
        return;
    }
    for (int64_t j = 0; j < p->N; j++)
        nck_requantize(sums + j, 1, (double)(a * scale_at(in[4], p->N, mb, j) / inv), zero, y->dtype, out + j);
}

nc_code nc_qmatmul_run(const nc_call *c) {
    const roles *r = c->state;
    const nc_tensor *y = c->out[0];
    product p;
    qmatmul_describe(r, c->in, c->n_in, &p);
    NC_TRY(qmatmul_check(c, r, &p));
    if (nc_tensor_numel(y) == 0) return NC_OK;
    int32_t *sums = r->linear ? c->workspace : y->data;
    multiply(c, &p, sums, (char *)c->workspace + sums_bytes(r, y));
    if (!r->linear) return NC_OK;
    nck_walk batches;
    batches_of(&p, y, y->rank - (p.a->rank > 1) - (p.b->rank > 1), &batches);
    qmatmul_rows job = {.c = c, .p = &p, .sums = sums, .batches = &batches};
    nc_parallel(nc_pool_for(c->pool, nc_tensor_numel(y)), nc_tensor_numel(y) / p.N, row_item, &job);
    return NC_OK;
}
