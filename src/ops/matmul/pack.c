/* ops/matmul/pack.c: what MatMul and Gemm share on the CPU: packing of a constant B. */
#include "ops/matmul/pack.h"

#include "kernels/cpu/isa.h"

static nc_code pack_fill(const void *state, const nc_tensor *src, void *dst) {
    const nc_gemm_state *s = state;
    int k = s->trans_b;
    nck_gemm_pack_b(src->dtype, src->dims[k], src->dims[!k], src->data, src->strides[k], src->strides[!k], dst);
    return NC_OK;
}

nc_code nc_gemm_ask_pack(nc_prep *p, nc_gemm_state *s) {
    const nc_value *b = p->node->in[1];
    const nc_literal *lit = b->origin == NC_FROM_CONST ? b->lit : NULL;
    if (p->no_packs || lit == NULL || lit->rank != 2 || lit->n == 0) return NC_OK;
    if (lit->dtype != NC_FLOAT && lit->dtype != NC_DOUBLE) return NC_OK;
    const char *form = nc_arena_printf(p->arena, "gemm_b/1/%s/%s/%s", nck_isa_get()->from.gemm,
                                       nc_dtype_name(lit->dtype), s->trans_b ? "t" : "n");
    NC_NEED(p->w, form);
    int k = s->trans_b;
    p->pack[p->n_packs++] = (nc_pack){.input = 1,
                                      .form = form,
                                      .fill = pack_fill,
                                      .bytes = nck_gemm_packed_b_bytes(lit->dtype, lit->dims[k], lit->dims[!k])};
    s->packed = true;
    return NC_OK;
}
