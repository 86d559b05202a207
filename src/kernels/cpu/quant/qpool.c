/* kernels/cpu/quant/qpool.c: MaxPool of codes with channels last, see qpool.h. Some channels stay in registers over all
 * taps; signed codes are compared as unsigned ones with their highest bit turned over. An item is a line of places. */
#include "kernels/cpu/quant/qpool.h"

#include "base/intmath.h"

#include <string.h>

enum { SOME = 64 }; /* channels at a time: a constant, which compilers turn into vectors */

typedef struct qpool_line {
    const nck_qpool_args *a;
    const uint8_t *x; /* of the image */
    uint8_t flip;
    int64_t first[NCK_WINDOW_DIMS], low[NCK_WINDOW_DIMS], high[NCK_WINDOW_DIMS]; /* taps along each dim */
} qpool_line;

static void qpool_raise(uint8_t *restrict most, const uint8_t *restrict x, uint8_t flip) {
    for (int i = 0; i < SOME; i++) {
        uint8_t v = x[i] ^ flip;
        most[i] = v > most[i] ? v : most[i];
    }
}

/* Channels [c, c + n) of one place, n at most SOME. */
static void qpool_place(const qpool_line *l, int64_t c, int64_t n, uint8_t *y) {
    const nck_window *w = &l->a->w;
    uint8_t most[SOME] = {0}, part[SOME] = {0};
    for (int64_t i = l->low[0]; i < l->high[0]; i++)
        for (int64_t j = l->low[1]; j < l->high[1]; j++) {
            int64_t row = ((l->first[0] + i * w->dil[0]) * w->in[1] + l->first[1] + j * w->dil[1]) * w->in[2];
            for (int64_t k = l->low[2]; k < l->high[2]; k++) {
                const uint8_t *from = l->x + (row + l->first[2] + k * w->dil[2]) * l->a->C + c;
                qpool_raise(most, n == SOME ? from : memcpy(part, from, (size_t)n), l->flip);
            }
        }
    for (int i = 0; i < SOME; i++) most[i] ^= l->flip;
    memcpy(y, most, (size_t)n);
}

static void qpool_item(void *ctx, int64_t item) {
    const nck_qpool_args *a = ctx;
    const nck_window *w = &a->w;
    int64_t o0 = item / w->out[1] % w->out[0], o1 = item % w->out[1], image = item / w->out[1] / w->out[0];
    uint8_t *y = (uint8_t *)a->y + item * w->out[2] * a->C;
    qpool_line l = {
        .a = a, .x = (const uint8_t *)a->x + image * nck_window_n_in(w) * a->C, .flip = a->type == NC_INT8 ? 0x80 : 0};
    nck_window_taps(w, 0, o0, &l.first[0], &l.low[0], &l.high[0]);
    nck_window_taps(w, 1, o1, &l.first[1], &l.low[1], &l.high[1]);
    for (int64_t o = 0; o < w->out[2]; o++, y += a->C) {
        nck_window_taps(w, 2, o, &l.first[2], &l.low[2], &l.high[2]);
        for (int64_t c = 0; c < a->C; c += SOME) qpool_place(&l, c, nc_min64(SOME, a->C - c), y + c);
    }
}

void nck_qpool_max(const nck_qpool_args *a, nc_pool *pool) {
    nck_qpool_args copy = *a;
    int64_t lines = a->N * a->w.out[0] * a->w.out[1];
    if (lines * a->w.out[2] * a->C == 0) return;
    nc_parallel(nc_pool_for(pool, lines * a->w.out[2] * a->C), lines, qpool_item, &copy);
}

void nck_qpool_max_ref(const nck_qpool_args *a) {
    const nck_window *w = &a->w;
    int64_t places = nck_window_n_out(w), taps = nck_window_n_k(w), plane = nck_window_n_in(w);
    for (int64_t i = 0; i < a->N * places * a->C; i++) {
        int64_t c = i % a->C, at[NCK_WINDOW_DIMS], tap[NCK_WINDOW_DIMS];
        int most = a->type == NC_INT8 ? -128 : 0;
        nck_window_place(w, i / a->C % places, at);
        for (int64_t t = 0; t < taps; t++) {
            int64_t from = 0;
            bool inside = true;
            nck_window_tap(w, t, tap);
            for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
                int64_t e = at[d] * w->stride[d] - w->pad[d] + tap[d] * w->dil[d];
                inside = inside && e >= 0 && e < w->in[d];
                from = from * w->in[d] + e;
            }
            if (!inside) continue;
            int64_t k = (i / a->C / places * plane + from) * a->C + c;
            int v = a->type == NC_INT8 ? ((const int8_t *)a->x)[k] : ((const uint8_t *)a->x)[k];
            most = v > most ? v : most;
        }
        ((uint8_t *)a->y)[i] = (uint8_t)most;
    }
}
