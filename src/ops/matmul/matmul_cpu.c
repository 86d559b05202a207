/* ops/matmul/matmul_cpu.c: CPU bindings of the matmul family, and MatMul's kernel: cuts a batched product over any
 * strides into matrix products. Where B is one matrix the batches of A are rows of one product as far as A's strides
 * allow; else there is a product per batch, and small ones run side by side. Gemm's kernel is in gemm_cpu.c. */
#include "ops/matmul/matmul_cpu.h"

#include "ops/card.h"
#include "ops/matmul/einsum_cpu.h"
#include "ops/matmul/pack.h"
#include "ops/widen.h"

enum { GROUPS = 16, SMALL_WORKSPACE = 1 << 18 };

/* One product per batch; strides of the batch dims for A, B, Y. */
typedef struct product {
    int64_t M, N, K, n_batches;
    int rank;
    int64_t dims[NC_MAX_RANK], strides[3][NC_MAX_RANK];
    int64_t a_rs, a_cs, b_rs, b_cs, c_rs;
} product;

typedef struct job {
    const nc_call *c;
    const product *p;
    const void *packed;
    size_t bytes_each; /* workspace of one product */
    int64_t n_groups;
} job;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static bool sizes(const nc_tensor *a, const nc_tensor *b, int64_t *M, int64_t *N, int64_t *K) {
    *M = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    *K = a->dims[a->rank - 1];
    *N = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    return *K == b->dims[b->rank > 1 ? b->rank - 2 : 0];
}

/* The batch dims of t as the leading `rank` dims of the result. */
static void batch_strides(const nc_tensor *t, int rank, const int64_t *dims, int64_t *strides) {
    nc_tensor head = *t;
    head.rank = t->rank > 2 ? t->rank - 2 : 0;
    nc_broadcast_strides(&head, rank, dims, strides);
}

static bool describe(const nc_tensor *a, const nc_tensor *b, const nc_tensor *y, product *p) {
    if (!sizes(a, b, &p->M, &p->N, &p->K)) return false;
    int lead = y->rank - (a->rank > 1) - (b->rank > 1);
    p->a_rs = a->rank > 1 ? a->strides[a->rank - 2] : 0;
    p->a_cs = a->strides[a->rank - 1];
    p->b_rs = b->strides[b->rank > 1 ? b->rank - 2 : 0];
    p->b_cs = b->rank > 1 ? b->strides[b->rank - 1] : 0;
    p->c_rs = p->N;
    p->rank = lead;
    for (int i = 0; i < lead; i++) p->dims[i] = y->dims[i];
    batch_strides(a, lead, p->dims, p->strides[0]);
    batch_strides(b, lead, p->dims, p->strides[1]);
    for (int i = lead - 1, first = 1; i >= 0; i--, first = 0)
        p->strides[2][i] = first ? p->M * p->N : p->strides[2][i + 1] * p->dims[i + 1];
    p->rank = nc_coalesce(lead, p->dims, 3, p->strides);
    /* B the same in the innermost batches and A's rows evenly spaced through them: they are rows of one product. */
    int last = p->rank - 1;
    if (lead > 0 && p->strides[1][last] == 0 && (p->M == 1 || p->strides[0][last] == p->M * p->a_rs)) {
        if (p->M == 1) p->a_rs = p->strides[0][last];
        p->M *= p->dims[last];
        p->rank--;
    }
    if (lead == 0) p->rank = 0;
    p->n_batches = 1;
    for (int i = 0; i < p->rank; i++) p->n_batches *= p->dims[i];
    return true;
}

static void run_batch(const job *j, int64_t i, void *workspace, nc_pool *pool) {
    const product *p = j->p;
    const nc_call *c = j->c;
    int64_t at[3] = {0}, es = (int64_t)nc_dtype_bytes(c->out[0]->dtype);
    for (int d = p->rank - 1; d >= 0; i /= p->dims[d--])
        for (int k = 0; k < 3; k++) at[k] += i % p->dims[d] * p->strides[k][d];
    const char *a = (const char *)c->in[0]->data + at[0] * es, *b = (const char *)c->in[1]->data;
    char *y = (char *)c->out[0]->data + at[2] * es;
    if (j->packed == NULL) b += at[1] * es;
    nc_gemm_any(&(nck_gemm_args){.type = c->out[0]->dtype,
                                 .M = p->M,
                                 .N = p->N,
                                 .K = p->K,
                                 .alpha = 1,
                                 .a = a,
                                 .a_rs = p->a_rs,
                                 .a_cs = p->a_cs,
                                 .b = b,
                                 .b_rs = p->b_rs,
                                 .b_cs = p->b_cs,
                                 .b_packed = j->packed,
                                 .c = y,
                                 .c_rs = p->c_rs,
                                 .c_cs = 1},
                workspace, pool);
}

static void run_group(void *ctx, int64_t group) {
    const job *j = ctx;
    int64_t n = j->p->n_batches;
    for (int64_t i = n * group / j->n_groups; i < n * (group + 1) / j->n_groups; i++)
        run_batch(j, i, (char *)j->c->workspace + (size_t)group * j->bytes_each, NULL);
}

/* At most as many bytes for batches side by side as for one large product, or GROUPS small ones. */
static size_t matmul_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_gemm_state *s = state;
    int64_t M, N, K, numel;
    (void)n_in;
    (void)n_out;
    if (!nc_dtype_is_float(out->dtype) || !sizes(&in[0], &in[1], &M, &N, &K)) return 0;
    numel = nc_tensor_numel(out);
    int64_t rows = N > 0 ? numel / N : 0, batches = M > 0 ? rows / M : 0;
    size_t whole = nck_gemm_workspace(out->dtype, rows, N, K, s->packed);
    size_t each = nck_gemm_workspace(out->dtype, M, N, K, s->packed);
    size_t many = (size_t)min64(batches, GROUPS) * (each < SMALL_WORKSPACE ? each : SMALL_WORKSPACE);
    return whole > many ? whole : many;
}

static nc_code matmul_run(const nc_call *c) {
    const nc_gemm_state *s = c->state;
    product p;
    if (!describe(c->in[0], c->in[1], c->out[0], &p))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B has another number of rows",
                           (long long)c->in[0]->dims[c->in[0]->rank - 1]);
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    job j = {.c = c, .p = &p, .packed = s->packed ? c->packed[0] : NULL, .n_groups = min64(p.n_batches, GROUPS)};
    if (nc_dtype_is_float(c->out[0]->dtype))
        j.bytes_each = nck_gemm_workspace(c->out[0]->dtype, p.M, p.N, p.K, s->packed);
    if (p.n_batches > 1 && j.bytes_each <= SMALL_WORKSPACE && (size_t)j.n_groups * j.bytes_each <= c->bytes_workspace) {
        nc_parallel(c->pool, j.n_groups, run_group, &j);
        return NC_OK;
    }
    for (int64_t i = 0; i < p.n_batches; i++) run_batch(&j, i, c->workspace, c->pool);
    return NC_OK;
}

static nc_code matmul_prepare(nc_prep *p) {
    nc_gemm_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    p->strided_in = 3;
    return nc_gemm_ask_pack(p, s);
}

NC_WIDENED_HALF(matmul, matmul_workspace)

#define T_GEMM (T_BIG_NUMBER & ~NC_BIT(NC_FLOAT16))
#define WIDENED(name, which, run_fn, workspace_fn)                                                         \
    static size_t name##_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, \
                                   int n_out) {                                                            \
        return nc_widen_workspace(which, workspace_fn, state, in, n_in, out, n_out);                       \
    }                                                                                                      \
    static nc_code name##_run(const nc_call *c) { return nc_widen_run(which, run_fn, c); }
WIDENED(einsum_narrow, NC_WIDEN_HALF | NC_WIDEN_INTS, nc_einsum_run, nc_einsum_workspace)
WIDENED(det_half, NC_WIDEN_HALF, nc_det_run, nc_det_workspace)
WIDENED(det_grad_half, NC_WIDEN_HALF, nc_det_grad_run, nc_det_workspace)

#define T_EINSUM (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
const nc_binding nc_matmul_cpu[] = {
    {.op = "MatMul", .types = T_GEMM, .prepare = matmul_prepare, .workspace = matmul_workspace, .run = matmul_run},
    {.op = "MatMul",
     .types = NC_WIDEN_HALF,
     .prepare = matmul_prepare,
     .workspace = matmul_half_workspace,
     .run = matmul_half_run},
    {.op = "Gemm", .types = T_GEMM, .prepare = nc_gemm_prepare, .workspace = nc_gemm_workspace, .run = nc_gemm_run},
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
    {.op = "Det", .workspace = det_half_workspace, .run = det_half_run},
    {.op = "DetGrad", .domain = "nacre", .workspace = det_grad_half_workspace, .run = det_grad_half_run},
    {0}};
