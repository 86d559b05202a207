/* ops/norm/batch_blocked_cpu.c: BatchNormalization and its gradient on channels in blocks, on the CPU. */
#include "base/intmath.h"
#include "kernels/cpu/conv/conv_blocked.h"
#include "ops/card.h"
#include "ops/norm/norm_cpu.h"
#include "ops/norm/rows.h"

/* Results are written in a second pass, each element after it was read. */
nc_code nc_batch_blocked_prepare(nc_prep *p) {
    bool is_grad = ((const nc_batch_blocked_row *)p->own)->is_grad;
    const nc_type *x = p->node->in[0]->type;
    nc_norm_how *s = nc_arena_alloc(p->arena, sizeof *s);
    int64_t B = 0;
    NC_NEED(p->w, s);
    *s = (nc_norm_how){.epsilon = nc_attr_float(p->node, "epsilon"), .spatial = true};
    if (!is_grad) s->momentum = nc_attr_float(p->node, "momentum");
    s->trains = is_grad ? nc_attr_int(p->node, "constant") == 0 : nc_attr_int(p->node, "training") != 0;
    p->state = s;
    p->over[0] = is_grad ? 3 : 1;
    if (!nc_dim_is_const(x->dims[x->rank - 1], &B) || B != nck_channel_block())
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "blocks of %lld channels, the kernels in use take %lld", (long long)B,
                (long long)nck_channel_block());
    return NC_OK;
}

/* Of x (N, blocks, spatial..., block): all spatial places. */
static int64_t places(const nc_tensor *x) { return nc_norm_product(x, 2, x->rank - 1); }

static nc_code check_blocks(const nc_call *c, const nc_tensor *x, int64_t C) {
    int64_t B = x->dims[x->rank - 1];
    if (x->dims[1] == nc_ceil_div(C, B)) return NC_OK;
    return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "%lld blocks of %lld channels, %lld channels are expected",
                       (long long)x->dims[1], (long long)B, (long long)C);
}

static size_t stats_bytes(int64_t C) { return nc_align64((size_t)C * sizeof(float)); }

size_t nc_batch_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    int64_t C = in[1].dims[0], B = in[0].dims[in[0].rank - 1];
    (void)state, (void)n_in, (void)out, (void)n_out;
    return 2 * stats_bytes(C) + nck_norm_blocked_workspace(in[0].dims[0], C, B);
}

nc_code nc_batch_blocked_run(const nc_call *c) {
    const nc_norm_how *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = nc_tensor_numel(c->in[1]), B = x->dims[x->rank - 1];
    nck_norm_channels a = {.type = NC_FLOAT,
                           .N = x->dims[0],
                           .C = C,
                           .size = places(x),
                           .epsilon = s->epsilon,
                           .x = x->data,
                           .scale = c->in[1]->data,
                           .bias = c->in[2]->data,
                           .mean = c->in[3]->data,
                           .var = c->in[4]->data,
                           .y = c->out[0]->data};
    char *room = (char *)c->workspace + 2 * stats_bytes(C);
    NC_TRY(nc_norm_counts(c, 1, 5, C));
    NC_TRY(check_blocks(c, x, C));
    if (s->trains) {
        float *mean = c->workspace, *var = (float *)(void *)((char *)c->workspace + stats_bytes(C));
        nck_channel_stats_blocked(&a, B, mean, var, room, c->pool);
        NC_TRY(nc_batch_put_stats(c, C, mean, var));
        a.mean = mean, a.var = var;
    }
    nck_norm_by_channel_blocked(&a, B, room, c->pool);
    return NC_OK;
}

size_t nc_batch_grad_blocked_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                       int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_norm_blocked_workspace(in[1].dims[0], in[2].dims[0], in[1].dims[in[1].rank - 1]);
}

nc_code nc_batch_grad_blocked_run(const nc_call *c) {
    const nc_tensor *x = c->in[1];
    int64_t C = nc_tensor_numel(c->in[2]);
    nck_norm_channels_back a;
    NC_TRY(nc_norm_batch_back(c, C, places(x), &a));
    NC_TRY(check_blocks(c, x, C));
    nck_norm_channels_grad_blocked(&a, x->dims[x->rank - 1], c->workspace, c->pool);
    return NC_OK;
}
