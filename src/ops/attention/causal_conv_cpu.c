/* ops/attention/causal_conv_cpu.c: CausalConvWithState on the CPU, one item per batch and channel. f32, summed in
 * f32 in the order of the window, the bias first; halves are widened. */
#include "ops/attention/attention_cpu.h"

#include <math.h>
#include <string.h>

typedef struct causal_conv_job {
    const nc_call *c;
    int64_t C, L, K;
    bool silu;
} causal_conv_job;

nc_code nc_causal_conv_prepare(nc_prep *p) {
    bool *silu = nc_arena_alloc(p->arena, sizeof *silu);
    NC_NEED(p->w, silu);
    *silu = strcmp(nc_attr_str(p->node, "activation"), "none") != 0;
    p->state = silu;
    return NC_OK;
}

static const float *causal_conv_given(const nc_call *c, int i) { return c->n_in > i ? c->in[i]->data : NULL; }

static void run_channel(void *ctx, int64_t i) {
    const causal_conv_job *j = ctx;
    const nc_call *c = j->c;
    int64_t L = j->L, kept = j->K - 1;
    const float *x = (const float *)c->in[0]->data + i * L, *w = (const float *)c->in[1]->data + i % j->C * j->K;
    const float *past = causal_conv_given(c, 3) != NULL ? causal_conv_given(c, 3) + i * kept : NULL;
    float *y = (float *)c->out[0]->data + i * L, *state = c->n_out > 1 ? c->out[1]->data : NULL;
    float start = causal_conv_given(c, 2) != NULL ? causal_conv_given(c, 2)[i % j->C] : 0;
    for (int64_t l = 0; l < L; l++) {
        float sum = start;
        for (int64_t k = 0; k < j->K; k++) {
            int64_t at = l + k - kept;
            float v = at >= 0 ? x[at] : past != NULL ? past[at + kept] : 0;
            sum += w[k] * v;
        }
        y[l] = j->silu ? sum / (1 + expf(-sum)) : sum;
    }
    for (int64_t k = 0; state != NULL && k < kept; k++) {
        int64_t at = L - kept + k;
        state[i * kept + k] = at >= 0 ? x[at] : past != NULL ? past[at + kept] : 0;
    }
}

nc_code nc_causal_conv_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *w = c->in[1];
    causal_conv_job j = {.c = c, .C = x->dims[1], .L = x->dims[2], .K = w->dims[2], .silu = *(const bool *)c->state};
    if (w->dims[0] != j.C || w->dims[1] != 1 || j.K < 1)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "weight is %lld x %lld x %lld, expected %lld x 1 x k",
                           (long long)w->dims[0], (long long)w->dims[1], (long long)j.K, (long long)j.C);
    if (causal_conv_given(c, 2) != NULL && nc_tensor_numel(c->in[2]) != j.C)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "bias has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[2]), (long long)j.C);
    if (causal_conv_given(c, 3) != NULL && nc_tensor_numel(c->in[3]) != x->dims[0] * j.C * (j.K - 1))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "past_state does not hold %lld positions",
                           (long long)(j.K - 1));
    nc_parallel(nc_pool_for(c->pool, nc_tensor_numel(x) * j.K), x->dims[0] * j.C, run_channel, &j);
    return NC_OK;
}
