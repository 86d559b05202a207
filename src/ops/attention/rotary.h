/* ops/attention/rotary.h: how a RotaryEmbedding node is read and checked, for the bindings of every device. */
#ifndef NC_OPS_ROTARY_H
#define NC_OPS_ROTARY_H

#include "ops/binding.h"

typedef struct nc_rotary {
    bool interleaved;
    int64_t heads, columns; /* 0: as X has them */
} nc_rotary;
nc_rotary nc_rotary_read(const nc_node *n);

typedef struct nc_rotary_shape {
    int64_t B, H, S, D, R;    /* R columns are rotated */
    int64_t batch, head, row; /* strides of X and Y */
} nc_rotary_shape;
/* Checks all dims; positions are the kernel's to check. */
NC_MUST nc_code nc_rotary_shape_of(const nc_rotary *r, const nc_call *c, nc_rotary_shape *out);

#endif
