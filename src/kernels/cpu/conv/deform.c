/* kernels/cpu/conv/deform.c: deformable convolution, see deform.h. An item is a row of places; its column of taps, read
 * bilinearly with zeros outside, is multiplied with the weights of every output channel. Sums are of the element's
 * type, in four strands over the taps. */
#include "kernels/cpu/conv/deform.h"

#include <math.h>

static size_t element(const nc_tensor *t) { return t->dtype == NC_DOUBLE ? sizeof(double) : sizeof(float); }

size_t nck_deform_bytes(const nc_tensor *x, const nc_tensor *w, const nc_tensor *y) {
    return (size_t)(y->dims[0] * y->dims[2]) * (size_t)(x->dims[1] * w->dims[2] * w->dims[3]) * element(x);
}

/* The place of tap (i, j) of output (oy, ox), in pixels of x. at: the same place in offset and mask. */
typedef struct tap {
    double y, x, mask;
} tap;

#define DEFORM(T, suffix)                                                                                            \
    static T pixel_##suffix(const T *x, int64_t h, int64_t w, int64_t i, int64_t j) {                                \
        return i >= 0 && i < h && j >= 0 && j < w ? x[i * w + j] : 0;                                                \
    }                                                                                                                \
    static T between_##suffix(const T *x, int64_t h, int64_t w, const tap *t) {                                      \
        if (!(t->y > -1 && t->y < (double)h && t->x > -1 && t->x < (double)w)) return 0;                             \
        int64_t i = (int64_t)floor(t->y), j = (int64_t)floor(t->x);                                                  \
        T dy = (T)(t->y - (double)i), dx = (T)(t->x - (double)j);                                                    \
        T top = (1 - dx) * pixel_##suffix(x, h, w, i, j) + dx * pixel_##suffix(x, h, w, i, j + 1);                   \
        T low = (1 - dx) * pixel_##suffix(x, h, w, i + 1, j) + dx * pixel_##suffix(x, h, w, i + 1, j + 1);           \
        return ((1 - dy) * top + dy * low) * (T)t->mask;                                                             \
    }                                                                                                                \
    static T dot_##suffix(const T *a, const T *b, int64_t n) {                                                       \
        T s[4] = {0};                                                                                                \
        for (int64_t k = 0; k < n; k++) s[k & 3] += a[k] * b[k];                                                     \
        return (s[0] + s[1]) + (s[2] + s[3]);                                                                        \
    }                                                                                                                \
    static void column_##suffix(const nck_deform *d, int64_t n, int64_t oy, int64_t ox, T *column) {                 \
        const int64_t *xd = d->x->dims, *wd = d->w->dims, *yd = d->y->dims;                                          \
        int64_t taps = wd[2] * wd[3], per = xd[1] / d->offset_group, plane = yd[2] * yd[3], at = oy * yd[3] + ox;    \
        for (int64_t g = 0; g < d->offset_group; g++)                                                                \
            for (int64_t k = 0; k < taps; k++) {                                                                     \
                int64_t row = (n * d->offset_group + g) * taps + k;                                                  \
                const T *off = (const T *)d->offset->data + 2 * row * plane + at;                                    \
                tap t = {(double)(oy * d->strides[0] - d->begins[0] + k / wd[3] * d->dilations[0]) + (double)off[0], \
                         (double)(ox * d->strides[1] - d->begins[1] + k % wd[3] * d->dilations[1]) +                 \
                             (double)off[plane],                                                                     \
                         d->mask != NULL ? (double)((const T *)d->mask->data)[row * plane + at] : 1};                \
                for (int64_t c = g * per; c < (g + 1) * per; c++)                                                    \
                    column[c * taps + k] =                                                                           \
                        between_##suffix((const T *)d->x->data + (n * xd[1] + c) * xd[2] * xd[3], xd[2], xd[3], &t); \
            }                                                                                                        \
    }                                                                                                                \
    static void row_##suffix(void *ctx, int64_t item) {                                                              \
        const nck_deform *d = ctx;                                                                                   \
        const int64_t *yd = d->y->dims, *wd = d->w->dims;                                                            \
        int64_t n = item / yd[2], oy = item % yd[2], depth = wd[1] * wd[2] * wd[3], per = yd[1] / d->group;          \
        T *column = (T *)d->columns + item * d->x->dims[1] * wd[2] * wd[3];                                          \
        for (int64_t ox = 0; ox < yd[3]; ox++) {                                                                     \
            column_##suffix(d, n, oy, ox, column);                                                                   \
            for (int64_t m = 0; m < yd[1]; m++) {                                                                    \
                T sum = dot_##suffix(column + m / per * depth, (const T *)d->w->data + m * depth, depth);            \
                if (d->bias != NULL) sum += ((const T *)d->bias->data)[m];                                           \
                ((T *)d->y->data)[((n * yd[1] + m) * yd[2] + oy) * yd[3] + ox] = sum;                                \
            }                                                                                                        \
        }                                                                                                            \
    }

DEFORM(float, f32)
DEFORM(double, f64)

void nck_deform_run(const nck_deform *d, nc_pool *pool) {
    nc_parallel(pool, d->y->dims[0] * d->y->dims[2], d->x->dtype == NC_DOUBLE ? row_f64 : row_f32,
                (void *)(uintptr_t)d);
}
