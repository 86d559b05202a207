/* kernels/cpu/pool/pool.h: pools over planes of up to three spatial dims, and their transposes.
 * x (planes, in...), y (planes, out...), dense; of nck_pool_max without indices and nck_pool_average also x (planes,
 * in..., lanes), y (planes, out..., lanes), in floats. An item is a plane, so that any threads give the same bits.
 * Sums accumulate in double, and means are their products with an inverse in double. The rows of each column of a
 * window are summed first. */
#ifndef NCK_POOL_H
#define NCK_POOL_H

#include "base/dtype.h"
#include "base/status.h"
#include "base/threads.h"
#include "kernels/cpu/conv/window.h"

enum { NCK_POOL_LANES = 16 };

typedef struct nck_pool_args {
    nc_dtype type; /* NC_FLOAT or NC_DOUBLE; nck_pool_max also NC_INT8 and NC_UINT8 */
    nck_window w;
    int64_t planes;
    int64_t lanes; /* 0: none; at most NCK_POOL_LANES */
    const void *x;
    void *y;
} nck_pool_args;

/* The greatest tap; a NaN among them gives NaN. A window without taps gives the type's lowest value. index (as y) or
 * NULL: where that tap lies, counted over all planes; by columns (the last dim slowest) if column_major. The first of
 * equal taps counts; -1 without taps. */
void nck_pool_max(const nck_pool_args *a, int64_t *index, bool column_major, nc_pool *pool);

typedef enum nck_pool_divide {
    NCK_POOL_SUM,      /* by nothing */
    NCK_POOL_BY_TAPS,  /* by the taps inside the input */
    NCK_POOL_BY_PADDED /* by the taps inside the padded input */
} nck_pool_divide;

/* The sum of the taps, divided; a window without taps gives 0 (BY_TAPS: NaN). */
void nck_pool_average(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool);
/* The transpose: y is dY, given as args.x (planes, out...); dX goes to args.y (planes, in...). */
void nck_pool_average_grad(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool);

/* (sum of |tap|^p)^(1/p) */
void nck_pool_lp(const nck_pool_args *a, double p, nc_pool *pool);

/* y (n) = 0, then for each plane of m elements y[index[i]] = x[i], or += with `add`. Indices are over all of y and
 * those of a plane must lie in that plane's share of y, n_planes equal parts: DATA and *bad otherwise. -1 with add:
 * no place. */
NC_MUST nc_code nck_pool_place(nc_dtype type, int64_t planes, int64_t m, int64_t n, const void *x, const int64_t *index,
                               bool add, void *y, int64_t *bad, nc_pool *pool);

#endif
