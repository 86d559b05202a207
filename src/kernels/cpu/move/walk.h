/* kernels/cpu/move/walk.h: steps through the outer dims of up to three strided operands, row after row.
 *
 * A walk covers the first `rank - 1` dims (the last dim is the caller's row). Rows are numbered in row-major order, so
 * an item can start at any row: nck_walk_start divides once, nck_walk_next only adds. Offsets are in elements. */
#ifndef NCK_WALK_H
#define NCK_WALK_H

#include "base/shape.h"

enum { NCK_WALK_MAX = 3 };

/* The dims and how operands lie in them. Large: it is filled as far as it is used, never cleared or copied. */
typedef struct nck_walk {
    int n_dims, n_operands;
    int64_t dims[NC_MAX_RANK];
    int64_t strides[NCK_WALK_MAX][NC_MAX_RANK];
} nck_walk;

/* A row of it. */
typedef struct nck_walk_at {
    const nck_walk *of;
    int64_t offset[NCK_WALK_MAX];
    int64_t at[NC_MAX_RANK];
} nck_walk_at;

static inline void nck_walk_init(nck_walk *w, int n_dims, const int64_t *dims, int n_operands,
                                 int64_t (*strides)[NC_MAX_RANK]) {
    w->n_dims = n_dims;
    w->n_operands = n_operands;
    for (int d = 0; d < n_dims; d++) {
        w->dims[d] = dims[d];
        for (int k = 0; k < n_operands; k++) w->strides[k][d] = strides[k][d];
    }
}

static inline void nck_walk_start(nck_walk_at *p, const nck_walk *w, int64_t row) {
    p->of = w;
    for (int k = 0; k < w->n_operands; k++) p->offset[k] = 0;
    for (int d = w->n_dims - 1; d >= 0; d--) {
        p->at[d] = row % w->dims[d];
        row /= w->dims[d];
        for (int k = 0; k < w->n_operands; k++) p->offset[k] += p->at[d] * w->strides[k][d];
    }
}

static inline void nck_walk_next(nck_walk_at *p) {
    const nck_walk *w = p->of;
    for (int d = w->n_dims - 1; d >= 0; d--) {
        bool carry = ++p->at[d] == w->dims[d];
        for (int k = 0; k < w->n_operands; k++)
            p->offset[k] += carry ? -(w->dims[d] - 1) * w->strides[k][d] : w->strides[k][d];
        if (!carry) return;
        p->at[d] = 0;
    }
}

/* Number of rows; dims are known to be checked. */
static inline int64_t nck_walk_rows(const nck_walk *w) {
    int64_t n = 1;
    for (int d = 0; d < w->n_dims; d++) n *= w->dims[d];
    return n;
}

#endif
