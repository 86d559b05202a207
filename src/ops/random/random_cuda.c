/* ops/random/random_cuda.c: CUDA bindings of the random family and of Dropout's gradient over kernels/cuda/random.h.
 * Ratio and training mode are host arguments; seed and step are read by the kernel, so a captured graph draws anew at
 * every replay. */
#include "kernels/cuda/random.h"

#include "ops/card.h"
#include "ops/random/random.h"

typedef struct draw {
    nck_cuda_draw from;
    nck_cuda_random kernel;
} draw;

static nc_code random_prepare(nc_prep *p) {
    draw *d = nc_arena_alloc(p->arena, sizeof *d);
    NC_NEED(p->w, d);
    const nc_attr *seed = nc_node_attr(p->node, "seed");
    *d = (draw){.from = {.node_id = (uint32_t)p->node->random_id, .fixed_seed = seed != NULL}};
    if (seed != NULL) d->from.seed = seed->i;
    nc_dtype t = p->node->in[0]->type->elem;
    NC_TRY(nck_cuda_random_prepare(p->device, nc_dtype_is_float(t) ? t : NC_FLOAT, &d->kernel, &p->w->diag));
    p->state = d;
    return NC_OK;
}

static nc_code philox_dropout_run(const nc_call *c) {
    const draw *d = c->state;
    nck_cuda_draw from = d->from;
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 1, 2, &ratio));
    from.state = c->in[3]->data;
    return nck_cuda_dropout(&d->kernel, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), &from, ratio, c->in[0]->data,
                            c->out[0]->data, c->n_out > 1 ? c->out[1]->data : NULL);
}

static nc_code dropout_grad_run(const nc_call *c) {
    const draw *d = c->state;
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 2, 3, &ratio));
    return nck_cuda_dropout_grad(&d->kernel, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), ratio, c->in[0]->data,
                                 c->in[1]->data, c->out[0]->data);
}

static nc_code random_step_run(const nc_call *c) {
    const draw *d = c->state;
    return nck_cuda_random_step(&d->kernel, nck_cuda_at_call(c), c->in[0]->data, c->out[0]->data);
}

const nc_binding nc_random_cuda[] = {
    {.op = "PhiloxDropout",
     .domain = "nacre",
     .types = T_FLOAT_ALL,
     .prepare = random_prepare,
     .run = philox_dropout_run},
    {.op = "DropoutGrad", .domain = "nacre", .types = T_FLOAT_ALL, .prepare = random_prepare, .run = dropout_grad_run},
    {.op = "RandomStep", .domain = "nacre", .prepare = random_prepare, .run = random_step_run},
    {0}};
