/* kernels/cpu/gemm/gemm_ref.c: the obvious matrix product, the yardstick of gemm.c.
 * Accumulates in double for all types; beta == 0 does not read C. Serial, needs aligned elements. */
#include "kernels/cpu/gemm/gemm.h"

#include "base/real.h"

void nck_gemm_ref(const nck_gemm_args *g) {
    nc_dtype sums = g->type == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT;
    for (int64_t i = 0; i < g->M; i++) {
        for (int64_t j = 0; j < g->N; j++) {
            double acc = 0;
            for (int64_t k = 0; k < g->K; k++)
                acc += nc_real_get_any(g->type, g->a, i * g->a_rs + k * g->a_cs) *
                       nc_real_get_any(g->type, g->b, k * g->b_rs + j * g->b_cs);
            int64_t at = i * g->c_rs + j * g->c_cs;
            double v = g->K > 0 ? g->alpha * acc : 0;
            if (g->beta != 0) v += g->beta * nc_real_get(sums, g->c, at);
            if (g->bias) v += nc_real_get(sums, g->bias, i * g->bias_rs + j * g->bias_cs);
            if (sums == NC_FLOAT)
                ((float *)g->c)[at] = (float)v;
            else
                ((double *)g->c)[at] = v;
        }
    }
}
