/* base/real.h: single elements of the float types as double, for references, scalars and kernels where a test of the
 * type costs nothing beside the rest. nc_real_get and nc_real_put know float and double, which is what kernels take;
 * nc_real_get_any also knows the halves. Whole tensors go through nck_convert. */
#ifndef NC_REAL_H
#define NC_REAL_H

#include "base/shape.h"

static inline double nc_real_get(nc_dtype type, const void *p, int64_t i) {
    return type == NC_FLOAT ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static inline void nc_real_put(nc_dtype type, void *p, int64_t i, double v) {
    if (type == NC_FLOAT)
        ((float *)p)[i] = (float)v;
    else
        ((double *)p)[i] = v;
}

static inline double nc_real_get_any(nc_dtype type, const void *p, int64_t i) {
    if (type == NC_FLOAT16) return (double)nc_f16_to_f32(((const uint16_t *)p)[i]);
    if (type == NC_BFLOAT16) return (double)nc_bf16_to_f32(((const uint16_t *)p)[i]);
    return nc_real_get(type, p, i);
}

/* The same for the i-th element in memory of a tensor. */
static inline double nc_tensor_get(const nc_tensor *t, int64_t i) { return nc_real_get(t->dtype, t->data, i); }
static inline double nc_tensor_get_any(const nc_tensor *t, int64_t i) { return nc_real_get_any(t->dtype, t->data, i); }
static inline void nc_tensor_put(const nc_tensor *t, int64_t i, double v) { nc_real_put(t->dtype, t->data, i, v); }

#endif
