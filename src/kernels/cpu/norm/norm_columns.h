/* kernels/cpu/norm/norm_columns.h: statistics and gradients that norm.h says of channels, where each has one element of
 * an image: x is a matrix (N, C), its columns the channels. */
#ifndef NCK_NORM_COLUMNS_H
#define NCK_NORM_COLUMNS_H

#include "kernels/cpu/norm/norm.h"

void nck_column_stats(nc_dtype type, int64_t N, int64_t C, const void *x, void *mean, void *var, nc_pool *pool);
void nck_norm_columns_grad(const nck_norm_channels_back *a, nc_pool *pool);

#endif
