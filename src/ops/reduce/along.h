/* ops/reduce/along.h: how the ops that walk along one axis (ArgMax, ArgMin, CumSum, CumProd) are read and checked, for
 * the bindings of every device. */
#ifndef NC_OPS_REDUCE_ALONG_H
#define NC_OPS_REDUCE_ALONG_H

#include "ops/binding.h"

/* What a binding row is; its `own`. */
typedef enum nc_arg_row { NC_ARG_MAX, NC_ARG_MIN } nc_arg_row;
typedef enum nc_cumulate_row { NC_CUMULATE_SUM, NC_CUMULATE_PRODUCT } nc_cumulate_row;

typedef struct nc_arg {
    int64_t axis;
    bool smallest, last;
} nc_arg;
nc_arg nc_arg_read(const nc_node *n, nc_arg_row row);

typedef struct nc_cumulate {
    bool product, exclusive, reverse;
} nc_cumulate;
nc_cumulate nc_cumulate_read(const nc_node *n, nc_cumulate_row row);

/* Input 0, a scalar as a line of one element in room, and the axis to walk along. */
NC_MUST nc_code nc_arg_lines(const nc_arg *s, const nc_call *c, nc_tensor *room, const nc_tensor **x, int *axis);
NC_MUST nc_code nc_cumulate_lines(const nc_call *c, nc_tensor *room, const nc_tensor **x, int *axis);

#endif
