/* ops/training/dims.h: how BroadcastGradientArgs compares two shapes, for its card and its kernel. */
#ifndef NC_OPS_TRAINING_DIMS_H
#define NC_OPS_TRAINING_DIMS_H

#include "base/shape.h"

/* The axes, last first, along which `a` is widened where a and b broadcast together; false: they do not. */
bool nc_training_widened(const int64_t *a, int n_a, const int64_t *b, int n_b, int64_t *axes, int *n);

#endif
