/* ops/matmul/gemm_cpu.c: Gemm on the CPU: one matrix product over any strides. C is added as a bias of the product
 * when beta is 1; else it is spread over Y first and scaled there. A and B in half precision are the product's, which
 * gives f32. */
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/move/move.h"
#include "ops/matmul/matmul_cpu.h"
#include "ops/matmul/pack.h"
#include "ops/widen.h"

nc_code nc_gemm_prepare(nc_prep *p) {
    nc_gemm_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->trans_a = nc_attr_int(p->node, "transA") != 0;
    s->trans_b = nc_attr_int(p->node, "transB") != 0;
    s->alpha = nc_attr_float(p->node, "alpha");
    s->beta = nc_attr_float(p->node, "beta");
    p->state = s;
    p->strided_in = 7;
    NC_TRY(nc_product_body_read(p, 3, &s->body));
    return nc_gemm_ask_pack(p, s);
}

static bool gemm_describe(const nc_gemm_state *s, const nc_tensor *a, const nc_tensor *b, nck_gemm_args *g) {
    int ta = s->trans_a, tb = s->trans_b;
    *g = (nck_gemm_args){.M = a->dims[ta],
                         .K = a->dims[!ta],
                         .N = b->dims[!tb],
                         .alpha = s->alpha,
                         .a = a->data,
                         .a_rs = a->strides[ta],
                         .a_cs = a->strides[!ta],
                         .b = b->data,
                         .b_rs = b->strides[tb],
                         .b_cs = b->strides[!tb]};
    return g->K == b->dims[tb];
}

size_t nc_gemm_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_gemm_state *s = state;
    nck_gemm_args g;
    (void)n_in;
    (void)n_out;
    if (!nc_dtype_is_float(out->dtype) || !gemm_describe(s, &in[0], &in[1], &g)) return 0;
    return nck_gemm_workspace(in->dtype, g.M, g.N, g.K, s->packed);
}

static bool broadcasts(const nc_tensor *t, const nc_tensor *y) {
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1 && t->dims[i] != y->dims[2 - t->rank + i]) return false;
    return t->rank <= 2;
}

nc_code nc_gemm_run(const nc_call *c) {
    const nc_gemm_state *s = c->state;
    const nc_tensor *y = c->out[0], *bias = c->n_in > 2 && c->in[2]->data != NULL && s->beta != 0 ? c->in[2] : NULL;
    nck_gemm_args g;
    int64_t strides[NC_MAX_RANK];
    if (!gemm_describe(s, c->in[0], c->in[1], &g))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A' has %lld columns, B' has another number of rows",
                           (long long)g.K);
    if (bias != NULL && !broadcasts(bias, y))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "C does not broadcast to %lld by %lld", (long long)g.M,
                           (long long)g.N);
    if (g.M == 0 || g.N == 0) return NC_OK;
    g.type = c->in[0]->dtype;
    g.c = y->data;
    g.c_rs = g.N;
    g.c_cs = 1;
    g.b_packed = s->packed ? c->packed[0] : NULL;
    if (bias != NULL) {
        nc_broadcast_strides(bias, 2, y->dims, strides);
        if (nc_dtype_is_float(y->dtype) && s->beta == 1) {
            g.bias = bias->data;
            g.bias_rs = strides[0];
            g.bias_cs = strides[1];
        } else {
            nck_copy(2, y->dims, nc_dtype_bytes(y->dtype), bias->data, strides, y->data, y->strides, c->pool);
            g.beta = s->beta;
        }
    }
    nck_gemm_after after;
    nc_product_after(s->body, c, &g, &after);
    nck_gemm_any(&g, c->workspace, c->pool);
    return NC_OK;
}

size_t nc_gemm_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, NC_GEMM_LEFT, nc_gemm_workspace, state, in, n_in, out, n_out);
}

nc_code nc_gemm_half_run(const nc_call *c) { return nc_widen_run(NC_WIDEN_HALF, NC_GEMM_LEFT, nc_gemm_run, c); }

/* ---- GemmOnto ---- */

nc_code nc_gemm_onto_prepare(nc_prep *p) {
    nc_gemm_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (nc_gemm_state){.alpha = 1};
    s->trans_a = nc_attr_int(p->node, "transA") != 0;
    s->trans_b = nc_attr_int(p->node, "transB") != 0;
    p->state = s;
    p->strided_in = 3;
    p->over[0] = 1u << 2;
    return NC_OK;
}

nc_code nc_gemm_onto_run(const nc_call *c) {
    nck_gemm_args g;
    if (!gemm_describe(c->state, c->in[0], c->in[1], &g))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "A' has %lld columns, B' has another number of rows",
                           (long long)g.K);
    NC_TRY(nc_call_expect(c, 2, (const int64_t[]){g.M, g.N}, 2));
    g.type = c->out[0]->dtype;
    g.beta = nc_call_adds(c, 2, 3);
    g.c = c->out[0]->data;
    g.c_rs = g.N;
    g.c_cs = 1;
    nck_gemm(&g, c->workspace, c->pool);
    return NC_OK;
}
