/* cuda/attention_seen.c: launcher of attention_seen.cu, see attention_seen.h. */
#include "kernels/cuda/attention_seen.h"

enum { THREADS = 256, ALIGNMENT = 256 };

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static size_t bytes_lens(const nck_cuda_attn *k, const nck_cuda_attn_args *a) {
    return k->lens ? aligned((size_t)a->n_batch * sizeof(int32_t)) : 0;
}

size_t nck_cuda_attn_seen_room(const nck_cuda_attn *k, const nck_cuda_attn_args *a, int64_t mask_rows) {
    size_t rows = k->mask == NC_BOOL && k->seen_bias != NULL ? (size_t)mask_rows : 0;
    return 2 * bytes_lens(k, a) + aligned(rows * sizeof(int32_t)) + aligned(rows * (size_t)a->n_keys * 2);
}

nck_cuda_attn_seen nck_cuda_attn_seen_of(const nck_cuda_attn *k, const nck_cuda_attn_args *a, void *room) {
    const int64_t dims[3] = {a->n_batch, a->q_heads, a->n_queries};
    nck_cuda_attn_seen s = {.a = *a};
    char *at = room;
    int64_t rows = 1;
    if (a->kv_lens != NULL) s.n_queries = room, s.n_keys = (int32_t *)(void *)(at + bytes_lens(k, a));
    if (a->mask == NULL || k->mask != NC_BOOL) return s;
    for (int i = 0; i < 3; i++) rows *= s.dims[i] = a->mask_strides[i] != 0 ? dims[i] : 1;
    at += 2 * bytes_lens(k, a);
    s.first = (int32_t *)(void *)at;
    s.bias = at + aligned((size_t)rows * sizeof(int32_t));
    return s;
}

nc_code nck_cuda_attn_seen_fill(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_seen *s) {
    nck_cuda_attn_seen g = *s;
    void *args[] = {&g};
    if (g.n_keys != NULL)
        NC_TRY(nck_cuda_launch(at, k->seen_lens, nck_cuda_blocks(at.device, g.a.n_batch, THREADS), THREADS, args));
    if (g.bias == NULL) return NC_OK;
    int64_t rows = g.dims[0] * g.dims[1] * g.dims[2];
    return nck_cuda_launch(at, k->seen_bias, nck_cuda_blocks(at.device, rows, THREADS / 32), THREADS, args);
}

/* The last query's window ends in front of the keys' end; lengths and masks may hide all of them. */
static bool may_be_blind(const nck_cuda_attn_seen *s) {
    const nck_cuda_attn_args *a = &s->a;
    bool beyond = a->left >= 0 && a->offset + a->n_queries - 1 - a->left >= a->n_keys;
    return s->n_keys != NULL || s->first != NULL || beyond;
}

nc_code nck_cuda_attn_seen_mend(const nck_cuda_attn *k, nck_cuda_at at, const nck_cuda_attn_seen *s) {
    nck_cuda_attn_seen g = *s;
    void *args[] = {&g};
    int64_t n = g.a.n_batch * g.a.q_heads * g.a.n_queries;
    if (!may_be_blind(s)) return NC_OK;
    return nck_cuda_launch(at, k->seen_mend, nck_cuda_blocks(at.device, n, THREADS), THREADS, args);
}
