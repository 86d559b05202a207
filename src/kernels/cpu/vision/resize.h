/* kernels/cpu/vision/resize.h: resizing along several axes, one after the other: every output line is a weighted sum of
 * a few input lines, whose numbers and weights stand in a table. The gradient is the same table the other way. Nearest
 * has one line per line and moves bytes of any element. Sums are made in the type of the data. */
#ifndef NCK_RESIZE_H
#define NCK_RESIZE_H

#include "base/shape.h"
#include "base/threads.h"

typedef enum nck_resize_mode { NCK_RESIZE_NEAREST, NCK_RESIZE_LINEAR, NCK_RESIZE_CUBIC } nck_resize_mode;
typedef enum nck_resize_coords {
    NCK_COORDS_HALF_PIXEL,
    NCK_COORDS_HALF_PIXEL_SYMMETRIC,
    NCK_COORDS_PYTORCH_HALF_PIXEL,
    NCK_COORDS_ALIGN_CORNERS,
    NCK_COORDS_ASYMMETRIC,
    NCK_COORDS_TF_CROP,
    NCK_COORDS_TF_HALF_PIXEL_NEAREST
} nck_resize_coords;
typedef enum nck_resize_round {
    NCK_ROUND_PREFER_FLOOR,
    NCK_ROUND_PREFER_CEIL,
    NCK_ROUND_FLOOR,
    NCK_ROUND_CEIL
} nck_resize_round;

typedef struct nck_resize_rule {
    nck_resize_mode mode;
    nck_resize_coords coords;
    nck_resize_round round;
    bool antialias, exclude_outside;
    bool whole; /* aligned corners: the resized axis is as long as it came out, not scale * in */
    double cubic_a;
} nck_resize_rule;

/* One axis: out lines from in lines. roi: where the crop starts and ends, in parts of the axis (TF_CROP). */
typedef struct nck_resize_axis {
    int axis;
    int64_t in, out;
    double scale, roi[2];
    /* filled by nck_resize_table */
    int taps;
    int64_t *index; /* (out, taps) */
    double *weight; /* (out, taps); zeros where the place is outside of the crop */
    bool *outside;  /* (out) */
} nck_resize_axis;

/* Bytes of the table of an axis, growing with both sizes. */
size_t nck_resize_table_bytes(int64_t in, int64_t out);
void nck_resize_table(const nck_resize_rule *rule, nck_resize_axis *a, void *memory);
/* How many input lines make an output line. */
int nck_resize_taps(const nck_resize_rule *rule, const nck_resize_axis *a);

/* y = x resized along the n axes, dense, NC_FLOAT or NC_DOUBLE; any type of 1 to 16 bytes where mode is nearest. buffer
 * holds twice nck_resize_buffer(x, y) elements. */
int64_t nck_resize_buffer(const nc_tensor *x, const nc_tensor *y);
void nck_resize(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, void *buffer,
                nc_pool *pool);
void nck_resize_nearest(const nc_tensor *x, const nck_resize_axis *axes, int n, const nc_tensor *y, nc_pool *pool);
/* dx = what dy says about x. */
void nck_resize_grad(const nc_tensor *dy, const nck_resize_axis *axes, int n, const nc_tensor *dx, void *buffer,
                     nc_pool *pool);
/* y = value (one element) where any axis is outside. */
void nck_resize_fill_outside(const nck_resize_axis *axes, int n, const nc_tensor *y, const void *value);

#endif
