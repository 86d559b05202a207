/* ops/quant/quant_cuda.c: CUDA bindings of the quant family: products with weights of few bits, and zero points that
 * must be 0. The others run as what their cards are made of. */
#include "ops/quant/quant.h"

#include "kernels/cuda/move.h"
#include "ops/contrib.h"
#include "ops/quant/nbits.h"

static nc_code at_zero_prepare(nc_prep *p) {
    nc_function **f = nc_arena_alloc(p->arena, sizeof *f);
    NC_NEED(p->w, f);
    p->state = f;
    return nck_cuda_at_zero_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), f, &p->w->diag);
}

static nc_code at_zero_run(const nc_call *c) {
    nc_function *const *f = c->state;
    NC_TRY(nc_at_zero_check(c));
    return nck_cuda_at_zero_run(*f, c, c->in[0], c->in[1], c->out[0]->data);
}

const nc_binding nc_quant_cuda[] = {{.op = "MatMulNBits",
                                     .domain = NC_MICROSOFT,
                                     .fits = nc_nbits_cuda_fits,
                                     .prepare = nc_nbits_cuda_prepare,
                                     .workspace = nc_nbits_cuda_workspace,
                                     .run = nc_nbits_cuda_run},
                                    {.op = "MatMulBnb4",
                                     .domain = NC_MICROSOFT,
                                     .fits = nc_bnb4_cuda_fits,
                                     .prepare = nc_bnb4_cuda_prepare,
                                     .workspace = nc_nbits_cuda_workspace,
                                     .run = nc_bnb4_cuda_run},
                                    {.op = "AtZero", .domain = "nacre", .prepare = at_zero_prepare, .run = at_zero_run},
                                    {0}};
