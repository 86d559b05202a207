/* kernels/cpu/quant/qgemm_ref.c: the obvious integer matrix product, the yardstick of qgemm.c. */
#include "kernels/cpu/quant/qgemm.h"

static int64_t qgemm_ref_at(nc_dtype t, const void *p, int64_t i) {
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

void nck_qgemm_ref(const nck_qgemm_args *g) {
    for (int64_t i = 0; i < g->M; i++)
        for (int64_t j = 0; j < g->N; j++) {
            int64_t acc = 0;
            int64_t za = g->a_zero ? qgemm_ref_at(g->a_type, g->a_zero, i % g->a_zeros) : 0;
            int64_t zb = g->b_zero ? qgemm_ref_at(g->b_type, g->b_zero, j % g->b_zeros) : 0;
            for (int64_t k = 0; k < g->K; k++)
                acc += (qgemm_ref_at(g->a_type, g->a, i * g->a_rs + k * g->a_cs) - za) *
                       (qgemm_ref_at(g->b_type, g->b, k * g->b_rs + j * g->b_cs) - zb);
            g->c[i * g->c_rs + j] = (int32_t)(uint32_t)(uint64_t)acc;
        }
}
