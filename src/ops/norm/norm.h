/* ops/norm/norm.h: the pieces that normalizations decompose into. */
#ifndef NC_OPS_NORM_H
#define NC_OPS_NORM_H

#include "ops/build.h"

/* The type that statistics of `t` are computed in: f32 for the half types. */
nc_dtype nc_norm_wide(nc_dtype t);

/* Axes [from, to) in axes; how many. */
int nc_norm_axes(int from, int to, int64_t *axes);

nc_value *nc_norm_mean_of(nc_builder *b, nc_value *x, const int64_t *axes, int n); /* ReduceMean, dims kept as 1 */

typedef struct nc_norm_pieces {
    nc_value *mean, *var; /* along the axes, dims kept as 1; mean NULL where x is not centred */
    nc_value *inv_std;
    nc_value *normal; /* (x - mean) * inv_std */
} nc_norm_pieces;

nc_norm_pieces nc_norm_pieces_of(nc_builder *b, nc_value *x, const int64_t *axes, int n, double epsilon, bool center);

/* 1 / sqrt(var + epsilon) */
nc_value *nc_norm_inverse(nc_builder *b, nc_value *var, double epsilon);

/* A vector over the channels (axis 1) of something with `rank` dims. */
nc_value *nc_norm_channels(nc_builder *b, nc_value *v, int rank);

/* The rank of input 0; fails where it is not known, or less than `least`. */
NC_MUST nc_code nc_norm_rank(nc_builder *b, const nc_node *n, int least, int *rank);

/* Scale and bias, inputs 1 and 2 of a normalization from an axis on, spread over the normalized dims alone, as far as
 * their types tell. */
bool nc_norm_fits_rows(const nc_node *n, const char **why);

/* v after dropout by n's ratio, with n's random id; v itself where there is no state. */
nc_value *nc_norm_dropped(nc_builder *b, const nc_node *n, nc_value *v, nc_value *state);

/* The gradient of a normalization of rows, and its form that adds dX to another value; the norm of a sum. */
extern const nc_card nc_card_norm_grad, nc_card_norm_grad_add, nc_card_sum_norm;

#endif
