/* ops/attention/linear_attention.h: a call of LinearAttention as the kernels of all devices take it. */
#ifndef NC_OPS_LINEAR_ATTENTION_H
#define NC_OPS_LINEAR_ATTENTION_H

#include "ops/binding.h"

enum { NC_LINEAR_QUERY, NC_LINEAR_KEY, NC_LINEAR_VALUE, NC_LINEAR_PAST, NC_LINEAR_DECAY, NC_LINEAR_BETA };

typedef struct nc_linear_rule {
    int64_t q_heads, kv_heads;
    double scale; /* 0: 1/sqrt(dk) */
} nc_linear_rule;

typedef struct nc_linear_shape {
    int64_t B, T, Hq, Hkv, dk, dv;
    int64_t decay_columns, beta_columns; /* of decay and beta; 0: none */
    float scale;
} nc_linear_shape;

nc_linear_rule nc_linear_rule_read(const nc_node *n);
/* SHAPE where the operands do not fit each other; reads no element. */
NC_MUST nc_code nc_linear_shape_of(const nc_linear_rule *r, const nc_call *c, nc_linear_shape *out);
/* Input i of a call; NULL: absent. */
const void *nc_linear_in(const nc_call *c, int i);

#endif
