/* kernels/cpu/conv/deform.c: deformable convolution, see deform.h. An item is a row of places; its column of taps, read
 * bilinearly with zeros outside, is multiplied with the weights of every output channel. Sums are of the element's
 * type, in four strands over the taps. */
#include "kernels/cpu/conv/deform.h"

#include "kernels/cpu/per_type.h"

#include <math.h>

static size_t deform_element(const nc_tensor *t) { return t->dtype == NC_DOUBLE ? sizeof(double) : sizeof(float); }

size_t nck_deform_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    return (size_t)(y->dims[0] * y->dims[2]) * (size_t)(x->dims[1] * w->dims[2] * w->dims[3]) * deform_element(x);
}

/* The place of tap (i, j) of output (oy, ox), in pixels of x. at: the same place in offset and mask. */
typedef struct deform_tap {
    double y, x, mask;
} deform_tap;

#define TEXT "kernels/cpu/conv/deform.inc"
#include "kernels/cpu/per_float.inc"

void nck_deform_run(const nck_deform *d, nc_pool *pool) {
    int64_t terms = d->w->dims[1] * d->w->dims[2] * d->w->dims[3];
    pool = nc_pool_for(pool, nc_tensor_numel(d->y) * terms);
    nc_parallel(pool, d->y->dims[0] * d->y->dims[2], d->x->dtype == NC_DOUBLE ? deform_row_f64 : deform_row_f32,
                (void *)(uintptr_t)d);
}
