/* ops/training/training_cuda.c: what works over all parameters on the GPU: nacre.OptimizerStep, AccumulateMany and
 * CastMany. The other training operators with mathematics run as gradient ops of their families; those over sequences,
 * and the axes of a broadcast, on the host. */
#include "kernels/cuda/many.h"
#include "kernels/cuda/optim.h"
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/training/optim.h"

typedef struct step_state {
    nck_optim_rule rule;
    nc_optim_layout at;
    nc_function *step;
} step_state;

static nc_code step_prepare(nc_prep *p) {
    step_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (step_state){.rule = nc_optim_rule_of(p->node), .at = nc_optim_layout_of(p->node)};
    p->state = s;
    return nck_cuda_optim_prepare(p->device, &s->step, &p->w->diag);
}

static nck_optim_tensors tensors_at(const nc_call *c, int i) {
    const step_state *s = c->state;
    int n = s->at.n;
    nck_optim_tensors t = {.w = c->in[i], .g = c->in[s->at.grads + i], .new_w = c->out[i]};
    if (s->at.moments > 0) t.m = c->in[n + i], t.new_m = c->out[n + i];
    if (s->at.moments > 1) t.v = c->in[2 * n + i], t.new_v = c->out[2 * n + i];
    return t;
}

/* What is not updated in place is copied first. */
static nc_code bring(const nc_call *c, int i) {
    const nc_tensor *from = c->in[i], *to = c->out[i];
    size_t bytes = (size_t)nc_tensor_numel(from) * nc_dtype_bytes(from->dtype);
    if (from->data == to->data) return NC_OK;
    return c->device->table->copy(c->device, c->stream, to->data, false, from->data, false, bytes, c->diag);
}

static nc_code step_run(const nc_call *c) {
    const step_state *s = c->state;
    int last = s->at.rate;
    nck_cuda_optim_numbers numbers = {c->in[last], c->in[last + 1], c->in[last + 2], c->in[last + 3]};
    for (int i = 0; i < c->n_out; i++) NC_TRY(bring(c, i));
    return nck_cuda_optim_run(s->step, c, &s->rule, &numbers, s->at.n, tensors_at);
}

/* ---- many tensors in one launch ---- */

static nc_code many_prepare(nc_prep *p) {
    nc_function *f;
    NC_TRY(nck_cuda_many_prepare(p->device, &f, &p->w->diag));
    p->state = f;
    return NC_OK;
}

static nck_cuda_many sum_at(const nc_call *c, int i) {
    return (nck_cuda_many){.y = c->out[i], .x = c->in[c->n_out + i]};
}
static nc_code accumulate_run(const nc_call *c) {
    for (int i = 0; i < c->n_out; i++) NC_TRY(bring(c, i));
    return nck_cuda_many_run((nc_function *)(uintptr_t)c->state, c, c->n_out, sum_at, c->in[2 * c->n_out]->data);
}

static nck_cuda_many cast_at(const nc_call *c, int i) { return (nck_cuda_many){.y = c->out[i], .x = c->in[i]}; }
static nc_code cast_run(const nc_call *c) {
    return nck_cuda_many_run((nc_function *)(uintptr_t)c->state, c, c->n_out, cast_at, NULL);
}

const nc_binding nc_training_cuda[] = {
    {.op = "OptimizerStep", .domain = "nacre", .prepare = step_prepare, .run = step_run},
    {.op = "AccumulateMany", .domain = "nacre", .prepare = many_prepare, .run = accumulate_run},
    {.op = "CastMany", .domain = "nacre", .prepare = many_prepare, .run = cast_run},
    {0}};
