/* kernels/cpu/rnn/rnn_codes.c: see rnn_codes.h. Sums of codes are exact, so only the ranges that x is cut into show in
 * the results: they do not depend on threads. */
#include "kernels/cpu/rnn/rnn_codes.h"

#include "base/intmath.h"
#include "kernels/cpu/gemm/igemm.h"
#include "kernels/cpu/quant/linear.h"

typedef struct code_room {
    uint8_t *codes, *zero; /* (M,K), (M) */
    float *scale;          /* (M) */
    void *igemm;
} code_room;

static size_t code_room_at(char *at, int64_t M, int64_t N, int64_t K, code_room *r) {
    size_t codes = nc_align64((size_t)(M * K)), zero = nc_align64((size_t)M);
    size_t scale = nc_align64((size_t)M * sizeof(float));
    r->codes = (uint8_t *)at;
    r->zero = r->codes + codes;
    r->scale = (float *)(void *)(r->zero + zero);
    r->igemm = (char *)r->scale + scale;
    return codes + zero + scale + nc_align64(nck_igemm_workspace(M, N, K, true, false));
}

size_t nck_rnn_codes_room(int64_t M, int64_t N, int64_t K) {
    static char origin;
    code_room r;
    return code_room_at(&origin, M, N, K, &r);
}

void nck_rnn_codes_multiply(const nck_rnn_codes *w, const nck_rnn_product *p, void *room, nc_pool *pool) {
    code_room r;
    (void)code_room_at(room, p->M, p->N, p->K, &r);
    int64_t ranges = p->by_rows ? p->M : 1, each = p->by_rows ? p->K : p->M * p->K;
    for (int64_t i = 0; i < ranges; i++)
        nck_quantize_dynamic(p->x + i * each, each, r.codes + i * each, &r.scale[i], &r.zero[i], pool);
    nck_igemm(&(nck_igemm_args){.M = p->M,
                                .N = p->N,
                                .K = p->K,
                                .a_type = NC_UINT8,
                                .b_type = w->type,
                                .a = r.codes,
                                .a_rs = p->K,
                                .a_cs = 1,
                                .a_zero = r.zero,
                                .a_zeros = ranges,
                                .b_packed = w->packed,
                                .b_zero = w->zero,
                                .b_zeros = w->zeros,
                                .out = {.type = NC_FLOAT,
                                        .c = p->c,
                                        .c_rs = p->c_rs,
                                        .c_cs = 1,
                                        .a_scale = r.scale,
                                        .a_scales = ranges,
                                        .b_scale = w->scale,
                                        .b_scales = w->scales,
                                        .bias = p->bias,
                                        .adds = p->adds}},
              r.igemm, pool);
}
