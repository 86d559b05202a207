/* ops/matmul/matmul_cuda.c: CUDA bindings of MatMul, Gemm and their chains over kernels/cuda/gemm.h, Det and Inverse. A
 * batched product over any strides is cut into strided batches; batches of A over one B become rows of one product
 * where A's strides allow. Operands of several batch dims that do not lie one behind the other (heads of attention,
 * seen through a transposed view) are copied to the workspace first: one product of many matrices instead of many of a
 * few. Large products of half types with an odd size (a vocabulary of 50,257 words) go through copies that have some
 * elements more: cuBLASLt's kernels for odd sizes reach 120 TFLOP/s on an H200, of 740. Behind all copies the workspace
 * has room for cuBLASLt's kernel: the product is described without addresses, and the library asked what it needs. */
#include "kernels/cuda/det.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/move.h"
#include "ops/binding.h"
#include "ops/contrib.h"
#include "ops/matmul/after_cuda.h"
#include "ops/matmul/group_cuda.h"

#include <string.h>

typedef struct gemm {
    bool trans_a, trans_b;
    double alpha, beta;
    nck_cuda_gemm kernel;
    nck_cuda_gemm_cache cache;
    nck_cuda_move move;
    bool views[2];   /* the operand may be a view with strides of its own */
    bool b_constant; /* B is a constant */
    bool is_gemm;    /* Gemm, not MatMul */
    const nc_cuda_body *body;
    nck_cuda_chain gelu; /* of MatMulGelu */
} gemm;

static nc_code matmul_cuda_prepare(nc_prep *p, gemm **out) {
    gemm *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    memset(s, 0, sizeof *s);
    s->alpha = 1;
    nc_dtype t = p->node->in[0]->type->elem;
    if (t == NC_UINT32 || t == NC_UINT64) t = t == NC_UINT32 ? NC_INT32 : NC_INT64; /* which have the same bits */
    NC_TRY(nck_cuda_gemm_prepare(p->device, t, &s->cache, &s->kernel, &p->w->diag));
    s->kernel.tf32 = p->tf32, s->kernel.tune = p->tune;
    s->b_constant = p->node->in[1]->origin == NC_FROM_CONST && p->node->in[1]->var == NULL;
    for (int i = 0; i < 2; i++) {
        const nc_node *from = p->node->in[i]->def;
        s->views[i] = from != NULL && (from->card->traits & NC_VIEW_STRIDED) != 0;
    }
    p->state = *out = s;
    return NC_OK;
}

/* ---- large products of odd sizes ---- */

enum { LINE = 8 };                    /* elements of 16 bytes: what all sizes are to be multiples of */
static const int64_t large = 1 << 25; /* multiplications that are worth copies */
static int64_t longer(int64_t n) { return (n + LINE - 1) / LINE * LINE; }
static bool is_odd(int64_t a, int64_t b) { return a % LINE != 0 || b % LINE != 0; }

static size_t bytes_matrix(int64_t rows, int64_t cols) {
    return is_odd(rows, cols) ? ((size_t)(longer(rows) * longer(cols)) * 2 + 255) / 256 * 256 : 0;
}

/* Of all copies; 0: there are none. One row costs the reading of B, whatever its size. */
static size_t bytes_longer(const gemm *s, int64_t M, int64_t N, int64_t K) {
    if (s->body != NULL || nc_dtype_bytes(s->kernel.type) != 2 || M < 2 || N < 1 || K < large / M / N) return 0;
    return bytes_matrix(M, K) + bytes_matrix(K, N) + bytes_matrix(M, N);
}

/* Bytes of a dense copy of an operand of several batch dims; 0: it has fewer. */
static size_t bytes_packed(const nc_tensor *t) {
    size_t bytes;
    if (t->rank < 4 || !nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) return 0;
    return (bytes + 255) / 256 * 256;
}
static size_t bytes_copied(const gemm *s, const nc_tensor *a, const nc_tensor *b) {
    return (s->views[0] ? bytes_packed(a) : 0) + (s->views[1] ? bytes_packed(b) : 0);
}

/* Of the workspace, before the room of cuBLASLt. */
static size_t bytes_own(const gemm *s, const nc_tensor *a, const nc_tensor *b, const nc_tensor *y) {
    int64_t N = s->is_gemm ? y->dims[1] : b->rank > 1 ? b->dims[b->rank - 1] : 1, n = nc_tensor_numel(y);
    int64_t K = s->is_gemm ? a->dims[!s->trans_a] : a->dims[a->rank - 1];
    return bytes_copied(s, a, b) + (n > 0 ? bytes_longer(s, n / N, N, K) : 0);
}

static nck_cuda_at at_of(const nc_call *c) {
    return nck_cuda_at_room(c, bytes_own(c->state, c->in[0], c->in[1], c->out[0]));
}

static nc_code clear(const nc_call *c, void *data, const int64_t *dims, const int64_t *strides) {
    const gemm *s = c->state;
    const uint16_t zero = 0;
    nc_tensor t = {.data = data, .dtype = s->kernel.type, .rank = 2};
    memcpy(t.dims, dims, 2 * sizeof *dims), memcpy(t.strides, strides, 2 * sizeof *strides);
    return dims[0] * dims[1] > 0 ? nck_cuda_fill(&s->move, nck_cuda_at_call(c), &t, &zero) : NC_OK;
}

/* m (rows, cols) in the workspace with longer lines; what is more in the axis that sums run over is zeros. */
static nc_code lengthen(const nc_call *c, int64_t rows, int64_t cols, int sums, nck_cuda_matrix *m, size_t *used) {
    const gemm *s = c->state;
    char *to = (char *)c->workspace + *used;
    bool lines = m->cs == 1;
    const int64_t dims[2] = {rows, cols};
    const int64_t strides[2] = {lines ? longer(cols) : 1, lines ? 1 : longer(rows)};
    int64_t edge[2] = {longer(rows), longer(cols)};
    if (!is_odd(rows, cols)) return NC_OK;
    /* The axis along which elements lie side by side last: whole lines are copied. */
    const int64_t order[2] = {!lines, lines};
    const int64_t from[2] = {order[0] ? m->cs : m->rs, order[1] ? m->cs : m->rs};
    NC_TRY(nck_cuda_copy(&s->move, nck_cuda_at_call(c), 2, (const int64_t[]){dims[order[0]], dims[order[1]]}, m->data,
                         from, to, (const int64_t[]){strides[order[0]], strides[order[1]]}));
    edge[sums] -= dims[sums];
    NC_TRY(clear(c, to + 2 * dims[sums] * strides[sums], edge, strides));
    *m = (nck_cuda_matrix){.data = to, .rs = strides[0], .cs = strides[1]};
    *used += bytes_matrix(rows, cols);
    return NC_OK;
}

static bool goes_longer(const gemm *s, const nck_cuda_gemm_args *g) {
    return g->n_batch == 1 && g->bias == NULL && g->beta == 0 && bytes_longer(s, g->M, g->N, g->K) > 0;
}

static nc_code run_longer(const nc_call *c, const nck_cuda_gemm_args *g, bool *done) {
    const gemm *s = c->state;
    nck_cuda_gemm_args v = *g;
    size_t used = bytes_copied(s, c->in[0], c->in[1]);
    *done = goes_longer(s, g) && used + bytes_longer(s, g->M, g->N, g->K) <= c->bytes_workspace;
    if (!*done) return NC_OK;
    NC_TRY(lengthen(c, g->M, g->K, 1, &v.a, &used));
    NC_TRY(lengthen(c, g->K, g->N, 0, &v.b, &used));
    v.M = longer(g->M), v.N = longer(g->N), v.K = longer(g->K);
    bool back = is_odd(g->M, g->N);
    if (back) v.c = (nck_cuda_matrix){.data = (char *)c->workspace + used, .rs = v.N, .cs = 1};
    NC_TRY(nck_cuda_gemm_run(&s->kernel, at_of(c), &v));
    const int64_t dims[2] = {g->M, g->N}, from[2] = {v.N, 1}, to[2] = {g->c.rs, 1};
    return back ? nck_cuda_copy(&s->move, nck_cuda_at_call(c), 2, dims, v.c.data, from, g->c.data, to) : NC_OK;
}

/* ---- MatMul ---- */

/* Batch dims of the result and the strides of A, B and Y through them, outermost first. */
typedef struct batches {
    int rank;
    int64_t dims[NC_MAX_RANK], strides[3][NC_MAX_RANK];
} batches;

static nc_code matmul_prepare(nc_prep *p) {
    gemm *s;
    p->strided_in = 3;
    NC_TRY(matmul_cuda_prepare(p, &s));
    NC_TRY(nc_cuda_body_read(p, 2, &s->body));
    return nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), &s->move, &p->w->diag);
}

/* The batches cannot be stepped through as they lie. */
static bool batches_apart(const nc_tensor *t) {
    int64_t dims[NC_MAX_RANK], strides[1][NC_MAX_RANK];
    memcpy(dims, t->dims, (size_t)(t->rank - 2) * sizeof *dims);
    memcpy(strides[0], t->strides, (size_t)(t->rank - 2) * sizeof *dims);
    return nc_coalesce(t->rank - 2, dims, 1, strides) > 1;
}

/* Operands as the product reads them: copied where that helps and the workspace has room, but without a device. */
static nc_code pack_operands(const nc_call *c, nc_tensor packed[2]) {
    const gemm *s = c->state;
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        const nc_tensor *x = c->in[i];
        nc_tensor_copy(&packed[i], x);
        size_t bytes = s->views[i] ? bytes_packed(x) : 0;
        if (bytes == 0 || used + bytes > c->bytes_workspace || !batches_apart(x)) continue;
        packed[i].data = (char *)c->workspace + used;
        nc_dense_strides(x->dims, x->rank, packed[i].strides);
        if (c->device != NULL)
            NC_TRY(nck_cuda_copy(&s->move, nck_cuda_at_call(c), x->rank, x->dims, x->data, x->strides, packed[i].data,
                                 packed[i].strides));
        used += bytes;
    }
    return NC_OK;
}

static bool matmul_cuda_describe(const nc_call *c, const nc_tensor *in, nck_cuda_gemm_args *g) {
    const nc_tensor *a = &in[0], *b = &in[1];
    int row_a = a->rank - 2, row_b = b->rank > 1 ? b->rank - 2 : 0;
    bool matrix_a = a->rank > 1, matrix_b = b->rank > 1;
    *g = (nck_cuda_gemm_args){.n_batch = 1,
                              .M = matrix_a ? a->dims[row_a] : 1,
                              .K = a->dims[a->rank - 1],
                              .N = matrix_b ? b->dims[b->rank - 1] : 1,
                              .alpha = 1,
                              .b_constant = ((const gemm *)c->state)->b_constant};
    g->a = (nck_cuda_matrix){.data = a->data, .rs = matrix_a ? a->strides[row_a] : 0, .cs = a->strides[a->rank - 1]};
    g->b = (nck_cuda_matrix){.data = b->data, .rs = b->strides[row_b], .cs = matrix_b ? b->strides[b->rank - 1] : 0};
    g->c = (nck_cuda_matrix){.data = c->out[0]->data, .rs = g->N, .cs = 1};
    return g->K == b->dims[row_b];
}

static void spread_batches(const nc_tensor *t, const batches *w, int64_t *strides) {
    nc_spread_strides(t->rank > 2 ? t->rank - 2 : 0, t->dims, t->strides, w->rank, w->dims, strides);
}

/* Fills w; the innermost batches become rows of A where that gives one larger product. */
static void describe_batches(const nc_tensor *in, const nc_tensor *y, nck_cuda_gemm_args *g, batches *w) {
    w->rank = y->rank - (in[0].rank > 1) - (in[1].rank > 1);
    memcpy(w->dims, y->dims, (size_t)w->rank * sizeof *w->dims);
    spread_batches(&in[0], w, w->strides[0]);
    spread_batches(&in[1], w, w->strides[1]);
    int64_t step = g->M * g->N;
    for (int i = w->rank - 1; i >= 0; step *= w->dims[i--]) w->strides[2][i] = step;
    w->rank = nc_coalesce(w->rank, w->dims, 3, w->strides);
    int last = w->rank - 1;
    if (w->strides[1][last] != 0 || (g->M != 1 && w->strides[0][last] != g->M * g->a.rs)) return;
    if (g->M == 1) g->a.rs = w->strides[0][last];
    g->M *= w->dims[last];
    w->rank--;
}

/* g for each step through the outer batches of w. */
static nc_code run_batches(const nc_call *c, const nck_cuda_gemm_args *g, const batches *w) {
    const gemm *s = c->state;
    int64_t n_outer = 1, es = (int64_t)nc_dtype_bytes(c->out[0]->dtype);
    for (int d = 0; d < w->rank - 1; d++) n_outer *= w->dims[d];
    for (int64_t i = 0; i < n_outer; i++) {
        nck_cuda_gemm_args one = *g;
        int64_t rest = i, at[3] = {0};
        for (int d = w->rank - 2; d >= 0; rest /= w->dims[d--])
            for (int k = 0; k < 3; k++) at[k] += rest % w->dims[d] * w->strides[k][d];
        one.a.data = (char *)g->a.data + at[0] * es;
        one.b.data = (char *)g->b.data + at[1] * es;
        one.c.data = (char *)g->c.data + at[2] * es;
        NC_TRY(nck_cuda_gemm_run(&s->kernel, at_of(c), &one));
    }
    return NC_OK;
}

/* The product and its body in one call of cuBLASLt, where it has that. */
static nc_code run_joined(const nc_call *c, const nck_cuda_gemm_args *g, bool *done) {
    const gemm *s = c->state;
    nck_cuda_gemm_args joined = *g;
    *done = false;
    if (s->body == NULL || !nc_cuda_body_join(s->body, c, &joined)) return NC_OK;
    return nck_cuda_gemm_fused(&s->kernel, at_of(c), &joined, done);
}

/* The product, of the innermost batches of w. */
static nc_code describe_call(const nc_call *c, nck_cuda_gemm_args *g, batches *w) {
    nc_tensor in[2];
    NC_TRY(pack_operands(c, in));
    if (!matmul_cuda_describe(c, in, g))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A has %lld columns, B has another number of rows",
                           (long long)g->K);
    w->rank = 0;
    if (nc_tensor_numel(c->out[0]) > 0) describe_batches(in, c->out[0], g, w);
    if (w->rank > 0) {
        int last = w->rank - 1;
        g->n_batch = w->dims[last];
        g->a.batch = w->strides[0][last], g->b.batch = w->strides[1][last], g->c.batch = w->strides[2][last];
    }
    return NC_OK;
}

static nc_code matmul_run(const nc_call *c) {
    const gemm *s = c->state;
    nck_cuda_gemm_args g;
    batches w;
    bool done = false;
    NC_TRY(describe_call(c, &g, &w));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    if (w.rank <= 1) NC_TRY(run_joined(c, &g, &done));
    if (!done && w.rank <= 1) NC_TRY(run_longer(c, &g, &done));
    if (done) return NC_OK;
    NC_TRY(run_batches(c, &g, &w));
    return s->body != NULL ? nc_cuda_body_run(s->body, c) : NC_OK;
}

/* ---- MatMulGelu ---- */

static nc_code gelu_prepare(nc_prep *p) {
    const nck_tile_op gelu = {.lane = NCK_LANE_gelu_tanh, .dst = 1};
    const nck_tile_prog prog = {
        .compute = NC_FLOAT, .n_in = 1, .n_out = 1, .n_reg = 2, .n_op = 1, .op = &gelu, .out_reg = &gelu.dst};
    nc_dtype elem = p->node->out[0]->type->elem, types[2] = {elem, elem};
    NC_TRY(matmul_prepare(p));
    return nck_cuda_chain_prepare(p->device, &prog, types, 1, &((gemm *)p->state)->gelu, &p->w->diag);
}

/* By cuBLASLt at once, or the product with its bias first. */
static nc_code gelu_run(const nc_call *c) {
    const gemm *s = c->state;
    nck_cuda_gemm_args g;
    batches w;
    bool done = false;
    NC_TRY(describe_call(c, &g, &w));
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    g.bias = c->in[2]->data;
    nck_cuda_gemm_args joined = g;
    joined.gelu = true, joined.kept = c->out[1]->data;
    if (w.rank == 0) NC_TRY(nck_cuda_gemm_fused(&s->kernel, at_of(c), &joined, &done));
    if (done) return NC_OK;
    g.c.data = c->out[1]->data;
    NC_TRY(run_batches(c, &g, &w));
    return nck_cuda_chain_run(&s->gelu, nck_cuda_at_call(c), &c->out[1], &c->out[0]);
}

/* ---- Gemm ---- */

static nc_code gemm_prepare(nc_prep *p) {
    gemm *s;
    NC_TRY(matmul_cuda_prepare(p, &s));
    s->is_gemm = true;
    s->trans_a = nc_attr_int(p->node, "transA") != 0;
    s->trans_b = nc_attr_int(p->node, "transB") != 0;
    s->alpha = nc_attr_float(p->node, "alpha");
    s->beta = nc_attr_float(p->node, "beta");
    p->strided_in = 7;
    NC_TRY(nck_cuda_move_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), &s->move, &p->w->diag));
    return nc_cuda_body_read(p, 3, &s->body);
}

static bool broadcasts(const nc_tensor *t, const nc_tensor *y) {
    for (int i = 0; i < t->rank && t->rank <= 2; i++)
        if (t->dims[i] != 1 && t->dims[i] != y->dims[2 - t->rank + i]) return false;
    return t->rank <= 2;
}

/* C as a bias of the product where it is one row and beta is 1; else as the first value of Y. */
static nc_code add_c(const nc_call *c, nck_cuda_gemm_args *g) {
    const gemm *s = c->state;
    const nc_tensor *t = c->in[2];
    int64_t strides[NC_MAX_RANK];
    if (!broadcasts(t, c->out[0]))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "C does not broadcast to %lld by %lld", (long long)g->M,
                           (long long)g->N);
    nc_broadcast_strides(t, 2, c->out[0]->dims, strides);
    bool is_bias = nc_dtype_is_float(t->dtype) && s->beta == 1 && (strides[0] == 0 || g->M == 1) && strides[1] == 1;
    if (is_bias) g->bias = t->data;
    if (!is_bias) g->beta = s->beta;
    if (is_bias || c->device == NULL) return NC_OK;
    nck_cuda_matrix from = {.data = t->data, .rs = strides[0], .cs = strides[1]};
    return nck_cuda_gemm_spread(&s->kernel, nck_cuda_at_call(c), g->M, g->N, from, g->c);
}

static nck_cuda_gemm_args describe_gemm(const nc_call *c) {
    const gemm *s = c->state;
    const nc_tensor *a = c->in[0], *b = c->in[1];
    int ta = s->trans_a, tb = s->trans_b;
    nck_cuda_gemm_args g = {.n_batch = 1, .M = a->dims[ta], .K = a->dims[!ta], .N = b->dims[!tb], .alpha = s->alpha};
    g.a = (nck_cuda_matrix){.data = a->data, .rs = a->strides[ta], .cs = a->strides[!ta]};
    g.b = (nck_cuda_matrix){.data = b->data, .rs = b->strides[tb], .cs = b->strides[!tb]};
    g.c = (nck_cuda_matrix){.data = c->out[0]->data, .rs = g.N, .cs = 1};
    g.b_constant = s->b_constant;
    return g;
}

static nc_code gemm_run(const nc_call *c) {
    const gemm *s = c->state;
    const nc_tensor *b = c->in[1];
    const int tb = s->trans_b;
    nck_cuda_gemm_args g = describe_gemm(c);
    if (g.K != b->dims[tb])
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A' has %lld columns, B' has %lld rows", (long long)g.K,
                           (long long)b->dims[tb]);
    if (g.M == 0 || g.N == 0) return NC_OK;
    bool done = false;
    if (c->n_in > 2 && c->in[2]->data != NULL && s->beta != 0) NC_TRY(add_c(c, &g));
    NC_TRY(run_joined(c, &g, &done));
    if (!done) NC_TRY(run_longer(c, &g, &done));
    if (done) return NC_OK;
    NC_TRY(nck_cuda_gemm_run(&s->kernel, at_of(c), &g));
    return s->body != NULL ? nc_cuda_body_run(s->body, c) : NC_OK;
}

/* ---- the workspace ---- */

enum { MAX_OPERANDS = 16 };

/* A call without a device, whose tensors lie anywhere. */
typedef struct told {
    nc_tensor t[MAX_OPERANDS], *at[MAX_OPERANDS];
    nc_diag unsaid;
    nc_call call;
} told;

static bool tell(const gemm *s, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out, told *to) {
    if (n_in + n_out > MAX_OPERANDS) return false;
    for (int i = 0; i < n_in + n_out; i++) {
        nc_tensor_copy(&to->t[i], i < n_in ? &in[i] : &out[i - n_in]);
        if (to->t[i].dtype != NC_UNDEFINED) to->t[i].data = NCK_CUDA_SOMEWHERE;
        to->at[i] = &to->t[i];
    }
    to->call = (nc_call){.state = s,
                         .in = to->at,
                         .out = to->at + n_in,
                         .n_in = n_in,
                         .n_out = n_out,
                         .workspace = NCK_CUDA_SOMEWHERE,
                         .bytes_workspace = bytes_own(s, &in[0], &in[1], &out[0]),
                         .diag = &to->unsaid};
    return nc_tensor_numel(&out[0]) > 0;
}

/* As its run describes it. */
static bool describe_any(const nc_call *c, nck_cuda_gemm_args *g, int *n_batches) {
    const gemm *s = c->state;
    batches w = {.rank = 0};
    bool has_c = s->is_gemm && c->n_in > 2 && c->in[2]->data != NULL && s->beta != 0;
    if (s->is_gemm)
        *g = describe_gemm(c);
    else if (describe_call(c, g, &w) != NC_OK)
        return false;
    *n_batches = w.rank;
    return !has_c || add_c(c, g) == NC_OK;
}

/* What comes together with the product, if cuBLASLt has that. */
static bool room_joined(const nc_call *c, const nck_cuda_gemm_args *g, size_t *bytes) {
    const gemm *s = c->state;
    nck_cuda_gemm_args joined = *g;
    bool gelu = s->gelu.n_in > 0;
    if (gelu) joined.bias = c->in[2]->data, joined.gelu = true, joined.kept = c->out[1]->data;
    if (!gelu && (s->body == NULL || !nc_cuda_body_join(s->body, c, &joined))) return false;
    return nck_cuda_gemm_room(&s->kernel, &joined, bytes);
}

/* A dense matrix (rows, cols) as columns, one behind the other. */
static void turn(nck_cuda_matrix *m, int64_t rows, int64_t cols) {
    if (m->cs == 1 && m->rs == cols) m->rs = 1, m->cs = rows;
}

static size_t room_of(const nc_call *c, nck_cuda_gemm_args g, int n_batches) {
    const gemm *s = c->state;
    size_t bytes = 0;
    if (n_batches <= 1 && room_joined(c, &g, &bytes)) return bytes;
    if (goes_longer(s, &g)) {
        bool a_lines = g.a.cs == 1, b_lines = g.b.cs == 1;
        g.M = longer(g.M), g.N = longer(g.N), g.K = longer(g.K);
        g.a.rs = a_lines ? g.K : 1, g.a.cs = a_lines ? 1 : g.M;
        g.b.rs = b_lines ? g.N : 1, g.b.cs = b_lines ? 1 : g.K;
        g.c.rs = g.N;
    }
    nck_cuda_gemm_room(&s->kernel, &g, &bytes);
    return bytes;
}

/* Strides of views come with the run: what may be one is taken for a matrix that lies dense, and for a turned one. */
static size_t product_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const gemm *s = state;
    size_t own = bytes_own(s, &in[0], &in[1], &out[0]), most = 0;
    told t = {.unsaid = {0}};
    nck_cuda_gemm_args g;
    int n_batches;
    if (!tell(s, in, n_in, out, n_out, &t) || !describe_any(&t.call, &g, &n_batches)) return own;
    for (int a = 0; a <= s->views[0]; a++)
        for (int b = 0; b <= s->views[1]; b++) {
            nck_cuda_gemm_args v = g;
            if (a) turn(&v.a, v.M, v.K);
            if (b) turn(&v.b, v.K, v.N);
            size_t bytes = room_of(&t.call, v, n_batches);
            if (bytes > most) most = bytes;
        }
    return own + most;
}

#define TYPES (T_FLOAT_ALL | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64))
#define T_BODY (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
/* ---- Det, Inverse ---- */

typedef struct det {
    nc_function *f;
    bool inverse;
} det;

static nc_code prepare_det(nc_prep *p, const char *entry, bool inverse) {
    det *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->inverse = inverse;
    p->state = s;
    return nck_cuda_det_prepare(p->device, p->node->in[0]->type->elem, entry, &s->f, &p->w->diag);
}
static nc_code det_prepare(nc_prep *p) { return prepare_det(p, "det", false); }
static nc_code det_grad_prepare(nc_prep *p) { return prepare_det(p, "det_grad", false); }
static nc_code inverse_prepare(nc_prep *p) { return prepare_det(p, "inverse", true); }

static size_t det_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const det *s = state;
    (void)n_in, (void)out, (void)n_out;
    return (size_t)nc_tensor_numel(&in[0]) * sizeof(double) * (s->inverse ? 2 : 1);
}

static int64_t n_matrices(const nc_tensor *x) {
    int64_t n = 1;
    for (int d = 0; d < x->rank - 2; d++) n *= x->dims[d];
    return n;
}

static nc_code check_square(const nc_call *c, const nc_tensor *x) {
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    if (rows == columns) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "matrices of %lld rows and %lld columns are not square",
                       (long long)rows, (long long)columns);
}

static size_t det_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_det_grad_workspace(n_matrices(&in[1]), in[1].dims[in[1].rank - 1]);
}

static nc_code det_grad_run(const nc_call *c) {
    const det *s = c->state;
    const nc_tensor *x = c->in[1];
    NC_TRY(check_square(c, x));
    return nck_cuda_det_grad_run(s->f, nck_cuda_at_call(c), n_matrices(x), x->dims[x->rank - 1], c->in[0]->data,
                                 x->data, c->workspace, c->out[0]->data);
}

static nc_code det_run(const nc_call *c) {
    const det *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t n = x->dims[x->rank - 1], matrices = n_matrices(x);
    NC_TRY(check_square(c, x));
    return (s->inverse ? nck_cuda_inverse_run : nck_cuda_det_run)(s->f, nck_cuda_at_call(c), matrices, n, x->data,
                                                                  c->workspace, c->out[0]->data);
}

const nc_binding nc_matmul_cuda[] = {
    {.op = "MatMul", .types = TYPES, .prepare = matmul_prepare, .workspace = product_workspace, .run = matmul_run},
    {.op = "MatMulChain",
     .domain = "nacre",
     .types = T_BODY,
     .prepare = matmul_prepare,
     .workspace = product_workspace,
     .run = matmul_run},
    {.op = "MatMulGelu",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16),
     .prepare = gelu_prepare,
     .workspace = product_workspace,
     .run = gelu_run},
    {.op = "Gemm", .types = TYPES, .prepare = gemm_prepare, .workspace = product_workspace, .run = gemm_run},
    {.op = "MatMulGroup",
     .domain = "nacre",
     .types = T_BODY,
     .prepare = nc_matmul_group_prepare,
     .workspace = nc_matmul_group_workspace,
     .run = nc_matmul_group_run},
    {.op = "GemmChain",
     .domain = "nacre",
     .types = T_BODY,
     .prepare = gemm_prepare,
     .workspace = product_workspace,
     .run = gemm_run},
    {.op = "Det", .types = T_FLOAT_ALL, .prepare = det_prepare, .workspace = det_workspace, .run = det_run},
    {.op = "DetGrad",
     .domain = "nacre",
     .types = T_FLOAT_ALL,
     .prepare = det_grad_prepare,
     .workspace = det_grad_workspace,
     .run = det_grad_run},
    {.op = "Inverse",
     .domain = NC_MICROSOFT,
     .types = T_FLOAT_ALL,
     .prepare = inverse_prepare,
     .workspace = det_workspace,
     .run = det_run},
    {0}};
