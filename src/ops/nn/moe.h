/* ops/nn/moe.h: where the operands of mixtures of experts stand, and their pieces. */
#ifndef NC_OPS_NN_MOE_H
#define NC_OPS_NN_MOE_H

#include "ops/contrib.h"

enum { NC_MOE_X, NC_MOE_ROUTER };

/* Operands of the three layers; 0: the op has none. */
typedef struct nc_moe_kind {
    int weights[3], bias[3], scales[3], zeros[3], global[3];
    int mixing; /* weights of the chosen experts, where they are not those that choose */
    bool coded; /* weights are codes with scales */
} nc_moe_kind;

/* quant_type of coded weights. */
typedef enum nc_moe_codes { NC_MOE_INT, NC_MOE_FP4, NC_MOE_NVFP4, NC_MOE_FP8, NC_MOE_UNKNOWN } nc_moe_codes;
nc_moe_codes nc_moe_codes_of(const nc_node *n);
/* Bits of a weight of layer i, and weights that share a scale along their row; 0: all do. */
int64_t nc_moe_bits(const nc_node *n, int i);
int64_t nc_moe_block(const nc_node *n);

bool nc_moe_is_swiglu(const nc_node *n);
NC_MUST nc_code nc_moe_decompose(nc_builder *b, const nc_node *n, nc_value **out);
/* The weights (E,N,K) of layer i as numbers. */
nc_value *nc_moe_weights(nc_builder *b, const nc_node *n, int i);

#endif
