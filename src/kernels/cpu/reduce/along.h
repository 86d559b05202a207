/* kernels/cpu/reduce/along.h: walks along one axis of a dense tensor: the place of the largest or smallest element, and
 * running sums and products.
 *
 * Types: f32, f64, i32, i64, u64; others give UNSUPPORTED. Running sums and products of f32 are kept in double and
 * rounded per element, those of integers wrap. Each line is walked in order, by one thread. */
#ifndef NCK_REDUCE_ALONG_H
#define NCK_REDUCE_ALONG_H

#include "base/shape.h"
#include "base/status.h"
#include "base/threads.h"

/* out: dense, x's dims without `axis`, whose dim is not 0. A NaN counts as the most extreme. Of equals the first, or
 * the last. */
NC_MUST nc_code nck_arg(const nc_tensor *x, int axis, bool smallest, bool last, int64_t *out, nc_pool *pool);

/* out: dense, x's dims and type. exclusive: element k holds what comes before it, the first 0 (1 of products). reverse:
 * from the end. */
NC_MUST nc_code nck_cumulate(const nc_tensor *x, int axis, bool product, bool exclusive, bool reverse, void *out,
                             nc_pool *pool);

#endif
