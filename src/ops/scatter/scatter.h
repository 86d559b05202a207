/* ops/scatter/scatter.h: the gradient that ScatterElements and ScatterND share. */
#ifndef NC_OPS_SCATTER_H
#define NC_OPS_SCATTER_H

#include "ir/card.h"

/* The op and the one that reads where it writes, with what both must be told. */
typedef struct nc_scatter_pair {
    const char *scatter, *gather;
    const nc_attr *attrs;
    int n_attrs;
} nc_scatter_pair;

/* Of a node (data, indices, updates) with any `reduction`. */
NC_MUST nc_code nc_scatter_grad(nc_grad *g, const nc_scatter_pair *pair);

#endif
