/* ops/quant/nbits_cuda.c: MatMulNBits and MatMulBnb4 on CUDA over kernels/cuda/nbits.h. A in f32, f16 or bf16; the
 * accuracy level asks for nothing here, A is read as it is. */
#include "kernels/cuda/nbits.h"

#include "ops/quant/nbits.h"
#include "ops/quant/quant.h"

#include <string.h>

enum { A = NC_NBITS_A, B, SCALES, ZEROS, GROUPS, BIAS };

typedef struct nbits {
    nc_nbits q;
    const float *numbers; /* of a table; NULL: codes are numbers themselves */
    bool constant;        /* are codes, scales and zeros */
    nck_cuda_nbits kernel;
    nck_cuda_gemm_cache cache;
} nbits;

static bool is_known(const nc_node *n, const char **why) {
    *why = "A is double";
    return n->in[A]->type != NULL && n->in[A]->type->elem != NC_DOUBLE;
}

bool nc_nbits_cuda_fits(const nc_node *n, const char **why) {
    if (!is_known(n, why)) return false;
    *why = "zero points of a type that GPU kernels cannot hold";
    const nc_value *zeros = n->n_in > ZEROS ? n->in[ZEROS] : NULL;
    return zeros == NULL || (zeros->type != NULL && nck_cuda_type_name(zeros->type->elem) != NULL);
}

bool nc_bnb4_cuda_fits(const nc_node *n, const char **why) {
    if (!is_known(n, why)) return false;
    *why = "weights that are not turned";
    return nc_attr_int(n, "transB") != 0;
}

static nc_code prepare(nc_prep *p, const nc_nbits *q, const float *numbers, nc_dtype zeros) {
    nbits *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    memset(s, 0, sizeof *s);
    s->q = *q;
    s->numbers = numbers;
    s->constant = true;
    for (int i = B; i <= ZEROS && i < p->node->n_in; i++) {
        const nc_value *v = p->node->in[i];
        s->constant &= v == NULL || (v->origin == NC_FROM_CONST && v->var == NULL);
    }
    p->state = s;
    nck_cuda_nbits_how how = {
        .type = p->node->in[A]->type->elem, .zeros = zeros, .block = q->block, .table = numbers != NULL};
    NC_TRY(nck_cuda_nbits_prepare(p->device, &how, &s->cache, &s->kernel, &p->w->diag));
    s->kernel.gemm.tf32 = p->tf32;
    return NC_OK;
}

nc_code nc_nbits_cuda_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    nc_nbits q = nc_nbits_read(n);
    return prepare(p, &q, NULL, n->n_in > ZEROS && n->in[ZEROS] != NULL ? n->in[ZEROS]->type->elem : NC_UNDEFINED);
}

nc_code nc_bnb4_cuda_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    nc_nbits q = {.K = nc_attr_int(n, "K"), .N = nc_attr_int(n, "N"), .block = nc_attr_int(n, "block_size"), .bits = 4};
    return prepare(p, &q, nc_bnb4_numbers(n), NC_UNDEFINED);
}

size_t nc_nbits_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nbits *s = state;
    (void)n_in, (void)out, (void)n_out;
    return nck_cuda_nbits_workspace(in[A].dtype, nc_tensor_numel(&in[A]) / s->q.K, s->q.N, s->q.K);
}

static const void *data_of(const nc_call *c, int i) { return c->n_in > i ? c->in[i]->data : NULL; }

static nc_code run(const nc_call *c, const void *zeros, const void *groups, const void *bias) {
    const nbits *s = c->state;
    nck_cuda_nbits_args a = {.M = nc_tensor_numel(c->in[A]) / s->q.K,
                             .N = s->q.N,
                             .K = s->q.K,
                             .block = s->q.block,
                             .bits = s->q.bits,
                             .codes = c->in[B]->data,
                             .scales = c->in[SCALES]->data,
                             .zeros = zeros,
                             .group_of = groups,
                             .bias = bias,
                             .a = c->in[A]->data,
                             .y = c->out[0]->data,
                             .constant = s->constant};
    if (s->numbers != NULL) memcpy(a.numbers, s->numbers, sizeof a.numbers);
    return nck_cuda_nbits_run(&s->kernel, c, &a);
}

nc_code nc_nbits_cuda_run(const nc_call *c) {
    const nbits *s = c->state;
    NC_TRY(nc_nbits_check_counts(c, &s->q));
    return run(c, data_of(c, ZEROS), data_of(c, GROUPS), data_of(c, BIAS));
}

nc_code nc_bnb4_cuda_run(const nc_call *c) {
    const nbits *s = c->state;
    NC_TRY(nc_bnb4_check_counts(c, s->q.K, s->q.N, s->q.block));
    return run(c, NULL, NULL, NULL);
}
