/* kernels/cpu/reduce/reduce.h: sum, mean, max, min and product over any set of axes of a strided tensor.
 *
 * Accumulation: f32 in f32, f64 in f64, integers in int64 (sums and products wrap), uint64 in itself. The reduced
 * elements, in row-major order, are cut into segments of NCK_REDUCE_SEGMENT, these into short runs, and partial results
 * are joined pairwise: a fixed tree that depends on dims and strides alone. A NaN makes max and min NaN. Over nothing:
 * sum 0, product 1, mean NaN (integers 0), max the smallest value of the type (-inf), min the largest. The mean of
 * integers is cut towards zero. */
#ifndef NCK_REDUCE_H
#define NCK_REDUCE_H

#include "base/shape.h"
#include "base/status.h"
#include "base/threads.h"

#define NCK_REDUCE_SEGMENT 16384

typedef enum nck_reduce_op {
    NCK_REDUCE_SUM,
    NCK_REDUCE_MEAN,
    NCK_REDUCE_MAX,
    NCK_REDUCE_MIN,
    NCK_REDUCE_PROD
} nck_reduce_op;

/* n_out results of n_reduced elements each. Grows with both. */
size_t nck_reduce_workspace(int64_t n_out, int64_t n_reduced);

/* Bit d of axes: dim d is reduced. out is dense, the kept dims in order, of x's type: f32, f64, i32, i64 or u64, others
 * give UNSUPPORTED. workspace is aligned for 8 bytes. */
NC_MUST nc_code nck_reduce(nck_reduce_op op, const nc_tensor *x, nc_axes axes, void *out, void *workspace,
                           nc_pool *pool);

/* The same of n floats side by side, in the calling thread: one tree of runs, whatever n is. */
float nck_reduce_line(nck_reduce_op op, const float *x, int64_t n);

/* The largest or least of bytes, signed, unsigned or bool, at least one an output. false, and nothing is done: x is not
 * dense, or the reduced dims do not stand together. */
bool nck_reduce_bytes(bool least, const nc_tensor *x, nc_axes axes, void *out, nc_pool *pool);

/* One accumulator in double (int64 for integers), element after element. */
NC_MUST nc_code nck_reduce_ref(nck_reduce_op op, const nc_tensor *x, nc_axes axes, void *out);

#endif
