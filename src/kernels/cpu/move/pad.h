/* kernels/cpu/move/pad.h: borders around a tensor, and their gradient. x and y are dense. */
#ifndef NCK_PAD_H
#define NCK_PAD_H

#include "base/shape.h"
#include "base/threads.h"

typedef enum nck_pad_mode { NCK_PAD_CONSTANT, NCK_PAD_REFLECT, NCK_PAD_EDGE, NCK_PAD_WRAP } nck_pad_mode;

/* Borders below 0 are taken away first; the others repeat what is left. Of an axis of `inner` elements in one of
 * `outer`: how many are left, and the first of them. */
static inline int64_t nck_pad_left(int64_t outer, int64_t inner, int64_t begin, int64_t *first) {
    int64_t end = outer - begin < inner ? outer - begin : inner;
    *first = begin < 0 ? -begin : 0;
    return end > *first ? end - *first : 0;
}

/* Where every output index of every axis comes from: sum of y's dims elements, -1: the constant. */
size_t nck_pad_workspace(const nc_tensor *y);

/* y (dims of y) = x with begin[k] elements put before axis k, below 0: taken away; what comes behind follows from y's
 * dims. value: one element; NULL: zero bytes. Modes other than constant need some of every axis to be left. */
void nck_pad(nck_pad_mode mode, const nc_tensor *x, const int64_t *begin, const void *value, const nc_tensor *y,
             void *workspace, nc_pool *pool);
/* dx gets every element of dy added that nck_pad made from it, in the order of dy; NC_FLOAT or NC_DOUBLE. */
void nck_pad_grad(nck_pad_mode mode, const nc_tensor *dy, const int64_t *begin, const nc_tensor *dx, void *workspace);

#endif
