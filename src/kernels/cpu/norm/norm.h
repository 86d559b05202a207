/* kernels/cpu/norm/norm.h: normalization of rows: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, or without
 * the mean (root mean square). Serves LayerNormalization, RMSNormalization, InstanceNormalization and
 * GroupNormalization, which differ only in what a row is and which scale an element takes.
 * Accumulation: runs of NCK_REDUCE_RUN in the element type, joined in double; the same bits for any threads and ISA. */
#ifndef NCK_NORM_H
#define NCK_NORM_H

#include "base/dtype.h"
#include "base/threads.h"

/* Element (row, col) takes scale[(row % mod) * row_step + (col / div) * col_step], and bias the same. */
typedef struct nck_norm_pick {
    int64_t mod, row_step, div, col_step;
} nck_norm_pick;

typedef struct nck_norm_args {
    nc_dtype type; /* NC_FLOAT or NC_DOUBLE */
    int64_t rows, cols;
    bool center; /* subtract the mean, before the squares too */
    double epsilon;
    const void *x;            /* (rows, cols), dense, as y */
    const void *scale, *bias; /* NULL: 1 and 0 */
    nck_norm_pick pick;
    void *y;
    void *mean, *inv_std; /* (rows) in `type`, or NULL */
} nck_norm_args;

void nck_norm_rows(const nck_norm_args *a, nc_pool *pool);
void nck_norm_rows_ref(const nck_norm_args *a);

/* Gradients by x and, where asked for, by scale and bias; the scale is there, and picked by column alone: mod == 1,
 * div == 1, col_step == 1. dx (rows, cols); dscale, dbias (cols), or NULL; y, mean and inv_std of `a` are not used.
 * workspace: nck_norm_grad_workspace bytes, aligned for 8. */
size_t nck_norm_grad_workspace(int64_t rows, int64_t cols);
void nck_norm_grad(const nck_norm_args *a, const void *dy, void *dx, void *dscale, void *dbias, void *workspace,
                   nc_pool *pool);

/* y = (x - mean[c]) * (scale[c] / sqrt(var[c] + epsilon)) + bias[c] on x (N, C, size), dense; all four are (C). */
typedef struct nck_norm_channels {
    nc_dtype type;
    int64_t N, C, size;
    double epsilon;
    const void *x, *scale, *bias, *mean, *var;
    void *y;
} nck_norm_channels;
void nck_norm_by_channel(const nck_norm_channels *a, nc_pool *pool);
/* Gradients of channels normalized by mean and 1 / std, then scaled and shifted. Accumulation as in norm.c. */
typedef struct nck_norm_channels_back {
    nc_dtype type;
    int64_t N, C, size;
    double epsilon;
    const void *dy, *x;         /* (N, C, size), dense, as dx */
    const void *scale;          /* (C), as all below */
    const void *mean, *inv_std; /* both NULL: the statistics of x, found anew with epsilon */
    bool constant;              /* the statistics do not follow x: dx = dy * scale / std */
    void *dx, *dscale, *dbias;  /* NULL: not wanted */
} nck_norm_channels_back;
void nck_norm_channels_grad(const nck_norm_channels_back *a, nc_pool *pool);

/* The same over channels in blocks, f32: x, y, dy and dx (N, ceil(C / block), size, block); lanes past C hold anything.
 * Accumulation: f32 in runs of NCK_LANES_RUN rows, then double. The workspace, 64-byte aligned, grows with every size.
 */
size_t nck_norm_blocked_workspace(int64_t N, int64_t C, int64_t block);
void nck_norm_by_channel_blocked(const nck_norm_channels *a, int64_t block, void *workspace, nc_pool *pool);
void nck_norm_channels_grad_blocked(const nck_norm_channels_back *a, int64_t block, void *workspace, nc_pool *pool);
void nck_channel_stats_blocked(const nck_norm_channels *a, int64_t block, float *mean, float *var, void *workspace,
                               nc_pool *pool);

/* The mean and the variance (over N * S, not less one) of each channel of x. */
void nck_channel_stats(nc_dtype type, int64_t N, int64_t C, int64_t S, const void *x, void *mean, void *var,
                       nc_pool *pool);

#endif
