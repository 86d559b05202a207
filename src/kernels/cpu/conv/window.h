/* kernels/cpu/conv/window.h: a window sliding over up to three spatial dims (depth, height, width; unused ones in
 * front are 1), and which of its taps fall inside the input. The one description of windows that kernels have:
 * convolutions, pools and Col2Im take it; only quantized convolutions, of any number of dims, have their own.
 *
 * A place is where the window stands, one per output; a tap is one of the k elements under it. Along one dim the tap t
 * of place o reads input element o * stride - pad + t * dil, if there is one. An example: in 5, k 3, stride 2, dil 1,
 * pad 1 has the places 0, 1 and 2. Place 0 stands at -1, so its taps 1 and 2 read elements 0 and 1; place 2 stands at
 * 3, so its taps 0 and 1 read 3 and 4. Seen from a tap: tap 0 reads at places 1 and 2, tap 2 at places 0 and 1. */
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

/* How many places a window has along one dim; 0: it does not fit. */
static inline int64_t nck_window_out(int64_t in, int64_t k, int64_t stride, int64_t dil, int64_t pads) {
    int64_t room = in + pads - (dil * (k - 1) + 1);
    return room < 0 ? 0 : room / stride + 1;
}

/* Place number p, and tap number t, along each dim. */
static inline void nck_window_place(const nck_window *w, int64_t p, int64_t o[NCK_WINDOW_DIMS]) {
    for (int d = NCK_WINDOW_DIMS - 1; d >= 0; p /= w->out[d--]) o[d] = p % w->out[d];
}
static inline void nck_window_tap(const nck_window *w, int64_t t, int64_t tap[NCK_WINDOW_DIMS]) {
    for (int d = NCK_WINDOW_DIMS - 1; d >= 0; t /= w->k[d--]) tap[d] = t % w->k[d];
}

/* The place whose tap t reads element `at` of the input; -1: none does. */
static inline int64_t nck_window_place_of(const nck_window *w, int64_t at, int64_t t) {
    int64_t place = 0, step = 1;
    for (int d = NCK_WINDOW_DIMS - 1; d >= 0; at /= w->in[d], t /= w->k[d], step *= w->out[d--]) {
        int64_t from = at % w->in[d] + w->pad[d] - t % w->k[d] * w->dil[d], o = from / w->stride[d];
        if (from < 0 || from % w->stride[d] != 0 || o >= w->out[d]) return -1;
        place += o * step;
    }
    return place;
}

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
