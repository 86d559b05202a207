/* ops/vision/sample_parts.h: reading between pixels in simple ops: GridSample and DeformConv where they have no kernel,
 * and gradients of their gradients. */
#ifndef NC_OPS_SAMPLE_PARTS_H
#define NC_OPS_SAMPLE_PARTS_H

#include "kernels/cpu/vision/sample.h"
#include "ops/build.h"

typedef struct nc_sample_rule {
    nck_sample_mode mode;
    nck_sample_padding padding;
    bool align_corners;
    int dims;
} nc_sample_rule;

/* x (N, pixels, C) at P places per N: (N, P, C). size[k]: the length of axis k, int64 of rank 0; at[k]: the coordinates
 * in pixels, (N, P) of x's type; the outermost axis first. */
nc_value *nc_sample_parts(nc_builder *b, const nc_sample_rule *rule, nc_value *x, nc_value *const *size,
                          nc_value *const *at);

/* A dim of x, as int64 of rank 0. */
nc_value *nc_sample_size(nc_builder *b, nc_value *x, int axis);
/* x with another shape: numbers as Reshape takes them. */
nc_value *nc_sample_reshaped(nc_builder *b, nc_value *x, const int64_t *dims, int n);

#endif
