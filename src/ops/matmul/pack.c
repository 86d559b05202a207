/* ops/matmul/pack.c: what MatMul and Gemm share on the CPU: packing of a constant B. Halves are widened on the way, so
 * that no run does it again. */
#include "ops/matmul/pack.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/move/move.h"

#include <string.h>

enum { PIECE = 96 }; /* columns that are widened together: whole panels on every ISA */

static nc_dtype packed_type(nc_dtype t) { return t == NC_FLOAT16 || t == NC_BFLOAT16 ? NC_FLOAT : t; }

/* Columns [j, j + n) of the (K,N) halves of src, which may be unaligned, as dense numbers. */
static nc_code widen_piece(const nc_tensor *src, int k, int64_t j, int64_t n, uint16_t *halves, float *numbers) {
    int64_t K = src->dims[k], rs = src->strides[k] * 2, cs = src->strides[!k] * 2;
    const char *from = (const char *)src->data + j * cs;
    for (int64_t i = 0; i < K * n; i++) memcpy(&halves[i], from + i / n * rs + i % n * cs, sizeof *halves);
    nc_tensor narrow = {.data = halves, .dtype = src->dtype, .rank = 1, .dims = {K * n}, .strides = {1}};
    nc_tensor wide = {.data = numbers, .dtype = NC_FLOAT, .rank = 1, .dims = {K * n}, .strides = {1}};
    return nck_convert(&narrow, &wide, NULL);
}

/* Panels lie one after the other, each with all of K: pieces of whole panels are packed on their own. */
static nc_code fill_widened(const nc_tensor *src, int k, char *dst) {
    int64_t K = src->dims[k], N = src->dims[!k], most = K * nc_min64(N, PIECE);
    float *numbers = nc_alloc((size_t)most * (sizeof(float) + sizeof(uint16_t)));
    nc_code code = numbers != NULL ? NC_OK : NC_E_MEMORY;
    for (int64_t j = 0; j < N && code == NC_OK; j += PIECE) {
        int64_t n = nc_min64(PIECE, N - j);
        code = widen_piece(src, k, j, n, (uint16_t *)(numbers + most), numbers);
        nck_gemm_pack_b(NC_FLOAT, K, n, numbers, n, 1, dst + j * K * (int64_t)sizeof(float));
    }
    nc_free(numbers);
    return code;
}

static nc_code pack_fill(const void *state, const nc_tensor *src, void *dst) {
    const nc_gemm_state *s = state;
    int k = s->trans_b != s->turned;
    if (packed_type(src->dtype) != src->dtype) return fill_widened(src, k, dst);
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
    nc_dtype numbers = pack.by != NULL ? b->type->elem : lit->dtype, type = packed_type(numbers);
    if (type != NC_FLOAT && type != NC_DOUBLE) return NC_OK;
    s->turned = b != p->node->in[1];
    if (s->turned && pack.of == NULL) pack.of = b;
    int k = s->trans_b != s->turned;
    pack.form = nc_arena_printf(p->arena, "gemm_b/1/%s/%s/%s", nck_isa_get()->from.gemm, nc_dtype_name(numbers),
                                k ? "t" : "n");
    pack.bytes = nck_gemm_packed_b_bytes(type, lit->dims[k], lit->dims[!k]);
    NC_NEED(p->w, pack.form);
    p->pack[p->n_packs++] = pack;
    s->packed = true;
    return NC_OK;
}
