/* ops/quant/qmatmul_cpu.c: products of quantized matrices on the CPU: MatMulInteger, QLinearMatMul,
 * MatMulIntegerToFloat, DynamicQuantizeMatMul and QGemm are one integer product (kernels/cpu/gemm/igemm.h) over
 * broadcast batches and differ in what becomes of its sums. A constant matrix B is packed once.
 *
 * Zero points and scales are one number, one per row of A (column of B), or one per row of every matrix of A. */
#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/walk.h"
#include "kernels/cpu/quant/linear.h"
#include "ops/quant/quant.h"

enum { MAX_IN = 9 };

/* Which input is what; NONE: the op has no such. */
typedef struct roles {
    int a, b, a_zero, b_zero, a_scale, b_scale, y_scale, y_zero, sum_bias, bias;
} roles;
enum { NONE = MAX_IN };

static const roles roles_of[] = {
    [NC_QUANT_INTEGER] = {0, 1, 2, 3, NONE, NONE, NONE, NONE, NONE, NONE},
    [NC_QUANT_LINEAR] = {0, 3, 2, 5, 1, 4, 6, 7, NONE, NONE},
    [NC_QUANT_TO_FLOAT] = {0, 1, 4, 5, 2, 3, NONE, NONE, NONE, 6},
    [NC_QUANT_DYNAMIC] = {0, 1, NONE, 3, NONE, 2, NONE, NONE, NONE, 4},
    [NC_QUANT_GEMM] = {0, 3, 2, 5, 1, 4, 7, 8, 6, NONE},
};

typedef struct qmatmul {
    roles in;
    bool dynamic; /* A is numbers, quantized by its own range */
    bool packed, trans_a, trans_b;
    float alpha;
} qmatmul;

typedef struct product {
    int64_t M, N, K, a_rows, b_mats; /* rows of all matrices of A; matrices of B */
    const nc_tensor *a, *b, *a_zero, *b_zero, *a_scale, *b_scale, *y_scale, *y_zero, *sum_bias, *bias;
} product;

static bool is_bytes(const nc_value *v) { return v->type != NULL && (NC_BIT(v->type->elem) & T_BYTE) != 0; }
static bool is_f32(const nc_value *v) { return v == NULL || (v->type != NULL && v->type->elem == NC_FLOAT); }

bool nc_matmul_integer_fits(const nc_node *n, const char **why) {
    *why = "8-bit floats are not multiplied";
    return is_bytes(n->in[1]);
}

bool nc_qlinear_matmul_fits(const nc_node *n, const char **why) {
    *why = "8-bit floats are not multiplied";
    return is_bytes(n->in[3]) && is_bytes(n->out[0]);
}

bool nc_matmul_to_float_fits(const nc_node *n, const char **why) {
    *why = "the scales are not float";
    return is_f32(n->in[2]);
}

bool nc_qgemm_fits(const nc_node *n, const char **why) {
    const nc_value *c = n->n_in > 6 ? n->in[6] : NULL;
    int64_t columns, all;
    *why = "C is not one number per column";
    if (c == NULL) return true;
    const nc_type *b = n->in[3]->type;
    if (b == NULL || b->rank != 2 || c->type == NULL || c->type->rank < 1 || c->type->rank > 2) return false;
    if (c->type->rank == 2 && !(nc_dim_is_const(c->type->dims[0], &all) && all == 1)) return false;
    return nc_dim_is_const(b->dims[nc_attr_int(n, "transB") != 0 ? 0 : 1], &columns) &&
           nc_dim_is_const(c->type->dims[c->type->rank - 1], &all) && all == columns;
}

/* ---- packed B ---- */

static nc_code qmatmul_fill(const void *state, const nc_tensor *src, void *dst) {
    int k = ((const qmatmul *)state)->trans_b;
    nck_igemm_pack_b(src->dtype, src->dims[k], src->dims[!k], src->data, src->strides[k], src->strides[!k], dst, NULL);
    return NC_OK;
}

static nc_code qmatmul_ask_pack(nc_prep *p, qmatmul *s) {
    const nc_value *b = p->node->in[s->in.b];
    const nc_literal *lit = b->origin == NC_FROM_CONST ? b->lit : NULL;
    if (p->no_packs || lit == NULL || lit->rank != 2 || lit->n == 0) return NC_OK;
    const char *form = nc_arena_printf(p->arena, "igemm_b/1/%s/%s/%s", nck_isa_get()->from.igemm,
                                       nc_dtype_name(lit->dtype), s->trans_b ? "t" : "n");
    NC_NEED(p->w, form);
    int k = s->trans_b;
    p->pack[p->n_packs++] = (nc_pack){.input = s->in.b,
                                      .form = form,
                                      .fill = qmatmul_fill,
                                      .bytes = nck_igemm_packed_b_bytes(lit->dims[k], lit->dims[!k])};
    s->packed = true;
    return NC_OK;
}

nc_code nc_qmatmul_prepare(nc_prep *p) {
    qmatmul *s = nc_arena_alloc(p->arena, sizeof *s);
    nc_quant_row row = *(const nc_quant_row *)p->own;
    NC_NEED(p->w, s);
    *s = (qmatmul){.in = roles_of[row], .dynamic = row == NC_QUANT_DYNAMIC, .alpha = 1};
    if (row == NC_QUANT_GEMM) {
        s->trans_a = nc_attr_int(p->node, "transA") != 0, s->trans_b = nc_attr_int(p->node, "transB") != 0;
        s->alpha = (float)nc_attr_float(p->node, "alpha");
    }
    p->state = s;
    return qmatmul_ask_pack(p, s);
}

/* ---- sizes ---- */

static int64_t product_of(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= d[i];
    return p;
}

static const nc_tensor *operand(nc_tensor *const *in, int n_in, int i) { return i < n_in ? in[i] : NULL; }

static void qmatmul_describe(const qmatmul *s, nc_tensor *const *in, int n_in, product *p) {
    const roles *r = &s->in;
    const nc_tensor *a = in[r->a], *b = in[r->b];
    *p = (product){.a = a,
                   .b = b,
                   .a_zero = operand(in, n_in, r->a_zero),
                   .b_zero = operand(in, n_in, r->b_zero),
                   .a_scale = operand(in, n_in, r->a_scale),
                   .b_scale = operand(in, n_in, r->b_scale),
                   .y_scale = operand(in, n_in, r->y_scale),
                   .y_zero = operand(in, n_in, r->y_zero),
                   .sum_bias = operand(in, n_in, r->sum_bias),
                   .bias = operand(in, n_in, r->bias)};
    p->K = a->dims[s->trans_a ? 0 : a->rank - 1];
    p->M = a->rank > 1 ? a->dims[s->trans_a ? 1 : a->rank - 2] : 1;
    p->N = b->rank > 1 ? b->dims[s->trans_b ? 0 : b->rank - 1] : 1;
    p->a_rows = s->trans_a ? p->M : product_of(a->dims, a->rank - 1);
    p->b_mats = b->rank > 2 ? product_of(b->dims, b->rank - 2) : 1;
}

static int64_t qmatmul_n_scales(const nc_tensor *t) { return t != NULL ? nc_tensor_numel(t) : 1; }

/* Scales as f32: those of other types are converted, and alpha is put into A's. */
static size_t scales_bytes(const product *p) {
    return nc_align64((size_t)(qmatmul_n_scales(p->a_scale) + qmatmul_n_scales(p->b_scale)) * sizeof(float));
}

static size_t codes_bytes(const qmatmul *s, const nc_tensor *a) {
    return s->dynamic ? nc_align64((size_t)nc_tensor_numel(a)) : 0;
}

size_t nc_qmatmul_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const qmatmul *s = state;
    product p;
    (void)out, (void)n_out;
    nc_tensor *pointers[MAX_IN];
    qmatmul_describe(s, nc_tensor_pointers(pointers, in, n_in < MAX_IN ? n_in : MAX_IN), n_in, &p);
    return scales_bytes(&p) + codes_bytes(s, p.a) + nck_igemm_workspace(p.a_rows, p.N, p.K, s->packed, false);
}

/* ---- checks ---- */

/* A parameter of `n` numbers for matrices of `each` rows or columns, `all` in all of them. */
static nc_code check_count(const nc_call *c, const char *what, const nc_tensor *t, int64_t each, int64_t all) {
    int64_t n = t != NULL && t->data != NULL ? nc_tensor_numel(t) : 1;
    if (n == 1 || n == each || n == all) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld numbers, expected 1 or %lld", what,
                       (long long)n, (long long)each);
}

static nc_code check_columns(const nc_call *c, const char *what, const nc_tensor *t, int64_t N) {
    int64_t n = t != NULL && t->data != NULL ? nc_tensor_numel(t) : N;
    if (n == N) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%s has %lld numbers, expected %lld", what, (long long)n,
                       (long long)N);
}

static nc_code qmatmul_check(const nc_call *c, const qmatmul *s, const product *p) {
    int64_t K = p->b->dims[s->trans_b ? 1 : p->b->rank > 1 ? p->b->rank - 2 : 0], columns = p->b_mats * p->N;
    if (K != p->K)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B has %lld rows", (long long)p->K,
                           (long long)K);
    NC_TRY(check_count(c, "the zero point of A", p->a_zero, p->M, p->a_rows));
    NC_TRY(check_count(c, "the zero point of B", p->b_zero, p->N, columns));
    NC_TRY(check_count(c, "the scale of A", p->a_scale, p->M, p->a_rows));
    NC_TRY(check_count(c, "the scale of B", p->b_scale, p->N, columns));
    NC_TRY(check_count(c, "the scale of y", p->y_scale, 1, 1));
    NC_TRY(check_count(c, "the zero point of y", p->y_zero, 1, 1));
    NC_TRY(check_columns(c, "C", p->sum_bias, p->N));
    return check_columns(c, "the bias", p->bias, p->N);
}

/* ---- operands ---- */

static float float_at(const nc_tensor *t, int64_t i) {
    if (t->dtype == NC_FLOAT) return ((const float *)t->data)[i];
    uint16_t h = ((const uint16_t *)t->data)[i];
    return t->dtype == NC_FLOAT16 ? nc_f16_to_f32(h) : nc_bf16_to_f32(h);
}

static const float *read_scales(const nc_tensor *t, float factor, float *room) {
    if (t == NULL || t->data == NULL) return NULL;
    if (t->dtype == NC_FLOAT && factor == 1) return t->data;
    int64_t n = nc_tensor_numel(t);
    for (int64_t i = 0; i < n; i++) room[i] = float_at(t, i) * factor;
    return room;
}

/* The numbers of one matrix: those that belong to it alone, or all. `bytes`: of one. */
static const void *part_of(const nc_tensor *t, const void *data, int64_t bytes, int64_t each, int64_t matrix,
                           int64_t *n) {
    *n = 1;
    if (data == NULL || t == NULL) return data;
    *n = nc_tensor_numel(t);
    if (*n <= each) return data;
    *n = each;
    return (const char *)data + matrix * each * bytes;
}

static const void *zeros_of(const nc_tensor *t, int64_t each, int64_t matrix, int64_t *n) {
    return part_of(t, t != NULL ? t->data : NULL, 1, each, matrix, n);
}

/* A's codes, by its own range, with their scale and zero point. */
typedef struct dynamic_codes {
    float scale;
    uint8_t zero;
} dynamic_codes;

/* ---- the product ---- */

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

/* All that does not change from batch to batch. */
static nck_igemm_args args_of(const nc_call *c, const qmatmul *s, const product *p) {
    const nc_tensor *y = c->out[0];
    nck_igemm_args g = {.M = p->M,
                        .N = p->N,
                        .K = p->K,
                        .a_type = s->dynamic ? NC_UINT8 : p->a->dtype,
                        .b_type = p->b->dtype,
                        .a_rs = s->trans_a ? 1 : p->K,
                        .a_cs = s->trans_a ? p->M : 1,
                        .b_rs = s->trans_b ? 1 : p->N,
                        .b_cs = s->trans_b ? p->K : 1,
                        .b_packed = s->packed ? c->packed[0] : NULL,
                        .out = {.type = y->dtype, .c_rs = p->N, .c_cs = 1, .a_scales = 1, .b_scales = 1}};
    if (p->sum_bias != NULL) g.out.sum_bias = p->sum_bias->data;
    if (p->bias != NULL) g.out.bias = p->bias->data;
    if (p->y_scale != NULL && p->y_scale->data != NULL) {
        g.out.y_scale = float_at(p->y_scale, 0);
        g.out.y_zero = y->dtype == NC_INT8 ? *(const int8_t *)p->y_zero->data : *(const uint8_t *)p->y_zero->data;
    }
    return g;
}

static void multiply(const nc_call *c, const product *p, nck_igemm_args *g, const dynamic_codes *dynamic,
                     const uint8_t *a, void *workspace) {
    const qmatmul *s = c->state;
    const nc_tensor *y = c->out[0];
    bool one_b = p->b_mats == 1 && nc_tensor_numel(y) == p->a_rows * p->N;
    int lead = y->rank - (p->a->rank > 1) - (p->b->rank > 1);
    int64_t n_batches = one_b ? 1 : product_of(y->dims, lead), es = (int64_t)nc_dtype_bytes(y->dtype);
    float *scales = c->workspace;
    const float *a_scale = dynamic ? &dynamic->scale : read_scales(p->a_scale, s->alpha, scales);
    const float *b_scale = read_scales(p->b_scale, 1, scales + qmatmul_n_scales(p->a_scale));
    nck_walk batches;
    nck_walk_at w;
    if (n_batches == 1) g->M = p->a_rows;
    batches_of(p, y, lead, &batches);
    nck_walk_start(&w, &batches, 0);
    for (int64_t i = 0; i < n_batches; i++, nck_walk_next(&w)) {
        int64_t ma = w.offset[0], mb = w.offset[1];
        g->a = a + ma * p->M * p->K;
        g->b = (const char *)p->b->data + mb * p->K * p->N;
        g->a_zero = dynamic ? (g->a_zeros = 1, &dynamic->zero) : zeros_of(p->a_zero, g->M, ma, &g->a_zeros);
        g->b_zero = zeros_of(p->b_zero, p->N, mb, &g->b_zeros);
        g->out.a_scale = part_of(p->a_scale, a_scale, sizeof(float), g->M, ma, &g->out.a_scales);
        g->out.b_scale = part_of(p->b_scale, b_scale, sizeof(float), p->N, mb, &g->out.b_scales);
        g->out.c = (char *)y->data + i * g->M * g->N * es;
        nck_igemm(g, workspace, c->pool);
    }
}

nc_code nc_qmatmul_run(const nc_call *c) {
    const qmatmul *s = c->state;
    product p;
    dynamic_codes dynamic;
    qmatmul_describe(s, c->in, c->n_in, &p);
    NC_TRY(qmatmul_check(c, s, &p));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    uint8_t *codes = (uint8_t *)c->workspace + scales_bytes(&p);
    if (s->dynamic)
        nck_quantize_dynamic(p.a->data, nc_tensor_numel(p.a), codes, &dynamic.scale, &dynamic.zero, c->pool);
    nck_igemm_args g = args_of(c, s, &p);
    multiply(c, &p, &g, s->dynamic ? &dynamic : NULL, s->dynamic ? codes : p.a->data, codes + codes_bytes(s, p.a));
    return NC_OK;
}
