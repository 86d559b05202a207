/* ops/norm/batch.h: what a BatchNormalization node does, by its version; what it is made of; its gradient. */
#ifndef NC_OPS_NORM_BATCH_H
#define NC_OPS_NORM_BATCH_H

#include "ops/build.h"

/* Statistics of the batch, not the running ones. */
static inline bool nc_batch_trains(const nc_node *n) {
    int since = n->version->since;
    if (since >= 14) return nc_attr_int(n, "training_mode") != 0;
    if (since < 7) return nc_attr_int(n, "is_test") == 0;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != NULL) return true;
    return false;
}

/* One scale for all positions of a channel; else one for each. */
static inline bool nc_batch_is_spatial(const nc_node *n) {
    return n->version->since >= 9 || nc_attr_int(n, "spatial") != 0;
}

/* An nc_parts: the node as plain formulas over `in`. */
NC_MUST nc_code nc_batch_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out);
NC_MUST nc_code nc_batch_card_grad(nc_grad *g);

/* Hooks for the channel-blocked layout (batch_blocked.c). */
bool nc_batch_blocks(const nc_node *n, nc_blocking *k);
nc_value *nc_batch_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);
bool nc_batch_grad_blocks(const nc_node *n, nc_blocking *k);
nc_value *nc_batch_grad_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in);

#endif
