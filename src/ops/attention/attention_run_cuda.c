/* ops/attention/attention_run_cuda.c: Attention and AttentionGrad on CUDA over kernels/cuda/attention.h and
 * attention_grad.h. Operands are read in place by strides. Past and new keys and values are joined in the present
 * outputs, or in the workspace where those are not wanted. Few queries take a kernel of their own. */
#include "kernels/cuda/attention_dnn.h"

#include "kernels/cuda/move.h"
#include "kernels/cuda/random.h"
#include "kernels/cuda/rows.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cuda.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENS, DY, KEPT_Y, KEPT_STATS, GRAD_STATE };
enum { STATE = 7 }; /* of AttentionDropout */
enum { STATS = 4 }; /* the output that lowering adds to Attention for its gradient */
enum { ALIGNMENT = 256 };

/* How the last run went: static texts, NULL before the first. */
typedef struct ways {
    _Atomic(const char *) taken, not_dnn; /* not_dnn NULL: cuDNN was not asked, or took it */
} ways;

static void took(ways *w, const char *taken, const char *not_dnn) {
    atomic_store_explicit(&w->not_dnn, not_dnn, memory_order_relaxed);
    atomic_store_explicit(&w->taken, taken, memory_order_relaxed);
}

static void tell(const ways *w, char *text, size_t bytes) {
    const char *taken = atomic_load(&w->taken), *why = atomic_load(&w->not_dnn);
    if (taken == NULL)
        snprintf(text, bytes, "chosen by the sizes of a run; there was none yet");
    else
        snprintf(text, bytes, "%s%s%s", taken, why != NULL ? "; not cuDNN's: " : "", why != NULL ? why : "");
}

static const char by_dnn[] = "cuDNN's kernel", by_tiles[] = "Nacre's own kernel by tiles";

typedef struct attend {
    ways *ways;
    nc_attention how;
    uint32_t node; /* its random id */
    nck_cuda_attn kernel;
    nck_cuda_attn_few few;
    nck_cuda_move move;
} attend;

static bool has_in(const nc_node *n, int i) { return n->n_in > i && n->in[i] != NULL; }

/* Columns of one head of input i; -1: not known before the run. */
static int64_t head_cols(const nc_node *n, int i, int64_t heads) {
    const nc_type *t = n->in[i]->type;
    int64_t cols;
    if (t == NULL || (t->rank != 3 && t->rank != 4) || !nc_dim_is_const(t->dims[t->rank - 1], &cols)) return -1;
    return t->rank == 4 ? cols : heads > 0 ? cols / heads : -1;
}

static int64_t most_cols(const nc_node *n) {
    int64_t of_q = nc_attr_has(n, "q_num_heads") ? nc_attr_int(n, "q_num_heads") : 0;
    int64_t of_v = nc_attr_has(n, "kv_num_heads") ? nc_attr_int(n, "kv_num_heads") : 0;
    int64_t q = head_cols(n, Q, of_q), v = head_cols(n, V, of_v);
    return q < 0 || v < 0 ? -1 : q > v ? q : v;
}

/* Types and columns, of Attention and of its gradient. */
static bool has_known_operands(const nc_node *n, const char **why) {
    *why = "an operand of unknown type";
    for (int i = 0; i < 3; i++)
        if (!has_in(n, i) || n->in[i]->type == NULL) return false;
    nc_dtype t = n->in[Q]->type->elem;
    *why = "query and value have different types";
    if (n->in[V]->type->elem != t) return false;
    *why = "a mask that kernels cannot hold";
    if (has_in(n, MASK) && (n->in[MASK]->type == NULL || nck_cuda_type_name(n->in[MASK]->type->elem) == NULL))
        return false;
    *why = "heads of unknown size, or of more columns than a block holds";
    return most_cols(n) >= 0;
}

bool nc_attention_cuda_fits(const nc_node *n, const char **why) {
    if (!has_known_operands(n, why) || !nck_cuda_attn_takes(n->in[Q]->type->elem, most_cols(n))) return false;
    *why = "the scores are an output";
    return n->n_out <= 3 || n->out[3] == NULL;
}

bool nc_attention_grad_cuda_fits(const nc_node *n, const char **why) {
    return has_known_operands(n, why) && nck_cuda_attn_grad_takes(n->in[Q]->type->elem, most_cols(n));
}

/* Dim d of input i; 0: not known before the run. */
static int64_t dim_of(const nc_node *n, int i, int d) {
    int64_t size;
    return nc_dim_is_const(n->in[i]->type->dims[d], &size) ? size : 0;
}

/* What is known of the heads and of the number of queries, as arguments of a call. */
static nck_cuda_attn_args known_args(const nc_node *n, const nc_attention *h) {
    nck_cuda_attn_args a = {.q_heads = h->q_heads, .kv_heads = h->kv_heads};
    int rank = n->in[Q]->type->rank;
    if (rank == 4) a.q_heads = dim_of(n, Q, 1);
    if (n->in[K]->type->rank == 4) a.kv_heads = dim_of(n, K, 1);
    a.q_heads = a.q_heads > 0 ? a.q_heads : 1;
    a.kv_heads = a.kv_heads > 0 && a.kv_heads <= a.q_heads ? a.kv_heads : a.q_heads;
    a.n_queries = dim_of(n, Q, rank == 4 ? 2 : 1);
    a.n_queries = a.n_queries > 0 ? a.n_queries : 1;
    return a;
}

/* The kernel for few queries, unless there will never be few. */
static nc_code prepare_few(nc_prep *p, attend *s, nc_dtype t, nc_dtype mask) {
    nck_cuda_attn_args known = known_args(p->node, &s->how);
    s->few = (nck_cuda_attn_few){0};
    if (!nck_cuda_attn_is_few(t, &known) || s->how.ratio > 0) return NC_OK;
    return nck_cuda_attn_few_prepare(p->device, t, most_cols(p->node), mask, s->how.softcap > 0, &known, &s->few,
                                     &p->w->diag);
}

static nck_cuda_attn_form form_of(const nc_prep *p, const nc_attention *how) {
    const nc_node *n = p->node;
    return (nck_cuda_attn_form){.cols = most_cols(n),
                                .mask = has_in(n, MASK) ? n->in[MASK]->type->elem : NC_UNDEFINED,
                                .softcap = how->softcap > 0,
                                .drops = how->ratio > 0,
                                .lens = has_in(n, LENS),
                                .left = how->left >= 0,
                                .dnn_draws = p->dnn_draws};
}

/* state: what its kernels draw from. */
static nck_cuda_attn_drop drop_of(const nc_attention *how, uint32_t node, const nc_tensor *state) {
    return (nck_cuda_attn_drop){.state = state->data,
                                .ratio = how->ratio,
                                .by = how->ratio < 1 ? 1 / (1 - how->ratio) : 0,
                                .node = node,
                                .limit = nck_cuda_drop_limit(how->ratio)};
}

nc_code nc_attention_cuda_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    attend *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_NEED(p->w, s->ways = nc_arena_array(p->arena, 1, sizeof *s->ways));
    NC_TRY(nc_attention_read(p->w, n, &s->how));
    s->node = (uint32_t)n->random_id;
    p->state = s;
    p->strided_in = 1u << Q | 1u << K | 1u << V;
    nc_dtype t = n->in[Q]->type->elem;
    nck_cuda_attn_form form = form_of(p, &s->how);
    NC_TRY(nck_cuda_move_prepare(p->device, nc_dtype_bytes(t), &s->move, &p->w->diag));
    NC_TRY(prepare_few(p, s, t, form.mask));
    return nck_cuda_attn_prepare(p->device, t, &form, &s->kernel, &p->w->diag);
}

/* x as a matrix per batch and head: dims of (batch, head, row, column) and its strides. */
static nck_cuda_attn_operand operand(const nc_tensor *x, int64_t heads, int64_t *d) {
    bool packed = x->rank == 3;
    const int64_t *s = x->strides;
    d[0] = x->dims[0];
    d[1] = packed ? heads : x->dims[1];
    d[2] = x->dims[packed ? 1 : 2];
    d[3] = packed ? (heads > 0 ? x->dims[2] / heads : 0) : x->dims[3];
    if (packed) return (nck_cuda_attn_operand){x->data, s[0], d[3] * s[2], s[1], s[2]};
    return (nck_cuda_attn_operand){x->data, s[0], s[1], s[2], s[3]};
}

static int64_t past_rows(const nc_tensor *past) { return past != NULL && past->rank == 4 ? past->dims[2] : 0; }

/* Bytes of joined keys or values that no output holds. */
static size_t joined_bytes(const int64_t *d, int64_t past, nc_dtype t) {
    if (past == 0) return 0;
    size_t bytes = (size_t)(d[0] * d[1] * (past + d[2]) * d[3]) * nc_dtype_bytes(t);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Rows of a mask. */
static int64_t mask_rows(const nc_tensor *in, int n_in) {
    const nc_tensor *m = n_in > MASK ? &in[MASK] : NULL;
    int64_t rows = 1;
    for (int i = 0; m != NULL && i < m->rank - 1; i++) rows *= m->dims[i];
    return rows;
}

size_t nc_attention_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const attend *s = state;
    int64_t dq[4], dk[4], dv[4], past = n_in > PAST_K ? past_rows(&in[PAST_K]) : 0;
    (void)out, (void)n_out;
    operand(&in[Q], s->how.q_heads, dq);
    operand(&in[K], s->how.kv_heads, dk);
    operand(&in[V], s->how.kv_heads, dv);
    nck_cuda_attn_args a = {.n_batch = dq[0],
                            .q_heads = dq[1],
                            .kv_heads = dk[1],
                            .n_queries = dq[2],
                            .n_keys = past + dk[2],
                            .cols_v = dv[3]};
    return joined_bytes(dk, past, in[Q].dtype) + joined_bytes(dv, past, in[Q].dtype) +
           (s->few.attend != NULL ? nck_cuda_attn_few_workspace(&a) : 0) +
           nck_cuda_attn_dnn_room(&s->kernel, &a, mask_rows(in, n_in));
}

/* past and x one after another along their rows, dense in `to`. */
static nc_code join(const nc_call *c, const nc_tensor *past, const int64_t *d, void *to, nck_cuda_attn_operand *x) {
    const attend *s = c->state;
    int64_t P = past_rows(past), rows = P + d[2], dims[4] = {d[0], d[1], P, d[3]};
    int64_t from[4] = {x->batch, x->head, x->row, x->column}, into[4] = {d[1] * rows * d[3], rows * d[3], d[3], 1};
    if (P > 0) NC_TRY(nck_cuda_copy(&s->move, nck_cuda_at_call(c), 4, dims, past->data, past->strides, to, into));
    void *behind = P > 0 ? (char *)to + (size_t)(P * d[3]) * nc_dtype_bytes(c->in[Q]->dtype) : to;
    NC_TRY(nck_cuda_copy(&s->move, nck_cuda_at_call(c), 4, d, x->data, from, behind, into));
    *x = (nck_cuda_attn_operand){to, into[0], into[1], into[2], 1};
    return NC_OK;
}

/* Takes the past in, and writes the present output i_out where it is wanted. */
static nc_code extend(const nc_call *c, int i_past, int i_out, const int64_t *d, nck_cuda_attn_operand *x, char **at) {
    const nc_tensor *past = c->n_in > i_past && c->in[i_past]->data != NULL ? c->in[i_past] : NULL;
    bool wanted = c->n_out > i_out && c->out[i_out]->data != NULL;
    if (past != NULL && (past->rank != 4 || past->dims[0] != d[0] || past->dims[1] != d[1] || past->dims[3] != d[3]))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the past of input %d does not fit %lld x %lld x %lld",
                           i_past, (long long)d[0], (long long)d[1], (long long)d[3]);
    if (past_rows(past) != (c->n_in > PAST_K ? past_rows(c->in[PAST_K]) : 0))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "past_key and past_value have different lengths");
    if (past_rows(past) == 0 && !wanted) return NC_OK; /* no room was booked */
    void *to = wanted ? c->out[i_out]->data : *at;
    size_t bytes = joined_bytes(d, past_rows(past), c->in[Q]->dtype);
    if (bytes > 0) *at += bytes;
    return join(c, past, d, to, x);
}

static nc_code set_mask(const nc_call *c, nck_cuda_attn_args *g) {
    if (c->n_in <= MASK || c->in[MASK]->data == NULL) return NC_OK;
    const nc_tensor *m = c->in[MASK];
    int64_t dims[4] = {g->n_batch, g->q_heads, g->n_queries, g->n_keys};
    for (int i = 0; i < m->rank; i++) {
        int64_t want = dims[4 - m->rank + i];
        bool last = i == m->rank - 1;
        if (m->rank > 4 || !(m->dims[i] == want || (last ? m->dims[i] < want : m->dims[i] == 1)))
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the mask has %lld at dim %d, expected %lld",
                               (long long)m->dims[i], i, (long long)want);
        g->mask_strides[4 - m->rank + i] = m->dims[i] == want || last ? m->strides[i] : 0;
    }
    g->mask_cols = m->rank > 0 ? m->dims[m->rank - 1] : g->n_keys;
    g->mask = m->data;
    return NC_OK;
}

static nc_code set_lens(const nc_call *c, nck_cuda_attn_args *g) {
    if (c->n_in <= LENS || c->in[LENS]->data == NULL) return NC_OK;
    g->kv_lens = c->in[LENS]->data;
    g->offset_by_lens = c->in[PAST_K]->data == NULL;
    if (nc_tensor_numel(c->in[LENS]) != g->n_batch)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "nonpad_kv_seqlen has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[LENS]), (long long)g->n_batch);
    return NC_OK;
}

static nc_code check(const nc_call *c, const int64_t *dq, const int64_t *dk, const int64_t *dv) {
    bool fits = dq[0] == dk[0] && dk[0] == dv[0] && dk[1] == dv[1] && dk[2] == dv[2] && dq[3] == dk[3];
    if (fits && dk[1] > 0 && dq[1] % dk[1] == 0) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                       "Q of %lld batches, %lld heads of %lld, K of %lld batches, %lld heads of %lld by %lld and V of "
                       "%lld heads of %lld do not fit",
                       (long long)dq[0], (long long)dq[1], (long long)dq[3], (long long)dk[0], (long long)dk[1],
                       (long long)dk[2], (long long)dk[3], (long long)dv[1], (long long)dv[2]);
}

static nc_code take_few(const attend *s, const nc_call *c, const nck_cuda_attn_args *g, const nc_attention_new *fresh,
                        void *workspace) {
    took(s->ways, "Nacre's own kernel for few queries, over splits of the keys", "few queries");
    return nck_cuda_attn_few_run(&s->few, c, g, fresh != NULL ? &fresh->rows : NULL, fresh != NULL && fresh->ahead,
                                 workspace);
}

nc_code nc_attention_cuda_run(const nc_call *c) { return nc_attention_cuda_run_new(c, NULL); }

/* The new rows into the caches, which are inputs K and V. */
static nc_code put(const nc_call *c, const nc_attention_new *n) {
    for (int i = K; i <= V; i++) {
        const nc_tensor *y = c->in[i];
        nck_cuda_put p = {.n_batch = y->dims[0],
                          .outer = y->dims[1],
                          .rows = y->dims[2],
                          .inner = y->dims[3],
                          .n = n->rows.n,
                          .circular = n->rows.circular,
                          .at = n->rows.at,
                          .u = i == K ? n->rows.k : n->rows.v,
                          .y = y->data};
        NC_TRY(nck_cuda_put_rows_run(n->put, c, &p));
    }
    return NC_OK;
}

nc_code nc_attention_cuda_run_new(const nc_call *c, const nc_attention_new *fresh) {
    const attend *s = c->state;
    const nc_attention *h = &s->how;
    int64_t dq[4], dk[4], dv[4], dy[4], past = c->n_in > PAST_K ? past_rows(c->in[PAST_K]) : 0;
    char *at = c->workspace;
    nck_cuda_attn_args g = {
        .softcap = h->softcap, .causal = h->causal, .left = h->left, .right = h->right, .offset = past};
    g.q = operand(c->in[Q], h->q_heads, dq);
    g.k = operand(c->in[K], h->kv_heads, dk);
    g.v = operand(c->in[V], h->kv_heads, dv);
    g.y = operand(c->out[0], h->q_heads, dy);
    NC_TRY(check(c, dq, dk, dv));
    NC_TRY(extend(c, PAST_K, 1, dk, &g.k, &at));
    NC_TRY(extend(c, PAST_V, 2, dv, &g.v, &at));
    g.n_batch = dq[0], g.q_heads = dq[1], g.kv_heads = dk[1], g.n_queries = dq[2], g.n_keys = past + dk[2];
    g.cols = dq[3], g.cols_v = dv[3];
    g.scale = h->has_scale ? h->scale : 1 / sqrt((double)g.cols);
    if (nc_tensor_numel(c->out[0]) == 0) return fresh != NULL ? put(c, fresh) : NC_OK;
    NC_TRY(set_mask(c, &g));
    NC_TRY(set_lens(c, &g));
    g.stats = c->n_out > STATS ? c->out[STATS]->data : NULL;
    if (h->ratio > 0) g.drop = drop_of(h, s->node, c->in[STATE]);
    if (g.stats == NULL && s->few.attend != NULL && nck_cuda_attn_is_few(s->few.type, &g))
        return take_few(s, c, &g, fresh, at);
    if (fresh != NULL) NC_TRY(put(c, fresh));
    const char *why = nck_cuda_attn_dnn_run(nck_cuda_at_call(c), &s->kernel, &g, at);
    took(s->ways, why == NULL ? by_dnn : by_tiles, why);
    return why == NULL ? NC_OK : nck_cuda_attn_run(&s->kernel, nck_cuda_at_call(c), &g);
}

void nc_attention_cuda_tell(const void *state, char *text, size_t bytes) {
    tell(((const attend *)state)->ways, text, bytes);
}

/* ---- the gradient ---- */

typedef struct attend_back {
    ways *ways;
    nc_attention how;
    uint32_t node;
    nck_cuda_attn_grad kernel;
} attend_back;

nc_code nc_attention_grad_cuda_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    attend_back *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_NEED(p->w, s->ways = nc_arena_array(p->arena, 1, sizeof *s->ways));
    NC_TRY(nc_attention_read(p->w, n, &s->how));
    s->node = (uint32_t)n->random_id;
    p->state = s;
    p->strided_in = 1u << Q | 1u << K | 1u << V | 1u << DY;
    nck_cuda_attn_form form = form_of(p, &s->how);
    return nck_cuda_attn_grad_prepare(p->device, n->in[Q]->type->elem, &form, &s->kernel, &p->w->diag);
}

size_t nc_attention_grad_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                        int n_out) {
    const attend_back *s = state;
    int64_t dq[4], dv[4];
    (void)out, (void)n_out;
    operand(&in[Q], s->how.q_heads, dq);
    operand(&in[V], s->how.kv_heads, dv);
    nck_cuda_attn_args a = {.n_batch = dq[0], .q_heads = dq[1], .n_queries = dq[2], .n_keys = dv[2], .cols = dq[3]};
    a.cols_v = dv[3];
    size_t own = nck_cuda_attn_grad_workspace(in[Q].dtype, dq[0] * dq[1] * dq[2], dv[3]);
    size_t dnn = nck_cuda_attn_dnn_grad_workspace(&s->kernel.forward, &a, mask_rows(in, n_in));
    return own > dnn ? own : dnn;
}

static nc_code check_dy(const nc_call *c, const nck_cuda_attn_args *a, const int64_t *d) {
    if (d[0] == a->n_batch && d[1] == a->q_heads && d[2] == a->n_queries && d[3] == a->cols_v) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                       "dY has %lld batches and %lld heads of %lld by %lld, expected %lld, %lld, %lld and %lld",
                       (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3], (long long)a->n_batch,
                       (long long)a->q_heads, (long long)a->n_queries, (long long)a->cols_v);
}

static nck_cuda_attn_operand wanted(const nc_call *c, int i, int64_t heads) {
    int64_t d[4];
    if (c->n_out <= i || c->out[i]->data == NULL) return (nck_cuda_attn_operand){.data = NULL};
    return operand(c->out[i], heads, d);
}

nc_code nc_attention_grad_cuda_run(const nc_call *c) {
    const attend_back *s = c->state;
    const nc_attention *h = &s->how;
    int64_t dq[4], dk[4], dv[4], dy[4];
    nck_cuda_attn_grad_args g = {
        .a = {.softcap = h->softcap, .causal = h->causal, .left = h->left, .right = h->right, .offset = 0}};
    g.a.q = operand(c->in[Q], h->q_heads, dq);
    g.a.k = operand(c->in[K], h->kv_heads, dk);
    g.a.v = operand(c->in[V], h->kv_heads, dv);
    g.dy = operand(c->in[DY], h->q_heads, dy);
    NC_TRY(check(c, dq, dk, dv));
    g.a.n_batch = dq[0], g.a.q_heads = dq[1], g.a.kv_heads = dk[1], g.a.n_queries = dq[2], g.a.n_keys = dk[2];
    g.a.cols = dq[3], g.a.cols_v = dv[3];
    g.a.scale = h->has_scale ? h->scale : 1 / sqrt((double)g.a.cols);
    NC_TRY(check_dy(c, &g.a, dy));
    NC_TRY(set_mask(c, &g.a));
    NC_TRY(set_lens(c, &g.a));
    if (c->n_in > KEPT_STATS && c->in[KEPT_Y]->data != NULL) {
        int64_t unused[4];
        g.a.y = operand(c->in[KEPT_Y], h->q_heads, unused);
        g.a.stats = c->in[KEPT_STATS]->data;
    }
    g.dq = wanted(c, Q, h->q_heads), g.dk = wanted(c, K, h->kv_heads), g.dv = wanted(c, V, h->kv_heads);
    if (h->ratio > 0) g.a.drop = drop_of(h, s->node, c->in[GRAD_STATE]);
    const char *why = nck_cuda_attn_dnn_grad_run(nck_cuda_at_call(c), &s->kernel.forward, &g, c->workspace);
    took(s->ways, why == NULL ? by_dnn : by_tiles, why);
    if (why == nck_cuda_attn_dnn_drew) return nc_diag_set(c->diag, NC_E_UNSUPPORTED, c->node, c->op, "%s", why);
    return why == NULL ? NC_OK : nck_cuda_attn_grad_run(&s->kernel, nck_cuda_at_call(c), &g, c->workspace);
}

void nc_attention_grad_cuda_tell(const void *state, char *text, size_t bytes) {
    tell(((const attend_back *)state)->ways, text, bytes);
}
