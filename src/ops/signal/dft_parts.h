/* ops/signal/dft_parts.h: words in which dft.c and dft_grad.c write a DFT's pieces. */
#ifndef NC_OPS_DFT_PARTS_H
#define NC_OPS_DFT_PARTS_H

#include "ir/card.h"

nc_value *nc_dft_range(nc_builder *b, nc_value *end); /* 0, 1, ... below end */
nc_value *nc_dft_dim(nc_builder *b, nc_value *v, int64_t i); /* dim i of v, as a scalar */
nc_value *nc_dft_joined(nc_builder *b, nc_value *const *dims, int n);
/* At most `length`, a scalar, of x along the axis. */
nc_value *nc_dft_cut(nc_builder *b, nc_value *x, nc_value *length, int64_t axis);
/* Of the transform that n is: what is given (or NULL), or what the signal has, `dim`; of the inverse of a half, the
 * usual even one. */
nc_value *nc_dft_length(nc_builder *b, const nc_node *n, nc_value *given, nc_value *dim);
/* Bins of the half of a real signal's transform. */
nc_value *nc_dft_half(nc_builder *b, nc_value *length);
/* How often each of the bins of a half counts: those that are their own mirror once, the others twice. Followed by so
 * many dims of 1. */
nc_value *nc_dft_times(nc_builder *b, nc_dtype t, nc_value *length, nc_value *bins, int n_behind);
/* v as (A, n, C, parts), n being its dim along an axis known only in the run, with all dims before it in A and behind
 * it in C; they are told as vectors. What is no axis fails in Gather. */
nc_value *nc_dft_flat(nc_builder *b, nc_value *v, nc_value *axis, int64_t parts, nc_value **before, nc_value **behind);

nc_code nc_dft_grad(nc_grad *g);

#endif
