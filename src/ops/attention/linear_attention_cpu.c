/* ops/attention/linear_attention_cpu.c: LinearAttention on the CPU, token after token, one item per batch and key
 * head. The state lives in the present output. f32, accumulated in f32 in the order of the key's columns; halves are
 * widened. */
#include "ops/attention/attention_cpu.h"
#include "ops/attention/linear_attention.h"

#include <math.h>
#include <string.h>

typedef struct linear_attention_job {
    const nc_call *c;
    nc_linear_shape s;
} linear_attention_job;

nc_code nc_linear_attention_prepare(nc_prep *p) {
    nc_linear_rule *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = nc_linear_rule_read(p->node);
    p->state = r;
    return NC_OK;
}

size_t nc_linear_attention_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                     int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)(in[NC_LINEAR_VALUE].dims[0] * in[NC_LINEAR_VALUE].dims[2]) * sizeof(float);
}

/* Row t of batch b of a packed operand with n columns. */
static const float *row(const linear_attention_job *j, int i, int64_t b, int64_t t, int64_t n) {
    return (const float *)j->c->in[i]->data + (b * j->s.T + t) * n;
}

static void decay(const linear_attention_job *j, int64_t b, int64_t h, int64_t t, float *s) {
    const float *g = row(j, NC_LINEAR_DECAY, b, t, j->s.decay_columns);
    bool per_column = j->s.decay_columns != j->s.Hkv;
    for (int64_t d = 0; d < j->s.dk; d++) {
        float f = expf(per_column ? g[h * j->s.dk + d] : g[h]);
        for (int64_t m = 0; m < j->s.dv; m++) s[d * j->s.dv + m] *= f;
    }
}

/* y (dv) = x (dk) S (dk,dv) */
static void product(const linear_attention_job *j, const float *x, const float *s, float *y) {
    memset(y, 0, (size_t)j->s.dv * sizeof *y);
    for (int64_t d = 0; d < j->s.dk; d++)
        for (int64_t m = 0; m < j->s.dv; m++) y[m] += x[d] * s[d * j->s.dv + m];
}

static void token(const linear_attention_job *j, int64_t b, int64_t h, int64_t t, float *s, float *v) {
    const float *k = row(j, NC_LINEAR_KEY, b, t, j->s.Hkv * j->s.dk) + h * j->s.dk;
    const float *value = row(j, NC_LINEAR_VALUE, b, t, j->s.Hkv * j->s.dv) + h * j->s.dv;
    int64_t group = j->s.Hq / j->s.Hkv;
    if (j->s.decay_columns > 0) decay(j, b, h, t, s);
    if (j->s.beta_columns > 0) {
        float beta = row(j, NC_LINEAR_BETA, b, t, j->s.beta_columns)[j->s.beta_columns == 1 ? 0 : h];
        product(j, k, s, v);
        for (int64_t m = 0; m < j->s.dv; m++) v[m] = beta * (value[m] - v[m]);
        value = v;
    }
    for (int64_t d = 0; d < j->s.dk; d++)
        for (int64_t m = 0; m < j->s.dv; m++) s[d * j->s.dv + m] += k[d] * value[m];
    for (int64_t i = h * group; i < (h + 1) * group; i++) {
        float *y = (float *)j->c->out[0]->data + (b * j->s.T + t) * j->s.Hq * j->s.dv + i * j->s.dv;
        product(j, row(j, NC_LINEAR_QUERY, b, t, j->s.Hq * j->s.dk) + i * j->s.dk, s, y);
        for (int64_t m = 0; m < j->s.dv; m++) y[m] *= j->s.scale;
    }
}

static void run_head(void *ctx, int64_t i) {
    const linear_attention_job *j = ctx;
    int64_t b = i / j->s.Hkv, h = i % j->s.Hkv, n = j->s.dk * j->s.dv;
    const nc_call *c = j->c;
    float *s = (float *)c->out[1]->data + i * n, *v = (float *)c->workspace + i * j->s.dv;
    const float *past = nc_linear_in(c, NC_LINEAR_PAST);
    if (past != NULL)
        memcpy(s, past + i * n, (size_t)n * sizeof *s);
    else
        memset(s, 0, (size_t)n * sizeof *s);
    for (int64_t t = 0; t < j->s.T; t++) token(j, b, h, t, s, v);
}

nc_code nc_linear_attention_run(const nc_call *c) {
    linear_attention_job j = {.c = c};
    NC_TRY(nc_linear_shape_of(c->state, c, &j.s));
    nc_parallel(nc_pool_for(c->pool, j.s.B * j.s.T * j.s.Hq * j.s.dk * j.s.dv), j.s.B * j.s.Hkv, run_head, &j);
    return NC_OK;
}
