/* cuda/window.c: see window.h. */
#include "kernels/cuda/window.h"

#include "base/shape.h"

#include <stdbool.h>

static bool small(int64_t v) { return v >= -INT32_MAX && v <= INT32_MAX; }

static bool small_product(const int64_t *dims) {
    int64_t n;
    return nc_mul_i64(dims[0], dims[1], &n) && nc_mul_i64(n, dims[2], &n) && small(n);
}

/* The furthest element that a tap may name along dim d. */
static bool reaches(const nck_window *w, int d) {
    int64_t far, span;
    if (!nc_mul_i64(w->out[d], w->stride[d], &far) || !nc_mul_i64(w->k[d], w->dil[d], &span)) return false;
    return small(far) && small(span) && small(far + span) && small(w->pad[d]) && small(w->pad_end[d]) &&
           small(far + span + w->in[d] + (w->pad[d] < 0 ? -w->pad[d] : w->pad[d]) + w->pad_end[d]);
}

nc_code nck_cuda_window_of(const nck_window *w, nck_cuda_window *out, nc_diag *diag) {
    bool fits = small_product(w->in) && small_product(w->k) && small_product(w->out);
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
        fits = fits && small(w->in[d]) && small(w->k[d]) && small(w->out[d]) && reaches(w, d);
        out->in[d] = (int)w->in[d], out->k[d] = (int)w->k[d], out->out[d] = (int)w->out[d];
        out->stride[d] = (int)w->stride[d], out->dil[d] = (int)w->dil[d];
        out->pad[d] = (int)w->pad[d], out->pad_end[d] = (int)w->pad_end[d];
    }
    if (fits) return NC_OK;
    return nc_diag_set(diag, NC_E_LIMIT, NULL, NULL, "planes of more than 2^31 elements have no kernel on a GPU");
}
