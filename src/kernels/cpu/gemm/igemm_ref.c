/* kernels/cpu/gemm/igemm_ref.c: the obvious product of 8-bit integers, the yardstick of igemm.c. */
#include "kernels/cpu/gemm/igemm.h"

#include <math.h>

static int64_t igemm_ref_at(nc_dtype t, const void *p, int64_t i) {
    if (p == NULL) return 0;
    return t == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static void igemm_ref_store(const nck_igemm_out *o, int64_t i, int64_t j, uint32_t sum) {
    int64_t at = i * o->c_rs + j * o->c_cs;
    int32_t s = (int32_t)(sum + (o->sum_bias ? (uint32_t)o->sum_bias[j] : 0));
    if (o->type == NC_INT32) {
        ((int32_t *)o->c)[at] = s;
        return;
    }
    float scale = o->a_scale[i % o->a_scales] * o->b_scale[j % o->b_scales];
    if (o->type == NC_FLOAT) {
        float y = (float)s * scale;
        if (o->bias) y += o->bias[j];
        if (o->clamps) y = y < o->low ? o->low : y > o->high ? o->high : y;
        ((float *)o->c)[at] = o->adds ? y + ((float *)o->c)[at] : y;
        return;
    }
    float q = (float)s * (scale / o->y_scale), low = o->type == NC_INT8 ? -128 : 0;
    double v = (isnan(q) ? 0 : rint((double)q)) + o->y_zero;
    v = v < (double)low ? (double)low : v > (double)low + 255 ? (double)low + 255 : v;
    ((uint8_t *)o->c)[at] = (uint8_t)(int)v;
}

void nck_igemm_ref(const nck_igemm_args *g) {
    for (int64_t i = 0; i < g->M; i++)
        for (int64_t j = 0; j < g->N; j++) {
            int64_t acc = 0, za = g->a_zero ? igemm_ref_at(g->a_type, g->a_zero, i % g->a_zeros) : 0;
            int64_t zb = g->b_zero ? igemm_ref_at(g->b_type, g->b_zero, j % g->b_zeros) : 0;
            for (int64_t k = 0; k < g->K; k++)
                acc += (igemm_ref_at(g->a_type, g->a, i * g->a_rs + k * g->a_cs) - za) *
                       (igemm_ref_at(g->b_type, g->b, k * g->b_rs + j * g->b_cs) - zb);
            igemm_ref_store(&g->out, i, j, (uint32_t)(uint64_t)acc);
        }
}
