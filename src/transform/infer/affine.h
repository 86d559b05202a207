/* transform/infer/affine.h: what a node does to each channel, y = scale * x + shift, in double. */
#ifndef NC_TRANSFORM_INFER_AFFINE_H
#define NC_TRANSFORM_INFER_AFFINE_H

#include "ir/card.h"
#include "ir/edit.h"

enum { NC_AFFINE_OPSET = 7 }; /* the first whose Add and Mul broadcast without attributes */

typedef struct nc_affine {
    double *scale, *shift; /* per channel */
    bool scales;           /* not every scale is 1 */
} nc_affine;

/* In the pass's scratch. */
NC_MUST nc_code nc_affine_init(nc_work *w, int64_t channels, nc_affine *a);

/* A constant of float or double whose value may be relied on. */
bool nc_affine_may_use(const nc_value *v);
double nc_affine_number(const nc_value *v, int64_t c); /* one for all, or one per channel */

/* BatchNormalization with constant running statistics; false: it is none of so many channels. */
bool nc_affine_of_batch(const nc_node *n, int64_t channels, nc_affine *a);
/* No factor is far from 1, or none at all (x / 0), and sums are numbers of that type: it would leave their range. */
bool nc_affine_is_tame(const nc_affine *a, nc_dtype t, int64_t channels);

/* `channels` numbers, each rounded once, with dims of 1 behind them up to that rank; NULL: out of memory. */
const nc_literal *nc_affine_literal(nc_work *w, nc_model *m, nc_dtype t, int rank, int64_t channels, const double *v);

#endif
