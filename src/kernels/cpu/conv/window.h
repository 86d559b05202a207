/* kernels/cpu/conv/window.h: a window sliding over up to three spatial dims (depth, height, width; unused ones in
 * front are 1), and which of its taps fall inside the input. Used by convolutions over columns and by pools. */
#ifndef NCK_WINDOW_H
#define NCK_WINDOW_H

#include <stdint.h>

enum { NCK_WINDOW_DIMS = 3 };

typedef struct nck_window {
    int64_t in[NCK_WINDOW_DIMS], k[NCK_WINDOW_DIMS], out[NCK_WINDOW_DIMS];
    int64_t stride[NCK_WINDOW_DIMS], dil[NCK_WINDOW_DIMS];
    int64_t pad[NCK_WINDOW_DIMS], pad_end[NCK_WINDOW_DIMS]; /* pad may be negative: the input is cut there */
} nck_window;

static inline int64_t nck_window_n_in(const nck_window *w) { return w->in[0] * w->in[1] * w->in[2]; }
static inline int64_t nck_window_n_out(const nck_window *w) { return w->out[0] * w->out[1] * w->out[2]; }
static inline int64_t nck_window_n_k(const nck_window *w) { return w->k[0] * w->k[1] * w->k[2]; }

/* ceil(a / b) for a >= 0; most windows have steps of 1, and a division costs more than the rest of a place. */
static inline int64_t nck_window_steps(int64_t a, int64_t b) { return b == 1 ? a : (a + b - 1) / b; }

/* Taps [*low, *high) along dim d of the window at place `out` that fall inside the input; *first is where tap 0 lies.
 */
static inline void nck_window_taps(const nck_window *w, int d, int64_t out, int64_t *first, int64_t *low,
                                   int64_t *high) {
    int64_t dil = w->dil[d];
    *first = out * w->stride[d] - w->pad[d];
    *low = *first >= 0 ? 0 : nck_window_steps(-*first, dil);
    *high = *first >= w->in[d] ? 0 : nck_window_steps(w->in[d] - *first, dil);
    if (*high > w->k[d]) *high = w->k[d];
    if (*low > *high) *low = *high;
}

/* Places [*low, *high) along dim d whose tap t falls inside the input. */
static inline void nck_window_places(const nck_window *w, int d, int64_t t, int64_t *low, int64_t *high) {
    int64_t first = t * w->dil[d] - w->pad[d], last = w->in[d] - 1 - first, stride = w->stride[d];
    *low = first >= 0 ? 0 : nck_window_steps(-first, stride);
    *high = last < 0 ? 0 : nck_window_steps(last + 1, stride);
    if (*high > w->out[d]) *high = w->out[d];
    if (*low > *high) *low = *high;
}

#endif
