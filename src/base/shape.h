/* base/shape.h: dims are int64_t, sizes size_t, strides in elements; every product is checked. */
#ifndef NC_BASE_SHAPE_H
#define NC_BASE_SHAPE_H

#include "base/dtype.h"

/* The most dims of a tensor, as in numpy and torch. */
#define NC_MAX_RANK 64

/* A set of axes: bit d stands for axis d. */
typedef uint64_t nc_axes;
_Static_assert(NC_MAX_RANK <= 8 * sizeof(nc_axes), "an axis is a bit");
static inline nc_axes nc_axes_of(int64_t d) { return (nc_axes)1 << d; }
static inline nc_axes nc_axes_below(int n) { return n < 64 ? nc_axes_of(n) - 1 : ~(nc_axes)0; } /* 0 to n - 1 */

static inline bool nc_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool nc_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* A tensor as kernels see it: where, what, how large, how far apart. Owns nothing. */
typedef struct nc_tensor {
    void *data;
    nc_dtype dtype;
    int rank;
    int64_t dims[NC_MAX_RANK];
    int64_t strides[NC_MAX_RANK]; /* in elements; may be 0 (expanded) or negative (reversed) */
} nc_tensor;

/* A tensor has room for many dims. What is done in every run fills it and copies it only as far as its rank goes. */
static inline void nc_tensor_set(nc_tensor *t, void *data, nc_dtype dtype, int rank) { /* dims, strides: the caller */
    t->data = data;
    t->dtype = dtype;
    t->rank = rank;
}
static inline void nc_tensor_copy(nc_tensor *to, const nc_tensor *from) {
    nc_tensor_set(to, from->data, from->dtype, from->rank);
    for (int d = 0; d < from->rank; d++) {
        to->dims[d] = from->dims[d];
        to->strides[d] = from->strides[d];
    }
}

bool nc_numel(const int64_t *dims, int rank, int64_t *out);                   /* false: overflow or negative dim */
bool nc_tensor_bytes(nc_dtype t, const int64_t *dims, int rank, size_t *out); /* of the dense tensor */
void nc_dense_strides(const int64_t *dims, int rank, int64_t *strides);
bool nc_is_dense(const nc_tensor *t);        /* row-major without gaps; dims of 1, empty tensors do not matter */
int64_t nc_tensor_numel(const nc_tensor *t); /* dims are known to be checked */
/* Numpy broadcasting of two shapes; false when they do not fit. out holds NC_MAX_RANK. */
bool nc_broadcast(const int64_t *a, int ra, const int64_t *b, int rb, int64_t *out, int *r_out);
/* Strides of t seen as the broadcast shape (0 where expanded). dims must be a broadcast of t. */
void nc_broadcast_strides(const nc_tensor *t, int rank, const int64_t *dims, int64_t *strides);
/* The same of the first n_from dims of a tensor. */
void nc_spread_strides(int n_from, const int64_t *from_dims, const int64_t *from_strides, int rank, const int64_t *dims,
                       int64_t *strides);
/* Merges neighbouring dims that all n operands step through as one. strides[k] is operand k's; returns the new rank,
 * at least 1. */
int nc_coalesce(int rank, int64_t *dims, int n, int64_t (*strides)[NC_MAX_RANK]);

#endif
