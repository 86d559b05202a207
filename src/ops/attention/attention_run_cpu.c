/* ops/attention/attention_run_cpu.c: Attention and AttentionGrad on the CPU over kernels/cpu/attn. Operands are read in
 * place by strides. Past and new keys and values are joined in the present outputs, or in the workspace where those are
 * not wanted. */
#include "kernels/cpu/attn/attn.h"

#include "base/intmath.h"
#include "kernels/cpu/attn/attn_grad.h"
#include "kernels/cpu/move/move.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cpu.h"
#include "ops/matmul/after.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENS, DY, MAX_IN };

/* Q and V of one type, or halves among f32: those are widened. */
bool nc_attention_fits(const nc_node *n, const char **why) {
    if (n->in[Q]->type == NULL || n->in[V]->type == NULL) return true;
    nc_dtype q = n->in[Q]->type->elem, v = n->in[V]->type->elem;
    *why = "query and value have different types, one of them double";
    return q == v || (q != NC_DOUBLE && v != NC_DOUBLE);
}

nc_code nc_attention_prepare(nc_prep *p) {
    nc_attention *a = nc_arena_alloc(p->arena, sizeof *a);
    NC_NEED(p->w, a);
    p->state = a;
    p->strided_in = 1u << Q | 1u << K | 1u << V | 1u << MASK;
    return nc_attention_read(p->w, p->node, a);
}

/* x as a matrix per batch and head: dims of (B,H,rows,columns) and its strides. */
static nck_attn_operand operand(const nc_tensor *x, int64_t heads, int64_t *d) {
    bool packed = x->rank == 3;
    d[0] = x->dims[0];
    d[1] = packed ? heads : x->dims[1];
    d[2] = x->dims[packed ? 1 : 2];
    d[3] = packed ? (heads > 0 ? x->dims[2] / heads : 0) : x->dims[3];
    const int64_t *s = x->strides;
    if (packed)
        return (nck_attn_operand){.data = x->data, .batch = s[0], .head = d[3] * s[2], .row = s[1], .column = s[2]};
    return (nck_attn_operand){.data = x->data, .batch = s[0], .head = s[1], .row = s[2], .column = s[3]};
}

static int64_t past_rows(nc_tensor *const *in, int n_in, int i) {
    return n_in > i && in[i]->rank == 4 ? in[i]->dims[2] : 0;
}

/* Bytes of joined keys or values that no output holds. */
static size_t joined_bytes(const int64_t *d, int64_t past, nc_dtype t) {
    return past > 0 ? nc_align64((size_t)(d[0] * d[1] * (past + d[2]) * d[3]) * nc_dtype_bytes(t)) : 0;
}

static bool mask_converts(nc_tensor *const *in, int n_in) {
    return n_in > MASK && in[MASK]->rank > 0 && in[MASK]->dtype != NC_BOOL && in[MASK]->dtype != in[Q]->dtype;
}

static size_t mask_bytes(nc_tensor *const *in, int n_in) {
    if (!mask_converts(in, n_in)) return 0;
    return nc_align64((size_t)nc_tensor_numel(in[MASK]) * nc_dtype_bytes(in[Q]->dtype));
}

size_t nc_attention_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_attention *a = state;
    nc_tensor *p[MAX_IN];
    if (n_in > MAX_IN) n_in = MAX_IN;
    nc_tensor_pointers(p, in, n_in);
    int64_t dq[4], dk[4], dv[4], past = past_rows(p, n_in, PAST_K);
    (void)out, (void)n_out;
    operand(&in[Q], a->q_heads, dq);
    operand(&in[K], a->kv_heads, dk);
    operand(&in[V], a->kv_heads, dv);
    return joined_bytes(dk, past, in[Q].dtype) + joined_bytes(dv, past, in[Q].dtype) + mask_bytes(p, n_in) +
           nck_attn_workspace(in[Q].dtype, dq[0], dq[1], dq[2], past + dk[2], dq[3], dv[3]);
}

/* past and x one after another along their rows, dense (B,H,P+T,D) in `to`. */
static nck_attn_operand attention_join(const nc_call *c, const nc_tensor *past, const nck_attn_operand *x,
                                       const int64_t *d, void *to) {
    size_t es = nc_dtype_bytes(c->in[Q]->dtype);
    int64_t P = past != NULL ? past->dims[2] : 0, rows = P + d[2];
    int64_t from[4] = {x->batch, x->head, x->row, x->column}, into[4] = {d[1] * rows * d[3], rows * d[3], d[3], 1};
    int64_t dims[4] = {d[0], d[1], P, d[3]};
    if (P > 0) nck_copy(4, dims, es, past->data, past->strides, to, into, c->pool);
    if (d[2] > 0) nck_copy(4, d, es, x->data, from, (char *)to + (size_t)(P * d[3]) * es, into, c->pool);
    return (nck_attn_operand){.data = to, .batch = into[0], .head = into[1], .row = into[2], .column = 1};
}

/* Takes the past in, and writes the present output i_out where it is wanted. */
static nc_code extend(const nc_call *c, int i_past, int i_out, const int64_t *d, nck_attn_operand *x, char **at) {
    const nc_tensor *past = c->n_in > i_past && c->in[i_past]->data != NULL ? c->in[i_past] : NULL;
    bool wanted = c->n_out > i_out && c->out[i_out]->data != NULL;
    if (past != NULL && (past->rank != 4 || past->dims[0] != d[0] || past->dims[1] != d[1] || past->dims[3] != d[3]))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the past of input %d does not fit %lld x %lld x %lld",
                           i_past, (long long)d[0], (long long)d[1], (long long)d[3]);
    if ((past != NULL ? past->dims[2] : 0) != past_rows(c->in, c->n_in, PAST_K))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "past_key and past_value have different lengths");
    if (past_rows(c->in, c->n_in, i_past) == 0 && !wanted) return NC_OK; /* no room was booked */
    *x = attention_join(c, past, x, d, wanted ? c->out[i_out]->data : *at);
    *at += joined_bytes(d, past_rows(c->in, c->n_in, i_past), c->in[Q]->dtype);
    return NC_OK;
}

/* The mask in the type of the queries, dense in the workspace; bools and what has that type stay where they are. */
static nc_code mask_as_wanted(const nc_call *c, nc_tensor *m, char **at) {
    nc_tensor_copy(m, c->in[MASK]);
    if (!mask_converts(c->in, c->n_in)) return NC_OK;
    m->dtype = c->in[Q]->dtype;
    nc_dense_strides(m->dims, m->rank, m->strides);
    m->data = *at;
    *at += mask_bytes(c->in, c->n_in);
    return nck_convert(c->in[MASK], m, c->pool);
}

static nc_code set_mask(const nc_call *c, nck_attn_args *g, char **at) {
    if (c->n_in <= MASK || c->in[MASK]->data == NULL) return NC_OK;
    nc_tensor m;
    NC_TRY(mask_as_wanted(c, &m, at));
    int64_t dims[4] = {g->B, g->Hq, g->S, g->T};
    for (int i = 0; i < m.rank; i++) {
        int64_t want = dims[4 - m.rank + i];
        bool last = i == m.rank - 1;
        if (m.rank > 4 || !(m.dims[i] == want || (last ? m.dims[i] < want : m.dims[i] == 1)))
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the mask has %lld at dim %d, expected %lld",
                               (long long)m.dims[i], i, (long long)want);
        g->mask_strides[4 - m.rank + i] = m.dims[i] == want || last ? m.strides[i] : 0;
    }
    g->mask_cols = m.rank > 0 ? m.dims[m.rank - 1] : g->T;
    g->mask_bool = m.dtype == NC_BOOL;
    g->mask = m.data;
    return NC_OK;
}

static nc_code set_lens(const nc_call *c, nck_attn_args *g) {
    if (c->n_in <= LENS || c->in[LENS]->data == NULL) return NC_OK;
    g->kv_lens = c->in[LENS]->data;
    g->offset_by_lens = c->n_in <= PAST_K || c->in[PAST_K]->data == NULL;
    if (nc_tensor_numel(c->in[LENS]) != g->B)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "nonpad_kv_seqlen has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[LENS]), (long long)g->B);
    return NC_OK;
}

static nc_code attention_check(const nc_call *c, const int64_t *dq, const int64_t *dk, const int64_t *dv) {
    bool fits = dq[0] == dk[0] && dk[0] == dv[0] && dk[1] == dv[1] && dk[2] == dv[2] && dq[3] == dk[3];
    if (fits && dk[1] > 0 && dq[1] % dk[1] == 0) return NC_OK;
    return nc_diag_set(
        c->diag, NC_E_SHAPE, c->node, c->op,
        "Q of %lld batches, %lld heads of %lld, K of %lld batches, %lld heads of %lld by %lld and V of %lld "
        "heads of %lld do not fit",
        (long long)dq[0], (long long)dq[1], (long long)dq[3], (long long)dk[0], (long long)dk[1], (long long)dk[2],
        (long long)dk[3], (long long)dv[1], (long long)dv[2]);
}

static nc_code attention_run(const nc_call *c, nck_attn_after *after) {
    const nc_attention *a = c->state;
    int64_t dq[4], dk[4], dv[4], dy[4], past = past_rows(c->in, c->n_in, PAST_K);
    char *at = c->workspace;
    nck_attn_args g = {.type = c->in[Q]->dtype,
                       .softcap = a->softcap,
                       .causal = a->causal,
                       .left = a->left,
                       .right = a->right,
                       .offset = past,
                       .qk_stage = (nck_attn_stage)a->mode,
                       .after = after,
                       .qk = c->n_out > 3 ? c->out[3]->data : NULL};
    g.q = operand(c->in[Q], a->q_heads, dq);
    g.k = operand(c->in[K], a->kv_heads, dk);
    g.v = operand(c->in[V], a->kv_heads, dv);
    g.y = operand(c->out[0], a->q_heads, dy);
    NC_TRY(attention_check(c, dq, dk, dv));
    NC_TRY(extend(c, PAST_K, 1, dk, &g.k, &at));
    NC_TRY(extend(c, PAST_V, 2, dv, &g.v, &at));
    g.B = dq[0], g.Hq = dq[1], g.Hkv = dk[1], g.S = dq[2], g.T = past + dk[2], g.D = dq[3], g.Dv = dv[3];
    g.scale = a->has_scale ? a->scale : 1 / sqrt((double)g.D);
    if (nc_tensor_numel(c->out[0]) == 0 && g.qk == NULL) return NC_OK;
    NC_TRY(set_mask(c, &g, &at));
    NC_TRY(set_lens(c, &g));
    nck_attn(&g, at, c->pool);
    return NC_OK;
}

nc_code nc_attention_run(const nc_call *c) { return attention_run(c, NULL); }

/* ---- with formulas behind it ---- */

typedef struct chain_state {
    nc_attention base;
    const nc_product_body *body;
} chain_state;

nc_code nc_attention_chain_prepare(nc_prep *p) {
    NC_TRY(nc_attention_prepare(p));
    chain_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (chain_state){.base = *(const nc_attention *)p->state};
    p->state = s;
    return nc_product_body_read(p, NC_ATTN_INPUTS, &s->body);
}

/* Of the result's size, of its last dim, or of one element. */
nc_code nc_attention_chain_run(const nc_call *c) {
    const chain_state *s = c->state;
    nck_attn_after after = {.prog = &s->body->prog};
    int64_t d[4], all = nc_tensor_numel(c->out[0]);
    nck_attn_operand y = operand(c->out[0], s->base.q_heads, d);
    for (int i = 1; i < after.prog->n_in; i++) {
        const nc_tensor *t = c->in[NC_ATTN_INPUTS + i - 1];
        int64_t n = nc_tensor_numel(t);
        after.in[i] = (nck_attn_operand){.data = t->data};
        if (n == all)
            after.in[i] = y, after.in[i].data = t->data;
        else if (n > 1)
            after.in[i].head = c->out[0]->rank == 3 ? d[3] : 0, after.in[i].column = 1;
    }
    return attention_run(c, after.prog->n_op > 0 ? &after : NULL);
}

/* ---- the gradient ---- */

nc_code nc_attention_grad_prepare(nc_prep *p) {
    NC_TRY(nc_attention_prepare(p));
    p->strided_in |= 1u << DY;
    return NC_OK;
}

size_t nc_attention_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_attention *a = state;
    nc_tensor *p[MAX_IN];
    int64_t dq[4], dk[4], dv[4];
    (void)out, (void)n_out;
    nc_tensor_pointers(p, in, n_in);
    operand(&in[Q], a->q_heads, dq);
    operand(&in[K], a->kv_heads, dk);
    operand(&in[V], a->kv_heads, dv);
    return mask_bytes(p, n_in) + nck_attn_grad_workspace(in[Q].dtype, dq[0], dk[1], dq[2], dk[2], dq[3], dv[3]);
}

static nc_code check_dy(const nc_call *c, const nck_attn_args *a, const int64_t *d) {
    if (d[0] == a->B && d[1] == a->Hq && d[2] == a->S && d[3] == a->Dv) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                       "dY has %lld batches and %lld heads of %lld by %lld, expected %lld, %lld, %lld and %lld",
                       (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3], (long long)a->B,
                       (long long)a->Hq, (long long)a->S, (long long)a->Dv);
}

static nck_attn_operand wanted(const nc_call *c, int i, int64_t heads) {
    int64_t d[4];
    if (c->n_out <= i || c->out[i]->data == NULL) return (nck_attn_operand){.data = NULL};
    return operand(c->out[i], heads, d);
}

nc_code nc_attention_grad_run(const nc_call *c) {
    const nc_attention *a = c->state;
    int64_t dq[4], dk[4], dv[4], dy[4];
    char *at = c->workspace;
    nck_attn_grad_args g = {
        .a = {.type = c->in[Q]->dtype, .softcap = a->softcap, .causal = a->causal, .left = a->left, .right = a->right}};
    g.a.q = operand(c->in[Q], a->q_heads, dq);
    g.a.k = operand(c->in[K], a->kv_heads, dk);
    g.a.v = operand(c->in[V], a->kv_heads, dv);
    g.dy = operand(c->in[DY], a->q_heads, dy);
    NC_TRY(attention_check(c, dq, dk, dv));
    g.a.B = dq[0], g.a.Hq = dq[1], g.a.Hkv = dk[1], g.a.S = dq[2], g.a.T = dk[2], g.a.D = dq[3], g.a.Dv = dv[3];
    g.a.scale = a->has_scale ? a->scale : 1 / sqrt((double)g.a.D);
    NC_TRY(check_dy(c, &g.a, dy));
    NC_TRY(set_mask(c, &g.a, &at));
    NC_TRY(set_lens(c, &g.a));
    g.dq = wanted(c, Q, a->q_heads), g.dk = wanted(c, K, a->kv_heads), g.dv = wanted(c, V, a->kv_heads);
    nck_attn_grad(&g, at, c->pool);
    return NC_OK;
}
