/* ops/nn/conv_cuda.c: Conv, ConvTranspose and their gradients on the GPU: one to three spatial dims, all floats.
 * Operands are dense. What a row is and what it checks are the CPU's (conv_cpu.c). */
#include "kernels/cuda/conv.h"

#include "ops/nn/nn_cpu.h"
#include "ops/nn/nn_cuda.h"

typedef struct conv {
    nc_conv_transpose transpose;
    nck_cuda_gemm_cache cache;
    nck_cuda_conv kernel;
} conv;

nc_code nc_conv_cuda_prepare(nc_prep *p) {
    conv *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (conv){.kernel = {.columns = NULL}};
    p->state = s;
    NC_TRY(nc_conv_read(p, &s->transpose));
    return nck_cuda_conv_prepare(p->device, p->node->in[0]->type->elem, &s->cache, &s->kernel, &p->w->diag);
}

size_t nc_conv_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const conv *s = state;
    (void)n_in, (void)n_out;
    nck_conv_shape shape = nc_conv_shape_of(&s->transpose, &in[0], &in[1], &out[0]);
    return nck_cuda_conv_workspace(&shape);
}

nc_code nc_conv_cuda_run(const nc_call *c) {
    const conv *s = c->state;
    nck_conv_shape shape = nc_conv_shape_of(&s->transpose, c->in[0], c->in[1], c->out[0]);
    NC_TRY(nc_conv_check(c, &shape, c->in[0]->dims[1]));
    return nck_cuda_conv_run(&s->kernel, nck_cuda_at_call(c), &shape, c->in[0]->data, c->in[1]->data,
                             c->n_in > 2 ? c->in[2]->data : NULL, c->out[0]->data, c->workspace);
}

size_t nc_conv_cuda_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const conv *s = state;
    (void)n_in, (void)out, (void)n_out;
    nck_conv_shape shape = nc_conv_shape_of(&s->transpose, &in[1], &in[2], &in[0]);
    return nck_cuda_conv_grad_workspace(&shape);
}

nc_code nc_conv_cuda_grad_run(const nc_call *c) {
    const conv *s = c->state;
    const nc_tensor *dy = c->in[0], *x = c->in[1], *w = c->in[2];
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_conv_shape shape = nc_conv_shape_of(&s->transpose, x, w, dy);
    NC_TRY(nc_conv_check_channels(c, &shape, x->dims[1], shape.C));
    NC_TRY(nc_conv_check_places(c, &shape.w));
    if (c->out[0]->data != NULL)
        NC_TRY(nck_cuda_conv_dx(&s->kernel, at, &shape, dy->data, w->data, NULL, c->out[0]->data, c->workspace));
    if (c->n_out > 1 && c->out[1]->data != NULL)
        NC_TRY(nck_cuda_conv_dw(&s->kernel, at, &shape, x->data, dy->data, c->out[1]->data, c->workspace));
    if (c->n_out > 2 && c->out[2]->data != NULL)
        NC_TRY(nck_cuda_conv_db(&s->kernel, at, &shape, shape.K, nck_window_n_out(&shape.w), dy->data, c->out[2]->data,
                                c->workspace));
    return NC_OK;
}

size_t nc_conv_cuda_transpose_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                        int n_out) {
    const conv *s = state;
    (void)n_in, (void)n_out;
    nck_conv_shape shape = nc_conv_transposed_shape(&s->transpose, &in[0], &in[1], &out[0]);
    return nck_cuda_conv_grad_workspace(&shape);
}

nc_code nc_conv_cuda_transpose_run(const nc_call *c) {
    const conv *s = c->state;
    nck_conv_shape shape = nc_conv_transposed_shape(&s->transpose, c->in[0], c->in[1], c->out[0]);
    NC_TRY(nc_conv_check_channels(c, &shape, c->in[0]->dims[1], shape.K));
    NC_TRY(nc_conv_check_bias(c, shape.C));
    return nck_cuda_conv_dx(&s->kernel, nck_cuda_at_call(c), &shape, c->in[0]->data, c->in[1]->data,
                            c->n_in > 2 ? c->in[2]->data : NULL, c->out[0]->data, c->workspace);
}

size_t nc_conv_cuda_transpose_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                             int n_out) {
    const conv *s = state;
    (void)n_in, (void)out, (void)n_out;
    nck_conv_shape shape = nc_conv_transposed_shape(&s->transpose, &in[1], &in[2], &in[0]);
    return nck_cuda_conv_grad_workspace(&shape);
}

nc_code nc_conv_cuda_transpose_grad_run(const nc_call *c) {
    const conv *s = c->state;
    const nc_tensor *dy = c->in[0], *x = c->in[1], *w = c->in[2];
    nck_cuda_at at = nck_cuda_at_call(c);
    nck_conv_shape shape = nc_conv_transposed_shape(&s->transpose, x, w, dy);
    NC_TRY(nc_conv_check_channels(c, &shape, x->dims[1], shape.K));
    if (c->out[0]->data != NULL)
        NC_TRY(nck_cuda_conv_run(&s->kernel, at, &shape, dy->data, w->data, NULL, c->out[0]->data, c->workspace));
    if (c->n_out > 1 && c->out[1]->data != NULL)
        NC_TRY(nck_cuda_conv_dw(&s->kernel, at, &shape, dy->data, x->data, c->out[1]->data, c->workspace));
    if (c->n_out > 2 && c->out[2]->data != NULL)
        NC_TRY(nck_cuda_conv_db(&s->kernel, at, &shape, shape.C, nck_window_n_in(&shape.w), dy->data, c->out[2]->data,
                                c->workspace));
    return NC_OK;
}
