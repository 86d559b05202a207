/* ops/attention/cached_cpu.c: nacre.CachedAttention on the CPU, by kernels/cpu/attn. What of the past stays where it is
 * because the present lies on it is not copied. Keys behind the last one that any batch has are not looked at. */
#include "ops/attention/cached.h"

#include "base/intmath.h"
#include "kernels/cpu/attn/attn.h"
#include "ops/attention/attention_cpu.h"

#include <math.h>
#include <string.h>

enum { FEW = 1 << 14 }; /* elements of a cache that no other thread is woken for */
enum { Q = NC_CACHED_Q, K, V, STARTS, TOTAL, PAST_K, PAST_V, BIAS, SINK };

nc_code nc_cached_prepare(nc_prep *p) {
    nc_cached *a = nc_arena_alloc(p->arena, sizeof *a);
    NC_NEED(p->w, a);
    *a = nc_cached_read(p->node);
    p->state = a;
    p->over[1] = 1u << PAST_K;
    p->over[2] = 1u << PAST_V;
    return NC_OK;
}

/* Lengths, and the kernel's own. */
size_t nc_cached_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_cached *a = state;
    int64_t B = in[Q].dims[0], S = in[Q].dims[1], T = out[1].dims[2], D = out[1].dims[3], Dv = out[2].dims[3];
    (void)n_in, (void)n_out;
    size_t apart = nck_attn_workspace(in[Q].dtype, B, a->q_heads, S, T, D, Dv),
           joined = nck_attn_workspace(in[Q].dtype, B, a->kv_heads, a->q_heads / a->kv_heads, T, D, Dv);
    return nc_align64((size_t)B * sizeof(int64_t)) + nc_max_size(apart, joined);
}

static const nc_tensor *given(const nc_call *c, int i) {
    return c->n_in > i && c->in[i]->data != NULL ? c->in[i] : NULL;
}

/* Caches of keys and values (B,heads,P,D), and a sink for each head. */
static nc_code cached_check_past(const nc_call *c, const nc_cached *a) {
    const nc_tensor *keys = given(c, PAST_K), *sink = given(c, SINK);
    if ((keys == NULL) != (given(c, PAST_V) == NULL))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "keys and values of the past are given together");
    for (int i = 0; i < 2 && keys != NULL; i++) {
        const nc_tensor *past = c->in[PAST_K + i], *x = c->in[K + i];
        int64_t want[4] = {x->dims[0], a->kv_heads, keys->dims[2], x->dims[2] / a->kv_heads};
        for (int d = 0; d < 4; d++)
            if (past->rank != 4 || past->dims[d] != want[d])
                return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                                   "the past's %s have %lld at dim %d, expected %lld", i == 0 ? "keys" : "values",
                                   (long long)(d < past->rank ? past->dims[d] : 0), d, (long long)want[d]);
    }
    if (sink != NULL && nc_tensor_numel(sink) != a->q_heads)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld sinks for %lld heads",
                           (long long)nc_tensor_numel(sink), (long long)a->q_heads);
    return NC_OK;
}

static nc_code cached_check(const nc_call *c, const nc_cached *a, int64_t T) {
    const nc_tensor *q = c->in[Q], *k = c->in[K], *v = c->in[V];
    if (k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0] || k->dims[1] != q->dims[1] ||
        v->dims[1] != q->dims[1] || k->dims[2] / a->kv_heads != q->dims[2] / a->q_heads)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "queries %lld x %lld x %lld, keys %lld x %lld x %lld and values %lld x %lld x %lld do not "
                           "fit",
                           (long long)q->dims[0], (long long)q->dims[1], (long long)q->dims[2], (long long)k->dims[0],
                           (long long)k->dims[1], (long long)k->dims[2], (long long)v->dims[0], (long long)v->dims[1],
                           (long long)v->dims[2]);
    NC_TRY(cached_check_past(c, a));
    if (nc_tensor_numel(c->in[STARTS]) != q->dims[0])
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld lengths for a batch of %lld",
                           (long long)nc_tensor_numel(c->in[STARTS]), (long long)q->dims[0]);
    for (int64_t b = 0; b < q->dims[0]; b++) {
        int64_t at = ((const int64_t *)c->in[STARTS]->data)[b];
        if (at < 0 || at > T - q->dims[1])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                               "batch %lld: %lld new keys behind %lld do not fit into %lld", (long long)b,
                               (long long)q->dims[1], (long long)at, (long long)T);
    }
    return NC_OK;
}

/* One cache (B,heads,T,D) being written: of keys or values. */
typedef struct cache {
    const nc_call *c;
    int64_t heads, S, T, P, D;
    const char *past, *x;
    char *to;
} cache;

/* Rows [from, to) of head i, as far as they are among [lo, hi): those of x, which has row `at` first and rows `apart`
 * bytes apart, or zeros. */
static void write_some(const cache *j, int64_t i, int64_t from, int64_t to, int64_t lo, int64_t hi, const char *x,
                       int64_t at, size_t apart) {
    size_t row = (size_t)j->D * nc_dtype_bytes(j->c->in[Q]->dtype);
    lo = nc_max64(lo, from), hi = nc_min64(hi, to);
    if (lo >= hi) return;
    char *y = j->to + (size_t)(i * j->T + lo) * row;
    if (x == NULL)
        memset(y, 0, (size_t)(hi - lo) * row);
    else if (apart == row)
        memcpy(y, x + (size_t)(lo - at) * row, (size_t)(hi - lo) * row);
    else
        for (; lo < hi; lo++, y += row) memcpy(y, x + (size_t)(lo - at) * apart, row);
}

/* Rows [from, to) of head i: the past, with what is new over it and zeros behind and between. Returns how many rows
 * from 0 on the past has as well, 0 where it is the same memory. */
static int64_t write_rows(const cache *j, int64_t i, int64_t from, int64_t to) {
    int64_t b = i / j->heads, h = i % j->heads, at = ((const int64_t *)j->c->in[STARTS]->data)[b];
    size_t row = (size_t)j->D * nc_dtype_bytes(j->c->in[Q]->dtype);
    write_some(j, i, from, to, at, at + j->S, j->x + (size_t)(b * j->S * j->heads + h) * row, at,
               (size_t)j->heads * row);
    if (j->past == j->to) return 0;
    int64_t before = nc_min64(at, j->P);
    const char *past = j->past != NULL ? j->past + (size_t)(i * j->P) * row : NULL;
    write_some(j, i, from, to, 0, before, past, 0, row);
    write_some(j, i, from, to, before, at, NULL, 0, row);
    write_some(j, i, from, to, at + j->S, j->P, past, 0, row);
    write_some(j, i, from, to, nc_max64(at + j->S, j->P), j->T, NULL, 0, row);
    return before;
}

static void write_head(void *ctx, int64_t i) {
    const cache *j = ctx;
    (void)write_rows(j, i, 0, j->T);
}

/* For nck_attn_args.bring; ctx: the caches of keys and of values. */
static int64_t bring_rows(void *ctx, int64_t b, int64_t kv, int64_t from, int64_t to) {
    const cache *both = ctx;
    int64_t i = b * both->heads + kv;
    return nc_min64(write_rows(&both[0], i, from, to), write_rows(&both[1], i, from, to));
}

static cache cache_of(const nc_call *c, const nc_cached *a, int i, int64_t T) {
    const nc_tensor *x = c->in[K + i];
    const nc_tensor *past = given(c, PAST_K + i);
    cache j = {.c = c, .heads = a->kv_heads, .S = x->dims[1], .T = T, .D = x->dims[2] / a->kv_heads, .x = x->data};
    if (past != NULL) j.P = past->dims[2], j.past = past->data;
    j.to = c->out[1 + i]->data;
    return j;
}

static void write_cache(cache *j) {
    int64_t n = j->c->in[Q]->dims[0] * j->heads;
    bool few = n * j->T * j->D <= FEW;
    for (int64_t k = 0; few && j->T > 0 && k < n; k++) write_head(j, k);
    if (j->T > 0 && !few) nc_parallel(j->c->pool, n, write_head, j);
}

/* Of T rows a head. */
static nck_attn_operand cache_operand(const cache *j, const char *data, int64_t T) {
    return (nck_attn_operand){
        .data = (void *)(uintptr_t)data, .batch = j->heads * T * j->D, .head = T * j->D, .row = j->D, .column = 1};
}

static nc_code cached_bias(const nc_call *c, nck_attn_args *g) {
    if (c->n_in <= BIAS || c->in[BIAS]->data == NULL) return NC_OK;
    const nc_tensor *m = c->in[BIAS];
    int64_t dims[3] = {g->B, g->Hq, g->S};
    for (int i = 0; i < 3; i++) {
        if (m->dims[i] != dims[i] && (m->dims[i] != 1 || i == 2))
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "attention_bias has %lld at dim %d, expected %lld",
                               (long long)m->dims[i], i, (long long)dims[i]);
        g->mask_strides[i] = m->dims[i] == dims[i] ? m->strides[i] : 0;
    }
    if (m->dims[3] < g->T)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "attention_bias has %lld columns for %lld keys",
                           (long long)m->dims[3], (long long)g->T);
    g->mask_strides[3] = m->strides[3];
    g->mask_cols = m->dims[3];
    g->mask = m->data;
    return NC_OK;
}

/* Scores of keys that are not seen are told as 0. */
static void hide_unseen(void *qk, nc_dtype t, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (t == NC_FLOAT && isinf(((float *)qk)[i])) ((float *)qk)[i] = 0;
        if (t == NC_DOUBLE && isinf(((double *)qk)[i])) ((double *)qk)[i] = 0;
    }
}

nc_code nc_cached_run(const nc_call *c) {
    const nc_cached *a = c->state;
    const nc_tensor *q = c->in[Q];
    int64_t B = q->dims[0], S = q->dims[1], least = *(const int64_t *)c->in[TOTAL]->data, most = 0;
    int64_t P = given(c, PAST_K) != NULL ? c->in[PAST_K]->dims[2] : 0, T = nc_max64(least, P);
    int64_t *lens = c->workspace;
    NC_TRY(cached_check(c, a, T));
    for (int64_t b = 0; b < B; b++) {
        lens[b] = ((const int64_t *)c->in[STARTS]->data)[b] + S;
        most = nc_max64(most, lens[b]);
    }
    nck_attn_args g = {.type = q->dtype,
                       .B = B,
                       .Hq = a->q_heads,
                       .Hkv = a->kv_heads,
                       .S = S,
                       .D = q->dims[2] / a->q_heads,
                       .Dv = c->in[V]->dims[2] / a->kv_heads,
                       .softcap = a->softcap,
                       .kv_lens = lens,
                       .offset_by_lens = true,
                       .causal = a->causal,
                       .left = a->left,
                       .right = -1};
    g.qk = c->n_out > 3 ? c->out[3]->data : NULL;
    g.qk_stage = a->mode == 2 ? NCK_ATTN_SOFTMAX : NCK_ATTN_BIASED;
    cache both[2] = {cache_of(c, a, 0, T), cache_of(c, a, 1, T)};
    bool apart = S == 1 && nc_tensor_numel(q) > 0; /* each head of the caches is read by one item */
    for (int i = 0; i < 2 && !apart; i++) write_cache(&both[i]);
    if (nc_tensor_numel(q) == 0) return NC_OK;
    g.k = cache_operand(&both[0], both[0].to, T), g.v = cache_operand(&both[1], both[1].to, T);
    g.past_k = cache_operand(&both[0], both[0].past, P);
    g.past_v = cache_operand(&both[1], both[1].past, P);
    if (apart) g.bring = bring_rows, g.ctx = both;
    g.T = g.qk != NULL ? T : most;
    g.scale = a->scale != 0 ? a->scale : 1 / sqrt((double)g.D);
    g.q = (nck_attn_operand){q->data, S * q->dims[2], g.D, q->dims[2], 1};
    g.y = (nck_attn_operand){c->out[0]->data, S * c->out[0]->dims[2], g.Dv, c->out[0]->dims[2], 1};
    g.sink = c->n_in > SINK ? c->in[SINK]->data : NULL;
    NC_TRY(cached_bias(c, &g));
    nck_attn_join_heads(&g);
    nck_attn(&g, (char *)c->workspace + nc_align64((size_t)B * sizeof *lens), c->pool);
    if (g.qk != NULL && a->mode == 1) hide_unseen(g.qk, g.type, nc_tensor_numel(c->out[3]));
    return NC_OK;
}
