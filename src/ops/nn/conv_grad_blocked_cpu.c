/* ops/nn/conv_grad_blocked_cpu.c: nacre.ConvGradBlocked on the CPU. */
#include "base/intmath.h"
#include "kernels/cpu/conv/conv_back.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"

nc_code nc_conv_grad_blocked_prepare(nc_prep *p) {
    const nc_type *x = p->node->in[1]->type;
    int64_t B = 0;
    if (!nc_dim_is_const(x->dims[x->rank - 1], &B) || B != nck_channel_block())
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "blocks of %lld channels, the kernels in use take %lld", (long long)B,
                (long long)nck_channel_block());
    return nc_conv_prepare(p);
}

static nck_conv_back back_of(const nc_conv_transpose *t, const nc_tensor *dy, const nc_tensor *x, const nc_tensor *w) {
    return (nck_conv_back){.shape = nc_conv_shape_of(t, x, w, dy), .blocked = true, .winograd = !t->no_winograd};
}

size_t nc_conv_grad_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                      int n_out) {
    nck_conv_back b = back_of(state, &in[0], &in[1], &in[2]);
    (void)n_in, (void)out, (void)n_out;
    return nc_max_size(nck_conv_back_dx_workspace(&b), nck_conv_back_dw_workspace(&b));
}

nc_code nc_conv_grad_blocked_run(const nc_call *c) {
    const nc_tensor *dy = c->in[0], *x = c->in[1], *w = c->in[2];
    nck_conv_back b = back_of(c->state, dy, x, w);
    int64_t B = nck_channel_block(), C = b.shape.C;
    NC_TRY(nc_conv_check_channels(c, &b.shape, x->dims[1] == nc_ceil_div(C, B) ? C : -1, C));
    NC_TRY(nc_conv_check_places(c, &b.shape.w));
    nck_conv_back_dx(&b, dy->data, w->data, c->out[0]->data, c->workspace, c->pool);
    if (c->n_out > 1 && c->out[1]->data != NULL)
        nck_conv_back_dw(&b, x->data, dy->data, c->out[1]->data, c->workspace, c->pool);
    if (c->n_out > 2 && c->out[2]->data != NULL) nck_conv_back_db_blocked(&b.shape, dy->data, c->out[2]->data, c->pool);
    return NC_OK;
}
