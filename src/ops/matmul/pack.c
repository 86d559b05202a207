/* ops/matmul/pack.c: what MatMul and Gemm share on the CPU: packing of a constant B. Halves become what their
 * product's panels hold, so that no run does it again. */
#include "ops/matmul/pack.h"

#include "kernels/cpu/isa.h"

static nc_code pack_fill(const void *state, const nc_tensor *src, void *dst) {
    const nc_gemm_state *s = state;
    int k = s->trans_b != s->turned;
    nck_gemm_pack_b(src->dtype, src->dims[k], src->dims[!k], src->data, src->strides[k], src->strides[!k], dst);
    return NC_OK;
}

/* The matrix that v is the transpose of; v: it is none. */
static const nc_value *turned_back(const nc_value *v) {
    const nc_node *n = v->origin == NC_FROM_NODE ? v->def : NULL;
    int64_t perm[2];
    if (n == NULL || n->card->permutes == NULL || n->in[0] == NULL || v->type == NULL || v->type->rank != 2) return v;
    return n->card->permutes(n, 2, perm) && perm[0] == 1 ? n->in[0] : v;
}

nc_code nc_gemm_ask_pack(nc_prep *p, nc_gemm_state *s) {
    const nc_value *b = turned_back(p->node->in[1]);
    nc_pack pack = {.input = 1, .fill = pack_fill};
    const nc_literal *lit = nc_pack_source(b, &pack);
    if (p->no_packs || lit == NULL || lit->rank != 2 || lit->n == 0) return NC_OK;
    nc_dtype type = pack.by != NULL ? b->type->elem : lit->dtype;
    if (!nc_dtype_is_float(type)) return NC_OK;
    s->turned = b != p->node->in[1];
    if (s->turned && pack.of == NULL) pack.of = b;
    int k = s->trans_b != s->turned;
    pack.form =
        nc_arena_printf(p->arena, "gemm_b/1/%s/%s/%s", nck_isa_get()->from.gemm, nc_dtype_name(type), k ? "t" : "n");
    pack.bytes = nck_gemm_packed_b_bytes(type, lit->dims[k], lit->dims[!k]);
    NC_NEED(p->w, pack.form);
    p->pack[p->n_packs++] = pack;
    s->packed = true;
    return NC_OK;
}
