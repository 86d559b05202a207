/* ops/matmul/einsum.h: an Einsum equation as labels per dim, for the card and the kernel. Labels are numbers: letters
 * first, then the dims that an ellipsis stands for, aligned at their right ends over all operands. */
#ifndef NC_OPS_EINSUM_H
#define NC_OPS_EINSUM_H

#include "base/shape.h"
#include "base/status.h"
#include "ir/card.h"

enum { NC_EINSUM_LETTERS = 52, NC_EINSUM_LABELS = NC_EINSUM_LETTERS + NC_MAX_RANK, NC_EINSUM_MAX_IN = 32 };

/* Labels of one operand, or of the result. */
typedef struct nc_einsum_term {
    int rank;
    uint8_t label[NC_MAX_RANK];
} nc_einsum_term;

typedef struct nc_einsum {
    int n_in;
    nc_einsum_term in[NC_EINSUM_MAX_IN], out;
} nc_einsum;

/* The equation over operands of these ranks. why gets a sentence when it cannot be. */
NC_MUST nc_code nc_einsum_resolve(const char *equation, const int *ranks, int n_in, nc_einsum *e, char *why,
                                  size_t bytes_why);

/* The node in simple ops: einsum_parts.c. */
NC_MUST nc_code nc_einsum_join(nc_builder *b, const nc_node *n, const nc_einsum *e, nc_value **out);

#endif
