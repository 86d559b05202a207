/* ops/matmul/pack.c: what MatMul and Gemm share on the CPU: packing of a constant B, and the product of integers. */
#include "ops/matmul/pack.h"

#include "kernels/cpu/isa.h"

static nc_code fill(const void *state, const nc_tensor *src, void *dst) {
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
    const char *form = nc_arena_printf(p->arena, "gemm_b/1/%s/%s/%s", nck_isa_get()->name, nc_dtype_name(lit->dtype),
                                       s->trans_b ? "t" : "n");
    NC_NEED(p->w, form);
    int k = s->trans_b;
    p->pack[p->n_packs++] = (nc_pack){.input = 1,
                                      .form = form,
                                      .fill = fill,
                                      .bytes = nck_gemm_packed_b_bytes(lit->dtype, lit->dims[k], lit->dims[!k])};
    s->packed = true;
    return NC_OK;
}

#define DEFINE(T)                                                                                    \
    static void row_##T(void *ctx, int64_t i) {                                                      \
        const nck_gemm_args *g = ctx;                                                                \
        const T *a = (const T *)g->a + i * g->a_rs, *b = g->b;                                       \
        T *c = (T *)g->c + i * g->c_rs;                                                              \
        for (int64_t j = 0; j < g->N; j++) {                                                         \
            T sum = 0;                                                                               \
            for (int64_t k = 0; k < g->K; k++) sum += a[k * g->a_cs] * b[k * g->b_rs + j * g->b_cs]; \
            T *at = &c[j * g->c_cs], beta = (T)(int64_t)g->beta;                                     \
            *at = (T)(int64_t)g->alpha * sum + (beta != 0 ? beta * *at : 0);                         \
        }                                                                                            \
    }
DEFINE(uint32_t)
DEFINE(uint64_t)

void nc_gemm_any(const nck_gemm_args *g, void *workspace, nc_pool *pool) {
    nck_gemm_args copy = *g;
    if (nc_dtype_is_float(g->type))
        nck_gemm(g, workspace, pool);
    else
        nc_parallel(pool, g->M, nc_dtype_bytes(g->type) == 4 ? row_uint32_t : row_uint64_t, &copy);
}
