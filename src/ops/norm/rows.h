/* ops/norm/rows.h: how a normalization node is read and checked, for the bindings of every device. */
#ifndef NC_OPS_NORM_ROWS_H
#define NC_OPS_NORM_ROWS_H

#include "ops/binding.h"

/* What a binding row is; its `own`. */
typedef enum nc_norm_kind {
    NC_NORM_CENTERED,
    NC_NORM_UNCENTERED,
    NC_NORM_OF_SUM,
    NC_NORM_GRADIENT,
    NC_NORM_BY_GROUP,
    NC_NORM_BY_BATCH,
    NC_NORM_BATCH_GRADIENT
} nc_norm_kind;

typedef struct nc_norm_how {
    int64_t axis, groups;
    double epsilon, momentum;
    bool center, by_group, trains, spatial;
} nc_norm_how;

nc_norm_how nc_norm_read(const nc_node *n, nc_norm_kind kind);

/* The first normalized dim of x, and the product of dims [from, to). */
int nc_norm_axis(const nc_norm_how *s, const nc_tensor *x);
int64_t nc_norm_product(const nc_tensor *t, int from, int to);

/* Strides of v over the normalized dims of x; false where it does not spread over them. */
bool nc_norm_spread(const nc_tensor *v, const nc_tensor *x, int axis, int64_t *strides);
NC_MUST nc_code nc_norm_not_spread(const nc_call *c);

/* Inputs [from, to) have `want` elements each. */
NC_MUST nc_code nc_norm_counts(const nc_call *c, int from, int to, int64_t want);
/* The number of groups that the channels of input 0 fall into; scale and bias are checked against it. */
NC_MUST nc_code nc_norm_groups(const nc_norm_how *s, const nc_call *c, int64_t *groups);

#endif
