/* ops/matmul/matmul_cpu.c: CPU bindings of the matmul family, and MatMul's kernel: cuts a batched product over any
 * strides into matrix products. Where B is one matrix the batches of A are rows of one product as far as A's strides
 * allow; else there is a product per batch (kernels/cpu/gemm/gemm_batch.h). Gemm's kernel is in gemm_cpu.c. */
#include "ops/matmul/matmul_cpu.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/gemm_batch.h"
#include "ops/card.h"
#include "ops/matmul/einsum_cpu.h"
#include "ops/matmul/pack.h"
#include "ops/widen.h"

/* One product per batch. */
typedef struct product {
    int64_t M, N, K;
    nck_walk batches; /* of A, B and Y */
    int64_t a_rs, a_cs, b_rs, b_cs;
} product;

static bool sizes(const nc_tensor *a, const nc_tensor *b, int64_t *M, int64_t *N, int64_t *K) {
    *M = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    *K = a->dims[a->rank - 1];
    *N = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    return *K == b->dims[b->rank > 1 ? b->rank - 2 : 0];
}

/* The batch dims of t as the leading `rank` dims of the result. */
static void batch_strides(const nc_tensor *t, int rank, const int64_t *dims, int64_t *strides) {
    nc_spread_strides(t->rank > 2 ? t->rank - 2 : 0, t->dims, t->strides, rank, dims, strides);
}

static bool matmul_describe(const nc_tensor *a, const nc_tensor *b, const nc_tensor *y, product *p) {
    if (!sizes(a, b, &p->M, &p->N, &p->K)) return false;
    int lead = y->rank - (a->rank > 1) - (b->rank > 1);
    p->a_rs = a->rank > 1 ? a->strides[a->rank - 2] : 0;
    p->a_cs = a->strides[a->rank - 1];
    p->b_rs = b->strides[b->rank > 1 ? b->rank - 2 : 0];
    p->b_cs = b->rank > 1 ? b->strides[b->rank - 1] : 0;
    nck_walk *w = &p->batches;
    w->n_operands = 3;
    w->n_dims = 0;
    if (lead == 0) return true;
    for (int i = 0; i < lead; i++) w->dims[i] = y->dims[i];
    batch_strides(a, lead, w->dims, w->strides[0]);
    batch_strides(b, lead, w->dims, w->strides[1]);
    for (int i = lead - 1, first = 1; i >= 0; i--, first = 0)
        w->strides[2][i] = first ? p->M * p->N : w->strides[2][i + 1] * w->dims[i + 1];
    w->n_dims = nc_coalesce(lead, w->dims, 3, w->strides);
    /* B the same in the innermost batches and A's rows evenly spaced through them: they are rows of one product. */
    int last = w->n_dims - 1;
    if (w->strides[1][last] == 0 && (p->M == 1 || w->strides[0][last] == p->M * p->a_rs)) {
        if (p->M == 1) p->a_rs = w->strides[0][last];
        p->M *= w->dims[last];
        w->n_dims--;
    }
    return true;
}

/* Enough for the product with all batches in its rows, and for batches one by one. */
static size_t matmul_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_gemm_state *s = state;
    int64_t M, N, K;
    (void)n_in;
    (void)n_out;
    if (!nc_dtype_is_float(out->dtype) || !sizes(&in[0], &in[1], &M, &N, &K)) return 0;
    int64_t rows = N > 0 ? nc_tensor_numel(out) / N : 0, batches = M > 0 ? rows / M : 0;
    size_t whole = nck_gemm_workspace(in->dtype, rows, N, K, s->packed);
    return nc_max_size(whole, nck_gemm_batch_workspace(in->dtype, batches, M, N, K, s->packed));
}

static nc_code matmul_run(const nc_call *c) {
    const nc_gemm_state *s = c->state;
    product p;
    if (!matmul_describe(c->in[0], c->in[1], c->out[0], &p))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B has another number of rows",
                           (long long)c->in[0]->dims[c->in[0]->rank - 1]);
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    nck_gemm_after after;
    nck_gemm_batch b = {.one = {.type = c->in[0]->dtype,
                                .M = p.M,
                                .N = p.N,
                                .K = p.K,
                                .alpha = 1,
                                .a = c->in[0]->data,
                                .a_rs = p.a_rs,
                                .a_cs = p.a_cs,
                                .b = c->in[1]->data,
                                .b_rs = p.b_rs,
                                .b_cs = p.b_cs,
                                .b_packed = s->packed ? c->packed[0] : NULL,
                                .c = c->out[0]->data,
                                .c_rs = p.N,
                                .c_cs = 1},
                        .walk = &p.batches};
    nc_product_after(s->body, c, &b.one, &after);
    nck_gemm_batch_run(&b, c->workspace, c->bytes_workspace, c->pool);
    return NC_OK;
}

static nc_code matmul_prepare(nc_prep *p) {
    nc_gemm_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    p->strided_in = 3;
    NC_TRY(nc_product_body_read(p, 2, &s->body));
    return nc_gemm_ask_pack(p, s);
}

static size_t matmul_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, NC_GEMM_LEFT, matmul_workspace, state, in, n_in, out, n_out);
}

static nc_code matmul_half_run(const nc_call *c) { return nc_widen_run(NC_WIDEN_HALF, NC_GEMM_LEFT, matmul_run, c); }

#define T_GEMM (T_BIG_NUMBER & ~NC_BIT(NC_FLOAT16))
NC_WIDENED(einsum_narrow, NC_WIDEN_HALF | NC_WIDEN_INTS, nc_einsum_run, nc_einsum_workspace)
NC_WIDENED(det_half, NC_WIDEN_HALF, nc_det_run, nc_det_workspace)
NC_WIDENED(inverse_half, NC_WIDEN_HALF, nc_inverse_run, nc_inverse_workspace)
NC_WIDENED(det_grad_half, NC_WIDEN_HALF, nc_det_grad_run, nc_det_workspace)

#define T_EINSUM (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
const nc_binding nc_matmul_cpu[] = {
    {.op = "MatMul", .types = T_GEMM, .prepare = matmul_prepare, .workspace = matmul_workspace, .run = matmul_run},
    {.op = "MatMulChain",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT),
     .prepare = matmul_prepare,
     .workspace = matmul_workspace,
     .run = matmul_run},
    {.op = "MatMul",
     .types = NC_WIDEN_HALF,
     .prepare = matmul_prepare,
     .workspace = matmul_half_workspace,
     .run = matmul_half_run},
    {.op = "Gemm", .types = T_GEMM, .prepare = nc_gemm_prepare, .workspace = nc_gemm_workspace, .run = nc_gemm_run},
    {.op = "GemmChain",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT),
     .prepare = nc_gemm_prepare,
     .workspace = nc_gemm_workspace,
     .run = nc_gemm_run},
    {.op = "GemmOnto",
     .domain = "nacre",
     .prepare = nc_gemm_onto_prepare,
     .workspace = nc_gemm_workspace,
     .run = nc_gemm_onto_run},
    {.op = "Gemm",
     .types = NC_WIDEN_HALF,
     .prepare = nc_gemm_prepare,
     .workspace = nc_gemm_half_workspace,
     .run = nc_gemm_half_run},
    {.op = "Einsum",
     .types = T_EINSUM,
     .prepare = nc_einsum_prepare,
     .workspace = nc_einsum_workspace,
     .run = nc_einsum_run},
    {.op = "Einsum",
     .types = NC_WIDEN_HALF | NC_WIDEN_INTS,
     .fits = nc_einsum_few,
     .prepare = nc_einsum_prepare,
     .workspace = einsum_narrow_workspace,
     .run = einsum_narrow_run},
    {.op = "Inverse", .domain = "com.microsoft", .workspace = inverse_half_workspace, .run = inverse_half_run},
    {.op = "Det", .workspace = det_half_workspace, .run = det_half_run},
    {.op = "DetGrad", .domain = "nacre", .workspace = det_grad_half_workspace, .run = det_grad_half_run},
    {0}};
