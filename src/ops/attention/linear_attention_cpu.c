/* ops/attention/linear_attention_cpu.c: LinearAttention on the CPU, token after token, one item per batch and key
 * head. The state lives in the present output. f32, accumulated in f32 in the order of the key's columns; halves are
 * widened. */
#include "ops/attention/attention_cpu.h"

#include <math.h>
#include <string.h>

typedef struct rule {
    int64_t q_heads, kv_heads;
    double scale; /* 0: 1/sqrt(dk) */
} rule;

typedef struct linear_attention_job {
    const nc_call *c;
    int64_t Hq, Hkv, T, dk, dv;
    int64_t decay_columns, beta_columns; /* of decay and beta; 0: none */
    float scale;
} linear_attention_job;

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

nc_code nc_linear_attention_prepare(nc_prep *p) {
    rule *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = (rule){.q_heads = nc_attr_int(p->node, "q_num_heads"),
                .kv_heads = nc_attr_int(p->node, "kv_num_heads"),
                .scale = nc_attr_float(p->node, "scale")};
    p->state = r;
    return NC_OK;
}

size_t nc_linear_attention_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                     int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)(in[VALUE].dims[0] * in[VALUE].dims[2]) * sizeof(float);
}

/* Row t of batch b of a packed operand with n columns. */
static const float *row(const linear_attention_job *j, int i, int64_t b, int64_t t, int64_t n) {
    return (const float *)j->c->in[i]->data + (b * j->T + t) * n;
}

static void decay(const linear_attention_job *j, int64_t b, int64_t h, int64_t t, float *s) {
    const float *g = row(j, DECAY, b, t, j->decay_columns);
    bool per_column = j->decay_columns != j->Hkv;
    for (int64_t d = 0; d < j->dk; d++) {
        float f = expf(per_column ? g[h * j->dk + d] : g[h]);
        for (int64_t m = 0; m < j->dv; m++) s[d * j->dv + m] *= f;
    }
}

/* y (dv) = x (dk) S (dk,dv) */
static void product(const linear_attention_job *j, const float *x, const float *s, float *y) {
    memset(y, 0, (size_t)j->dv * sizeof *y);
    for (int64_t d = 0; d < j->dk; d++)
        for (int64_t m = 0; m < j->dv; m++) y[m] += x[d] * s[d * j->dv + m];
}

static void token(const linear_attention_job *j, int64_t b, int64_t h, int64_t t, float *s, float *v) {
    const float *k = row(j, KEY, b, t, j->Hkv * j->dk) + h * j->dk;
    const float *value = row(j, VALUE, b, t, j->Hkv * j->dv) + h * j->dv;
    int64_t group = j->Hq / j->Hkv;
    if (j->decay_columns > 0) decay(j, b, h, t, s);
    if (j->beta_columns > 0) {
        float beta = row(j, BETA, b, t, j->beta_columns)[j->beta_columns == 1 ? 0 : h];
        product(j, k, s, v);
        for (int64_t m = 0; m < j->dv; m++) v[m] = beta * (value[m] - v[m]);
        value = v;
    }
    for (int64_t d = 0; d < j->dk; d++)
        for (int64_t m = 0; m < j->dv; m++) s[d * j->dv + m] += k[d] * value[m];
    for (int64_t i = h * group; i < (h + 1) * group; i++) {
        float *y = (float *)j->c->out[0]->data + (b * j->T + t) * j->Hq * j->dv + i * j->dv;
        product(j, row(j, QUERY, b, t, j->Hq * j->dk) + i * j->dk, s, y);
        for (int64_t m = 0; m < j->dv; m++) y[m] *= j->scale;
    }
}

static void run_head(void *ctx, int64_t i) {
    const linear_attention_job *j = ctx;
    int64_t b = i / j->Hkv, h = i % j->Hkv, n = j->dk * j->dv;
    const nc_call *c = j->c;
    float *s = (float *)c->out[1]->data + i * n, *v = (float *)c->workspace + i * j->dv;
    if (c->n_in > PAST && c->in[PAST]->data != NULL)
        memcpy(s, (const float *)c->in[PAST]->data + i * n, (size_t)n * sizeof *s);
    else
        memset(s, 0, (size_t)n * sizeof *s);
    for (int64_t t = 0; t < j->T; t++) token(j, b, h, t, s, v);
}

static nc_code linear_attention_wrong(const nc_call *c, int i, int64_t got, int64_t want) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, expected %lld", i,
                       (long long)got, (long long)want);
}

static nc_code linear_attention_check(const nc_call *c, const linear_attention_job *j, int64_t B) {
    int64_t want[4] = {B * j->T * j->Hq * j->dk, B * j->T * j->Hkv * j->dk, B * j->T * j->Hkv * j->dv,
                       B * j->Hkv * j->dk * j->dv};
    for (int i = 0; i < c->n_in && i < 4; i++)
        if (c->in[i]->data != NULL && nc_tensor_numel(c->in[i]) != want[i])
            return linear_attention_wrong(c, i, nc_tensor_numel(c->in[i]), want[i]);
    if (j->decay_columns > 0 && ((j->decay_columns != j->Hkv && j->decay_columns != j->Hkv * j->dk) ||
                                 nc_tensor_numel(c->in[DECAY]) != B * j->T * j->decay_columns))
        return linear_attention_wrong(c, DECAY, nc_tensor_numel(c->in[DECAY]), B * j->T * j->Hkv);
    if (j->beta_columns > 0 && ((j->beta_columns != 1 && j->beta_columns != j->Hkv) ||
                                nc_tensor_numel(c->in[BETA]) != B * j->T * j->beta_columns))
        return linear_attention_wrong(c, BETA, nc_tensor_numel(c->in[BETA]), B * j->T * j->Hkv);
    return NC_OK;
}

nc_code nc_linear_attention_run(const nc_call *c) {
    const rule *r = c->state;
    const nc_tensor *q = c->in[QUERY], *v = c->in[VALUE];
    linear_attention_job j = {.c = c,
                              .Hq = r->q_heads,
                              .Hkv = r->kv_heads,
                              .T = q->dims[1],
                              .dk = q->dims[2] / r->q_heads,
                              .dv = v->dims[2] / r->kv_heads,
                              .decay_columns =
                                  c->n_in > DECAY && c->in[DECAY]->data != NULL ? c->in[DECAY]->dims[2] : 0,
                              .beta_columns = c->n_in > BETA && c->in[BETA]->data != NULL ? c->in[BETA]->dims[2] : 0};
    j.scale = (float)(r->scale != 0 ? r->scale : 1 / sqrt((double)j.dk));
    NC_TRY(linear_attention_check(c, &j, q->dims[0]));
    nc_parallel(nc_pool_for(c->pool, q->dims[0] * j.T * j.Hq * j.dk * j.dv), q->dims[0] * j.Hkv, run_head, &j);
    return NC_OK;
}
