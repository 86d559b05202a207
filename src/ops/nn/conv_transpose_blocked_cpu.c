/* ops/nn/conv_transpose_blocked_cpu.c: nacre.ConvTransposeBlocked on the CPU: the gradient of a convolution by its
 * input, with weights that are packed once. */
#include "base/intmath.h"
#include "kernels/cpu/conv/conv_back.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "kernels/cpu/isa.h"
#include "ops/nn/conv.h"
#include "ops/nn/nn_cpu.h"

typedef struct spread {
    nc_conv_transpose t;
    bool packed;
} spread;

static nck_conv_back back_of(const spread *s, const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    nck_conv_back b = {.shape = nc_conv_transposed_shape(&s->t, x, w, y), .blocked = true, .packed = s->packed};
    return b;
}

/* Sizes of images are no part of packed weights. */
static nck_conv_back weights_of(const spread *s, const nc_tensor *w) {
    nc_tensor none = {.rank = w->rank, .dims = {1, 1, 1, 1, 1}};
    return back_of(s, &none, w, &none);
}

static nc_code fill(const void *state, const nc_tensor *src, void *dst) {
    nck_conv_back b = weights_of(state, src);
    nck_conv_back_dx_pack(&b, src->data, dst);
    return NC_OK;
}

nc_code nc_conv_transpose_blocked_prepare(nc_prep *p) {
    const nc_type *x = p->node->in[0]->type;
    nc_pack pack = {.input = 1, .fill = fill};
    const nc_literal *w = nc_pack_source(p->node->in[1], &pack);
    int64_t B = 0;
    spread *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    if (!nc_dim_is_const(x->dims[x->rank - 1], &B) || B != nck_channel_block())
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "blocks of %lld channels, the kernels in use take %lld", (long long)B,
                (long long)nck_channel_block());
    *s = (spread){.packed = w != NULL && !p->no_packs};
    NC_TRY(nc_conv_read(p, &s->t));
    if (!s->packed) return NC_OK;
    const nc_conv_attrs *a = &s->t.attrs;
    nc_tensor t = nc_literal_tensor(w);
    nck_conv_back b = weights_of(s, &t);
    const nck_window *v = &b.shape.w;
    pack.bytes = nck_conv_back_dx_packed_bytes(&b);
    pack.form = nc_arena_printf(p->arena, "conv_t/1/%s/%lldx%lld/%lldx%lld/%lldx%lld", nck_isa_get()->from.conv,
                                (long long)v->stride[1], (long long)v->stride[2], (long long)v->dil[1],
                                (long long)v->dil[2], (long long)a->pads[0], (long long)a->pads[a->n_spatial - 1]);
    NC_NEED(p->w, pack.form);
    p->pack[p->n_packs++] = pack;
    return NC_OK;
}

size_t nc_conv_transpose_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                           int n_out) {
    nck_conv_back b = back_of(state, &in[0], &in[1], &out[0]);
    (void)n_in, (void)n_out;
    return nck_conv_back_dx_workspace(&b);
}

nc_code nc_conv_transpose_blocked_run(const nc_call *c) {
    const spread *s = c->state;
    nck_conv_back b = back_of(s, c->in[0], c->in[1], c->out[0]);
    int64_t blocks = nc_ceil_div(b.shape.K, nck_channel_block());
    NC_TRY(nc_conv_check_channels(c, &b.shape, c->in[0]->dims[1] == blocks ? b.shape.K : -1, b.shape.K));
    NC_TRY(nc_conv_check_bias(c, b.shape.C));
    b.bias = c->n_in > 2 ? c->in[2]->data : NULL;
    nck_conv_back_dx(&b, c->in[0]->data, s->packed ? c->packed[0] : c->in[1]->data, c->out[0]->data, c->workspace,
                     c->pool);
    return NC_OK;
}
