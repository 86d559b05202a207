/* ops/pool/pool_cuda.c: CUDA bindings of the pool family: up to three spatial dims, floats (MaxPool also int8 and
 * uint8). Operands are dense. */
#include "kernels/cuda/pool.h"

#include "ops/card.h"
#include "ops/pool/pool_cpu.h"

typedef struct pool {
    nc_pooling of;
    nck_cuda_pool kernel;
} pool;

static nc_code pool_prepare(nc_prep *p) {
    pool *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nc_pool_kind kind = *(const nc_pool_kind *)p->own;
    p->state = s;
    NC_TRY(nc_pool_read(p, kind, &s->of));
    return nck_cuda_pool_prepare(p->device, p->node->in[0]->type->elem,
                                 kind == NC_POOL_GREATEST ? NCK_CUDA_POOL_MAX : NCK_CUDA_POOL_SUMS, &s->kernel,
                                 &p->w->diag);
}

static nck_pool_args forward_args(const nc_call *c) {
    const pool *s = c->state;
    return nc_pool_args_of(&s->of, c->in[0]->dtype, c->in[0], c->out[0], c->in[0]->data, c->out[0]->data);
}

static nc_code max_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = forward_args(c);
    return nck_cuda_pool_max(&s->kernel, nck_cuda_at_call(c), &a, c->n_out > 1 ? c->out[1]->data : NULL,
                             s->of.column_major);
}

static nc_code average_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = forward_args(c);
    return nck_cuda_pool_average(&s->kernel, nck_cuda_at_call(c), &a, s->of.by);
}

static nc_code average_grad_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = nc_pool_args_of(&s->of, c->in[0]->dtype, c->out[0], c->in[0], c->in[0]->data, c->out[0]->data);
    return nck_cuda_pool_average_grad(&s->kernel, nck_cuda_at_call(c), &a, s->of.by);
}

static nc_code lp_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = forward_args(c);
    return nck_cuda_pool_lp(&s->kernel, nck_cuda_at_call(c), &a, s->of.p);
}

#define POOL(kind) \
    .fits = nc_pool_fits, .prepare = pool_prepare, .own = &(const nc_pool_kind) { kind }
const nc_binding nc_pool_cuda[] = {
    {.op = "MaxPool",
     .types = T_FLOAT_ALL | NC_BIT(NC_INT8) | NC_BIT(NC_UINT8),
     POOL(NC_POOL_GREATEST),
     .run = max_run},
    {.op = "AveragePool", .types = T_FLOAT_ALL, POOL(NC_POOL_MEANS), .run = average_run, .half_through = true},
    {.op = "SumPool", .domain = "nacre", .types = T_FLOAT_ALL, POOL(NC_POOL_SUMS), .run = average_run},
    {.op = "LpPool", .types = T_FLOAT_ALL, POOL(NC_POOL_MEANS), .run = lp_run, .half_through = true},
    {.op = "AveragePoolGrad", .domain = "nacre", .types = T_FLOAT_ALL, POOL(NC_POOL_GRADIENT), .run = average_grad_run},
    {0}};
