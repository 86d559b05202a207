/* ops/attention/linear_attention_call.c: attributes and sizes of LinearAttention for the kernels of all devices, see
 * linear_attention.h. */
#include "ops/attention/linear_attention.h"

#include "ops/card.h"

#include <math.h>

nc_linear_rule nc_linear_rule_read(const nc_node *n) {
    return (nc_linear_rule){.q_heads = nc_attr_int(n, "q_num_heads"),
                            .kv_heads = nc_attr_int(n, "kv_num_heads"),
                            .scale = nc_attr_float(n, "scale")};
}

const void *nc_linear_in(const nc_call *c, int i) { return i < c->n_in ? c->in[i]->data : NULL; }

static nc_code wrong(const nc_call *c, int i, int64_t want) {
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "input %d has %lld elements, expected %lld", i,
                       (long long)nc_tensor_numel(c->in[i]), (long long)want);
}

static nc_code check(const nc_call *c, const nc_linear_shape *s) {
    int64_t rows = s->B * s->T, want[4] = {rows * s->Hq * s->dk, rows * s->Hkv * s->dk, rows * s->Hkv * s->dv,
                                           s->B * s->Hkv * s->dk * s->dv};
    for (int i = 0; i < c->n_in && i < 4; i++)
        if (c->in[i]->data != NULL && nc_tensor_numel(c->in[i]) != want[i]) return wrong(c, i, want[i]);
    if (s->decay_columns > 0 && ((s->decay_columns != s->Hkv && s->decay_columns != s->Hkv * s->dk) ||
                                 nc_tensor_numel(c->in[NC_LINEAR_DECAY]) != rows * s->decay_columns))
        return wrong(c, NC_LINEAR_DECAY, rows * s->Hkv);
    if (s->beta_columns > 0 && ((s->beta_columns != 1 && s->beta_columns != s->Hkv) ||
                                nc_tensor_numel(c->in[NC_LINEAR_BETA]) != rows * s->beta_columns))
        return wrong(c, NC_LINEAR_BETA, rows * s->Hkv);
    return NC_OK;
}

nc_code nc_linear_shape_of(const nc_linear_rule *r, const nc_call *c, nc_linear_shape *out) {
    const nc_tensor *q = c->in[NC_LINEAR_QUERY], *v = c->in[NC_LINEAR_VALUE];
    nc_linear_shape s = {.B = q->dims[0],
                         .T = q->dims[1],
                         .Hq = r->q_heads,
                         .Hkv = r->kv_heads,
                         .dk = q->dims[2] / r->q_heads,
                         .dv = v->dims[2] / r->kv_heads,
                         .decay_columns =
                             nc_linear_in(c, NC_LINEAR_DECAY) != NULL ? c->in[NC_LINEAR_DECAY]->dims[2] : 0,
                         .beta_columns = nc_linear_in(c, NC_LINEAR_BETA) != NULL ? c->in[NC_LINEAR_BETA]->dims[2] : 0};
    s.scale = (float)(r->scale != 0 ? r->scale : 1 / sqrt((double)s.dk));
    NC_TRY(check(c, &s));
    *out = s;
    return NC_OK;
}
