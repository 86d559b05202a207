/* ops/quant/nbits_cpu.c: MatMulNBits on the CPU over kernels/cpu/quant/nbits.h. f32; halves are widened. */
#include "ops/quant/nbits.h"

#include "base/intmath.h"
#include "kernels/cpu/quant/nbits.h"

enum { A = NC_NBITS_A, B, SCALES, ZEROS, GROUPS, BIAS };

bool nc_nbits_fits(const nc_node *n, const char **why) {
    *why = "A is double";
    return n->in[A]->type == NULL || n->in[A]->type->elem != NC_DOUBLE;
}

nc_code nc_nbits_prepare(nc_prep *p) {
    nc_nbits *q = nc_arena_alloc(p->arena, sizeof *q);
    NC_NEED(p->w, q);
    *q = nc_nbits_read(p->node);
    p->state = q;
    p->unaligned_in = 1u << B;
    return NC_OK;
}

size_t nc_nbits_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_nbits *q = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_nbits_workspace(nc_tensor_numel(&in[A]) / q->K, q->N, q->K);
}

static nc_code check_groups(const nc_call *c, const nc_nbits *q) {
    int64_t blocks = nc_ceil_div(q->K, q->block);
    const int32_t *g = c->n_in > GROUPS ? c->in[GROUPS]->data : NULL;
    for (int64_t k = 0; g != NULL && k < q->K; k++)
        if (g[k] < 0 || g[k] >= blocks)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "g_idx[%lld] is %d, expected 0 to %lld",
                               (long long)k, g[k], (long long)(blocks - 1));
    return NC_OK;
}

nc_code nc_nbits_run(const nc_call *c) {
    const nc_nbits *q = c->state;
    NC_TRY(nc_nbits_check_counts(c, q));
    NC_TRY(check_groups(c, q));
    nck_nbits w = {.N = q->N,
                   .K = q->K,
                   .block = q->block,
                   .bits = (int)q->bits,
                   .rounds = q->rounds,
                   .codes = c->in[B]->data,
                   .scales = c->in[SCALES]->data};
    if (c->n_in > ZEROS && c->in[ZEROS]->dtype == NC_UINT8) w.zeros = c->in[ZEROS]->data;
    if (c->n_in > ZEROS && c->in[ZEROS]->dtype == NC_FLOAT) w.float_zeros = c->in[ZEROS]->data;
    if (c->n_in > GROUPS) w.group_of_k = c->in[GROUPS]->data;
    const float *bias = c->n_in > BIAS ? c->in[BIAS]->data : NULL;
    nck_nbits_matmul(&w, nc_tensor_numel(c->in[A]) / q->K, c->in[A]->data, bias, c->out[0]->data, c->workspace,
                     c->pool);
    return NC_OK;
}
