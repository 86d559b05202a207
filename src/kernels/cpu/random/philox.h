/* kernels/cpu/random/philox.h: tensors of random numbers and dropout, on Philox4x32-10 (philox_text.h).
 * `first` is the index of element 0 inside the whole tensor: a tensor filled in pieces has the bits of one filled at
 * once. All tensors are dense; type is NC_FLOAT or NC_DOUBLE. Not here: which node has which id, who counts steps. */
#ifndef NCK_PHILOX_H
#define NCK_PHILOX_H

#include "base/dtype.h"
#include "base/threads.h"

typedef struct nck_rng {
    uint64_t seed;
    uint32_t node_id, step;
    int64_t first;
} nck_rng;

/* y (n) in [low, high), from 24 random bits each; rounding may give high itself in wide ranges. */
void nck_random_uniform(nc_dtype type, int64_t n, nck_rng rng, double low, double high, void *y, nc_pool *pool);

/* y (n), normal with that mean and deviation; element i takes a word of block i / 4 as uniform numbers do. */
void nck_random_normal(nc_dtype type, int64_t n, nck_rng rng, double mean, double scale, void *y, nc_pool *pool);

/* Shares of classes are summed piece by piece, and the pieces then: a device may take pieces side by side. */
enum { NCK_DRAW_PIECE = 64 };
/* y (n_rows, n_samples): classes drawn with probabilities exp(logits (n_rows, n_classes)), which need not sum to 1.
 * sums holds n_classes; n_classes is at least 1. */
void nck_random_classes(int64_t n_rows, int64_t n_classes, int64_t n_samples, nck_rng rng, const double *logits,
                        double *sums, int64_t *y);

/* y (n) = keep ? x * (1 / (1 - ratio)) : 0, mask (n) = keep, where keep is uniform >= ratio; 0 <= ratio <= 1.
 * A dropped NaN or infinity gives 0. mask may be NULL; y may be x. */
void nck_dropout(nc_dtype type, int64_t n, nck_rng rng, double ratio, const void *x, void *y, uint8_t *mask,
                 nc_pool *pool);

/* dx (n) = mask ? dy * (1 / (1 - ratio)) : 0; dx may be dy. */
void nck_dropout_grad(nc_dtype type, int64_t n, double ratio, const void *dy, const uint8_t *mask, void *dx,
                      nc_pool *pool);

/* The n keep flags one at a time: the yardstick of nck_dropout. */
void nck_dropout_mask_ref(int64_t n, nck_rng rng, double ratio, uint8_t *mask);

#endif
