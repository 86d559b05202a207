/* ops/shape/shape.h: what the cards and bindings of the shape family share. Cards read integer lists that are
 * attributes in old versions and inputs in new ones; bindings read the same lists as host arguments of a call. */
#ifndef NC_OPS_SHAPE_SHAPE_H
#define NC_OPS_SHAPE_SHAPE_H

#include "base/narrow.h"
#include "ops/binding.h"
#include "ops/build.h"
#include "ops/card.h"

enum { NC_SHAPE_HUGE = INT32_MAX /* bounds this far out mean "to the end" */ };

typedef enum nc_shape_state { NC_SHAPE_ABSENT, NC_SHAPE_UNKNOWN, NC_SHAPE_KNOWN } nc_shape_state;

/* A list of integers: attribute `attr` (NULL: none) or input i (-1: none). n: how many; UNKNOWN: -1 when that is not
 * known. */
nc_shape_state nc_shape_ints(nc_infer *c, int i, const char *attr, int64_t *v, int max, int *n);
/* The same list as dims: attribute `attr`, else the elements of input i; NULL: absent or not known. */
NC_MUST nc_code nc_shape_elems(nc_infer *c, int i, const char *attr, const nc_dim *const **elems, int *n);
/* How many elements the rank 1 input i has; -1: not known. */
int nc_shape_count(nc_infer *c, int i);
/* Marks axes of a rank; fails when one is out of range or comes twice. */
NC_MUST nc_code nc_shape_mark_axes(nc_infer *c, const int64_t *axes, int n, int rank, bool *marked);
/* A size: no value of the symbols makes it negative. */
bool nc_shape_never_negative(const nc_dim *d);
/* Output 0 knows the elements of input 0, in the same order. */
NC_MUST nc_code nc_shape_fold_same(nc_infer *c);
/* Output 0's known elements are input 0's: of dims `counts`, the first at `first`, others by steps along each axis. */
NC_MUST nc_code nc_shape_fold_steps(nc_infer *c, int rank, const int64_t *counts, int64_t first, const int64_t *steps);
/* Constant dims of input 0, whose elements are all known; false: it is none. */
bool nc_shape_known(nc_infer *c, int64_t *dims, int *rank);
/* is_identity of ops that only move: output 0 has the type of input 0. */
bool nc_shape_same_type(const nc_node *n);

/* Gradient of ops that only rename dims: dy in the shape of input 0. */
NC_MUST nc_code nc_shape_grad_reshape(nc_grad *g);

/* ---- slices: numpy's rule as ONNX states it ---- */

/* Where a slice of an axis of length d starts, and how many elements it takes. step is not 0. */
void nc_slice_range(int64_t d, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count);

typedef struct nc_slice_state {
    bool by_attr; /* version 1: starts, ends and axes stand here */
    int n, n_axes;
    int64_t starts[NC_MAX_RANK], ends[NC_MAX_RANK], axes[NC_MAX_RANK];
} nc_slice_state;

NC_MUST nc_code nc_slice_prepare(nc_prep *p);
/* The view of `whole` that the slice arguments in[first_arg..] (or the state) select: data and strides of *part, whose
 * dims are set. Reads no byte of `whole`. */
NC_MUST nc_code nc_slice_view(const nc_call *c, int first_arg, const nc_tensor *whole, nc_tensor *part);

/* ---- casts ---- */

/* What a Cast says of narrow floats. */
NC_MUST nc_code nc_cast_read(nc_work *w, const nc_node *n, nc_narrowing *how);

/* ---- host arguments ---- */

/* Integers of a rank 0 or 1 host tensor of int32 or int64; the count, or -1: too many or no integers. */
int nc_shape_read(const nc_tensor *t, int64_t *v, int max);

/* ---- bindings that both devices list ---- */

NC_MUST nc_code nc_shape_view_ones(const nc_call *c);
NC_MUST nc_code nc_shape_view_dense(const nc_call *c);
NC_MUST nc_code nc_shape_view_transpose(const nc_call *c);
NC_MUST nc_code nc_shape_view_slice(const nc_call *c);
NC_MUST nc_code nc_shape_view_split(const nc_call *c);
NC_MUST nc_code nc_shape_view_expand(const nc_call *c);
NC_MUST nc_code nc_shape_transpose_prepare(nc_prep *p);
NC_MUST nc_code nc_shape_split_prepare(nc_prep *p);

/* Concat: where input i goes, inputs in order from a piece of zeros on; `moves`: it is not empty and not there yet. */
typedef struct nc_concat_piece {
    int64_t at;
    void *dst;
    bool moves;
} nc_concat_piece;
NC_MUST nc_code nc_concat_next(const nc_call *c, int64_t axis, int i, nc_concat_piece *p);

/* The same rows in every device's table. */
#define NC_SHAPE_VIEWS                                                                          \
    {.op = "Identity", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_ones},      \
        {.op = "Squeeze", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_ones},   \
        {.op = "Unsqueeze", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_ones}, \
        {.op = "Reshape", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_dense},  \
        {.op = "Flatten", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_dense},  \
        {.op = "Transpose",                                                                     \
         .kind = NC_K_VIEW,                                                                     \
         .types = T_MOVABLE,                                                                    \
         .prepare = nc_shape_transpose_prepare,                                                 \
         .view = nc_shape_view_transpose},                                                      \
        {.op = "Slice",                                                                         \
         .kind = NC_K_VIEW,                                                                     \
         .types = T_WHOLE,                                                                      \
         .prepare = nc_slice_prepare,                                                           \
         .view = nc_shape_view_slice},                                                          \
        {.op = "Split",                                                                         \
         .kind = NC_K_VIEW,                                                                     \
         .types = T_WHOLE,                                                                      \
         .prepare = nc_shape_split_prepare,                                                     \
         .view = nc_shape_view_split},                                                          \
    {                                                                                           \
        .op = "Expand", .kind = NC_K_VIEW, .types = T_MOVABLE, .view = nc_shape_view_expand     \
    }

#endif
