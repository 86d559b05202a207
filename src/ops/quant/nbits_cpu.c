/* ops/quant/nbits_cpu.c: MatMulNBits on the CPU over kernels/cpu/quant/nbits.h. f32; halves are widened. Constant
 * codes, scales and zero points are packed once, all of them or none. */
#include "ops/quant/nbits.h"

#include "base/intmath.h"
#include "base/mem.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/quant/nbits.h"
#include "ops/widen.h"

#include <string.h>

enum { A = NC_NBITS_A, B, SCALES, ZEROS, GROUPS, BIAS, N_INPUTS };

bool nc_nbits_fits(const nc_node *n, const char **why) {
    *why = "A is double";
    return n->in[A]->type == NULL || n->in[A]->type->elem != NC_DOUBLE;
}

static nck_nbits sizes_of(const nc_nbits *q) {
    return (nck_nbits){
        .N = q->N, .K = q->K, .block = q->block, .bits = (int)q->bits, .rounds = q->rounds, .packed = q->packs > 0};
}

/* ---- packs ---- */

static nc_code fill_codes(const void *state, const nc_tensor *src, void *dst) {
    nck_nbits w = sizes_of(state);
    nck_nbits_pack_codes(&w, src->data, dst);
    return NC_OK;
}

/* Scales, or zero points that are numbers. */
static nc_code fill_scales(const void *state, const nc_tensor *src, void *dst) {
    nck_nbits w = sizes_of(state);
    int64_t n = nc_tensor_numel(src);
    if (src->dtype == NC_FLOAT) {
        nck_nbits_pack_scales(&w, src->data, dst);
        return NC_OK;
    }
    float *wide = nc_alloc((size_t)n * sizeof *wide + 1);
    if (wide == NULL) return NC_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src->data + i * 2, sizeof h);
        wide[i] = src->dtype == NC_FLOAT16 ? nc_f16_to_f32(h) : nc_bf16_to_f32(h);
    }
    nck_nbits_pack_scales(&w, wide, dst);
    nc_free(wide);
    return NC_OK;
}

static nc_code fill_zeros(const void *state, const nc_tensor *src, void *dst) {
    nck_nbits w = sizes_of(state);
    nck_nbits_pack_zeros(&w, src->data, dst);
    return NC_OK;
}

static const nc_value *input(const nc_node *n, int i) { return i < n->n_in ? n->in[i] : NULL; }

static bool is_const(const nc_value *v, int64_t n) {
    return v->origin == NC_FROM_CONST && v->lit != NULL && v->lit->n == n;
}

/* Are all weights constants, as many as they must be? */
static bool can_pack(const nc_prep *p, const nc_nbits *q) {
    const nc_node *n = p->node;
    const nc_value *zeros = input(n, ZEROS);
    int64_t blocks = nc_ceil_div(q->K, q->block), zero_bytes = nc_ceil_div(blocks * q->bits, 8);
    if (p->no_packs || input(n, GROUPS) != NULL) return false;
    if (!is_const(n->in[B], q->N * blocks * (q->block * q->bits / 8)) || !is_const(n->in[SCALES], q->N * blocks))
        return false;
    return zeros == NULL || is_const(zeros, q->N * (zeros->type->elem == NC_UINT8 ? zero_bytes : blocks));
}

static nc_code ask(nc_prep *p, const nc_nbits *q, int i) {
    nck_nbits w = sizes_of(q);
    const char *type = nc_dtype_name(p->node->in[i]->lit->dtype);
    bool codes = i == B, bytes = strcmp(type, nc_dtype_name(NC_UINT8)) == 0;
    nc_pack *k = &p->pack[p->n_packs++];
    *k = (nc_pack){.input = i, .fill = codes ? fill_codes : bytes ? fill_zeros : fill_scales};
    k->bytes = codes ? nck_nbits_codes_bytes(&w) : bytes ? nck_nbits_zeros_bytes(&w) : nck_nbits_scales_bytes(&w);
    k->form = nc_arena_printf(p->arena, "nbits_%d/2/%s/%s/%lld/%lld/%lld", i, nck_isa_get()->from.nbits, type,
                              (long long)q->bits, (long long)q->block, (long long)q->K);
    NC_NEED(p->w, k->form);
    return NC_OK;
}

nc_code nc_nbits_prepare(nc_prep *p) {
    nc_nbits *q = nc_arena_alloc(p->arena, sizeof *q);
    NC_NEED(p->w, q);
    *q = nc_nbits_read(p->node);
    if (can_pack(p, q)) q->packs = input(p->node, ZEROS) != NULL ? 3 : 2;
    p->state = q;
    p->unaligned_in = 1u << B;
    for (int i = 0; i < q->packs; i++) NC_TRY(ask(p, q, B + i));
    return NC_OK;
}

/* ---- the run ---- */

static size_t wide_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_nbits *q = state;
    nck_nbits w = sizes_of(q);
    (void)n_in, (void)out, (void)n_out;
    return nck_nbits_workspace(&w, nc_tensor_numel(&in[A]) / q->K);
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

/* A, y, bias and unpacked weights are f32. */
static nc_code wide_run(const nc_call *c) {
    const nc_nbits *q = c->state;
    nck_nbits w = sizes_of(q);
    const void *zeros = c->n_in > ZEROS ? c->in[ZEROS]->data : NULL;
    if (w.packed) zeros = q->packs > 2 ? c->packed[2] : NULL;
    w.codes = w.packed ? c->packed[0] : c->in[B]->data;
    w.scales = w.packed ? c->packed[1] : c->in[SCALES]->data;
    if (zeros != NULL && c->in[ZEROS]->dtype == NC_UINT8)
        w.zeros = zeros;
    else
        w.float_zeros = zeros;
    if (c->n_in > GROUPS) w.group_of_k = c->in[GROUPS]->data;
    const float *bias = c->n_in > BIAS ? c->in[BIAS]->data : NULL;
    nck_nbits_matmul(&w, nc_tensor_numel(c->in[A]) / q->K, c->in[A]->data, bias, c->out[0]->data, c->workspace,
                     c->pool);
    return NC_OK;
}

size_t nc_nbits_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, 0, wide_workspace, state, in, n_in, out, n_out);
}

/* What is packed is not widened: its tensors lose their bytes before. */
nc_code nc_nbits_run(const nc_call *c) {
    const nc_nbits *q = c->state;
    nc_tensor bare[ZEROS + 1], *in[N_INPUTS];
    nc_call packed = *c;
    NC_TRY(nc_nbits_check_counts(c, q));
    NC_TRY(check_groups(c, q));
    if (q->packs == 0) return nc_widen_run(NC_WIDEN_HALF, 0, wide_run, c);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (i < B || i > ZEROS || c->in[i]->data == NULL) continue;
        nc_tensor_copy(&bare[i], c->in[i]);
        bare[i].data = NULL;
        in[i] = &bare[i];
    }
    packed.in = in;
    return nc_widen_run(NC_WIDEN_HALF, 0, wide_run, &packed);
}
