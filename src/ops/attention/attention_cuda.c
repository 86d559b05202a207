/* ops/attention/attention_cuda.c: CUDA bindings of the attention family: Attention and its gradient, where a kernel
 * takes them (else they run as what their cards are made of), AttentionPut, RotaryEmbedding, TensorScatter and
 * LinearAttention. */
#include "kernels/cuda/linear_attention.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/rotary.h"
#include "kernels/cuda/rows.h"

#include "ops/attention/attention_cuda.h"
#include "ops/attention/linear_attention.h"
#include "ops/attention/rotary.h"
#include "ops/card.h"

#include <string.h>

typedef struct rotary {
    nc_rotary how;
    nck_cuda_rotary kernel;
} rotary;

static nc_code rotary_prepare(nc_prep *p) {
    rotary *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->how = nc_rotary_read(p->node);
    p->state = s;
    return nck_cuda_rotary_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

static nc_code rotary_run(const nc_call *c) {
    const rotary *s = c->state;
    nc_rotary_shape j;
    NC_TRY(nc_rotary_shape_of(&s->how, c, &j));
    if (nc_tensor_numel(c->in[0]) == 0) return NC_OK;
    const void *ids = c->n_in > 3 ? c->in[3]->data : NULL;
    nck_cuda_rotary_args a = {.batches = j.B,
                              .heads = j.H,
                              .rows = j.S,
                              .columns = j.D,
                              .turned = j.R,
                              .batch_step = j.batch,
                              .head_step = j.head,
                              .row_step = j.row,
                              .interleaved = s->how.interleaved,
                              .n_positions = ids != NULL ? c->in[1]->dims[0] : j.B * j.S};
    return nck_cuda_rotary_run(&s->kernel, c, &a, c->in[0]->data, c->in[1]->data, c->in[2]->data, ids, c->out[0]->data);
}

/* ---- TensorScatter ---- */

typedef struct scattering {
    int64_t axis;
    bool circular;
    nck_cuda_move move;
    nc_function *put;
} scattering;

static bool can_scatter(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(t->elem)) != NULL;
}

static nc_code scatter_prepare(nc_prep *p) {
    scattering *s = nc_arena_alloc(p->arena, sizeof *s);
    size_t bytes = nc_dtype_bytes(p->node->in[0]->type->elem);
    NC_NEED(p->w, s);
    *s = (scattering){.axis = nc_attr_int(p->node, "axis"),
                      .circular = strcmp(nc_attr_str(p->node, "mode"), "circular") == 0};
    p->state = s;
    p->over[0] = 1;
    NC_TRY(nck_cuda_move_prepare(p->device, bytes, &s->move, &p->w->diag));
    return nck_cuda_rows_prepare(p->device, "put_rows", bytes, &s->put, &p->w->diag);
}

static nc_code scatter_check(const nc_call *c, int axis) {
    const nc_tensor *y = c->out[0], *u = c->in[1];
    bool fits = u->rank == y->rank && u->dims[axis] <= y->dims[axis];
    for (int i = 0; fits && i < y->rank; i++) fits = i == axis || u->dims[i] == y->dims[i];
    if (!fits)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "update does not fit the cache along an axis of %lld",
                           (long long)y->dims[axis]);
    if (c->n_in > 2 && c->in[2]->data != NULL && nc_tensor_numel(c->in[2]) != y->dims[0])
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "write_indices has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[2]), (long long)y->dims[0]);
    return NC_OK;
}

static nc_code scatter_run(const nc_call *c) {
    const scattering *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0], *u = c->in[1];
    int axis = (int)(s->axis < 0 ? s->axis + y->rank : s->axis);
    NC_TRY(scatter_check(c, axis));
    if (x->data != y->data)
        NC_TRY(
            nck_cuda_copy(&s->move, nck_cuda_at_call(c), y->rank, y->dims, x->data, x->strides, y->data, y->strides));
    if (nc_tensor_numel(u) == 0) return NC_OK;
    nck_cuda_put p = {.n_batch = y->dims[0],
                      .outer = 1,
                      .rows = y->dims[axis],
                      .inner = 1,
                      .n = u->dims[axis],
                      .circular = s->circular,
                      .at = c->n_in > 2 ? c->in[2]->data : NULL,
                      .u = u->data,
                      .y = y->data};
    for (int k = 1; k < y->rank; k++)
        if (k != axis) *(k < axis ? &p.outer : &p.inner) *= y->dims[k];
    return nck_cuda_put_rows_run(s->put, c, &p);
}

/* ---- LinearAttention ---- */

typedef struct linear {
    nc_linear_rule rule;
    nc_function *kernel;
} linear;

static nc_code linear_prepare(nc_prep *p) {
    linear *s = nc_arena_alloc(p->arena, sizeof *s);
    const nc_node *n = p->node;
    const nc_value *past = n->n_in > NC_LINEAR_PAST ? n->in[NC_LINEAR_PAST] : NULL;
    nc_dtype t = n->in[0]->type->elem;
    NC_NEED(p->w, s);
    *s = (linear){.rule = nc_linear_rule_read(n)};
    p->state = s;
    return nck_cuda_linear_attention_prepare(p->device, t, past != NULL ? past->type->elem : t, &s->kernel,
                                             &p->w->diag);
}

/* The state in float: (B, kv_heads, dk, dv) */
static size_t linear_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const linear *s = state;
    const nc_tensor *q = &in[NC_LINEAR_QUERY], *v = &in[NC_LINEAR_VALUE];
    (void)n_in, (void)out, (void)n_out;
    return (size_t)(v->dims[0] * v->dims[2] * (q->dims[2] / s->rule.q_heads)) * sizeof(float);
}

static nc_code linear_run(const nc_call *c) {
    const linear *s = c->state;
    nc_linear_shape n;
    NC_TRY(nc_linear_shape_of(&s->rule, c, &n));
    nck_cuda_linear_attention a = {.B = n.B,
                                   .T = n.T,
                                   .q_heads = n.Hq,
                                   .kv_heads = n.Hkv,
                                   .dk = n.dk,
                                   .dv = n.dv,
                                   .decay_columns = n.decay_columns,
                                   .beta_columns = n.beta_columns,
                                   .scale = n.scale};
    nck_cuda_linear_attention_data d = {.query = c->in[NC_LINEAR_QUERY]->data,
                                        .key = c->in[NC_LINEAR_KEY]->data,
                                        .value = c->in[NC_LINEAR_VALUE]->data,
                                        .past = nc_linear_in(c, NC_LINEAR_PAST),
                                        .decay = nc_linear_in(c, NC_LINEAR_DECAY),
                                        .beta = nc_linear_in(c, NC_LINEAR_BETA),
                                        .state = c->workspace,
                                        .present = c->n_out > 1 ? c->out[1]->data : NULL,
                                        .y = c->out[0]->data};
    return nck_cuda_linear_attention_run(s->kernel, nck_cuda_at_call(c), &a, &d);
}

#define FORWARD                                                                                 \
    .types = T_FLOAT_ALL, .fits = nc_attention_cuda_fits, .prepare = nc_attention_cuda_prepare, \
    .workspace = nc_attention_cuda_workspace, .run = nc_attention_cuda_run, .tell = nc_attention_cuda_tell
#define BACKWARD                                                                                          \
    .types = T_FLOAT_ALL, .fits = nc_attention_grad_cuda_fits, .prepare = nc_attention_grad_cuda_prepare, \
    .workspace = nc_attention_grad_cuda_workspace, .run = nc_attention_grad_cuda_run,                     \
    .tell = nc_attention_grad_cuda_tell

const nc_binding nc_attention_cuda[] = {
    {.op = "Attention", FORWARD},
    {.op = "AttentionGrad", .domain = "nacre", BACKWARD},
    {.op = "AttentionDropout", .domain = "nacre", FORWARD},
    {.op = "AttentionDropoutGrad", .domain = "nacre", BACKWARD},
    {.op = "AttentionPut",
     .domain = "nacre",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16),
     .fits = nc_attention_put_cuda_fits,
     .prepare = nc_attention_put_cuda_prepare,
     .workspace = nc_attention_put_cuda_workspace,
     .run = nc_attention_put_cuda_run,
     .tell = nc_attention_put_cuda_tell},
    {.op = "RotaryEmbedding",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16),
     .prepare = rotary_prepare,
     .run = rotary_run},
    {.op = "TensorScatter", .fits = can_scatter, .prepare = scatter_prepare, .run = scatter_run},
    {.op = "LinearAttention",
     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16),
     .prepare = linear_prepare,
     .workspace = linear_workspace,
     .run = linear_run},
    {0}};
