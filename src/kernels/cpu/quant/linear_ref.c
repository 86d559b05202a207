/* kernels/cpu/quant/linear_ref.c: quantize and dequantize element by element, the yardstick of linear.c. Serial. */
#include "kernels/cpu/quant/linear_kernel.h"

#include <math.h>

static double read_one(nc_dtype t, const void *p, int64_t i) {
    if (nc_dtype_is_narrow(t)) return (double)nc_narrow_to_f32(t, nc_narrow_load(t, p, i));
    switch (t) {
    case NC_FLOAT: return (double)((const float *)p)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)p)[i]);
    case NC_BFLOAT16: return (double)nc_bf16_to_f32(((const uint16_t *)p)[i]);
    case NC_INT32: return ((const int32_t *)p)[i];
    case NC_INT16: return ((const int16_t *)p)[i];
    case NC_UINT16: return ((const uint16_t *)p)[i];
    case NC_INT8: return ((const int8_t *)p)[i];
    default: return ((const uint8_t *)p)[i];
    }
}

static void write_one(nc_dtype t, void *p, int64_t i, double v, nc_narrowing how) {
    if (nc_dtype_is_narrow(t)) {
        nc_narrow_store(t, p, i, nc_f64_to_narrow(t, v, how));
        return;
    }
    switch (t) {
    case NC_FLOAT: ((float *)p)[i] = (float)v; return;
    case NC_FLOAT16: ((uint16_t *)p)[i] = nc_f64_to_f16(v); return;
    case NC_BFLOAT16: ((uint16_t *)p)[i] = nc_f32_to_bf16((float)v); return;
    case NC_INT16: ((int16_t *)p)[i] = (int16_t)v; return;
    case NC_UINT16: ((uint16_t *)p)[i] = (uint16_t)v; return;
    case NC_INT8: ((int8_t *)p)[i] = (int8_t)v; return;
    default: ((uint8_t *)p)[i] = (uint8_t)v; return;
    }
}

static double quotient(nc_dtype precision, double x, double scale) {
    if (precision == NC_DOUBLE) return x / scale;
    float q = (float)x / (float)scale;
    if (precision == NC_FLOAT16) return (double)nc_f16_to_f32(nc_f32_to_f16(q));
    return precision == NC_BFLOAT16 ? (double)nc_bf16_to_f32(nc_f32_to_bf16(q)) : (double)q;
}

void nck_quantize_ref(const nck_linear *a) {
    char c = nc_dtype_class(a->y_type);
    double n = ldexp(1, (int)nc_dtype_bits(a->y_type)), low = c == 'I' ? -n / 2 : 0, high = low + n - 1;
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t x = 0; x < a->axis; x++)
            for (int64_t i = 0; i < a->inner; i++) {
                int64_t at = (o * a->axis + x) * a->inner + i;
                int64_t s = o * a->s_outer + x / a->block * a->s_axis + i * a->s_inner;
                double q = quotient(a->precision, read_one(a->x_type, a->x, at), a->scale[s]);
                if (c != 'N') {
                    q = isnan(q) ? a->zero[s] : nearbyint(q) + a->zero[s];
                    q = fmin(fmax(q, low), high);
                } else {
                    q += a->zero[s];
                }
                write_one(a->y_type, a->y, at, q, a->how);
            }
}

void nck_dequantize_ref(const nck_linear *a) {
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t x = 0; x < a->axis; x++)
            for (int64_t i = 0; i < a->inner; i++) {
                int64_t at = (o * a->axis + x) * a->inner + i;
                int64_t s = o * a->s_outer + x / a->block * a->s_axis + i * a->s_inner;
                float d = (float)(read_one(a->x_type, a->x, at) - a->zero[s]) * (float)a->scale[s];
                write_one(a->y_type, a->y, at, (double)d, a->how);
            }
}

#define SMALL 60.f /* scales beside the sum's: 2 * 255 * 60 is less than 2^15 */

bool nck_linear_sum_of(nc_dtype type, nck_codes pa, nck_codes pb, nck_codes py, nck_linear_sum *s) {
    *s = (nck_linear_sum){.a = pa.scale / py.scale, .b = pb.scale / py.scale, .zero = py.zero};
    s->rest = -((float)pa.zero * s->a) - (float)pb.zero * s->b;
    s->low = type == NC_INT8 ? INT8_MIN : 0;
    return fabsf(s->a) + fabsf(s->b) < SMALL; /* false for NaN */
}

static int ref_code(nc_dtype type, const void *p, int64_t i) {
    return type == NC_INT8 ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

void nck_add_codes_ref(nc_dtype type, int64_t n, const void *a, nck_codes pa, const void *b, nck_codes pb, void *y,
                       nck_codes py) {
    nck_linear_sum s;
    bool small = nck_linear_sum_of(type, pa, pb, py, &s);
    for (int64_t i = 0; i < n; i++) {
        int ca = ref_code(type, a, i), cb = ref_code(type, b, i);
        float q = small ? fmaf((float)ca, s.a, fmaf((float)cb, s.b, s.rest))
                        : (float)(ca - pa.zero) * s.a + (float)(cb - pb.zero) * s.b;
        double v = (isnan(q) ? 0 : rint((double)q)) + s.zero;
        ((uint8_t *)y)[i] = (uint8_t)(int)(v < s.low ? s.low : v > s.low + 255 ? s.low + 255 : v);
    }
}
