/* kernels/cpu/conv/window_test.c: what a window sees, against the formula that window.h states, for every place, tap
 * and element of many windows of one to three dims: strides, dilations, pads, pads below zero, windows larger than
 * the input. */
#include "kernels/cpu/conv/window.h"

#include "tests/check.h"

/* The element of dim d that tap t of place o reads; -1: it lies outside. */
static int64_t reads(const nck_window *w, int d, int64_t o, int64_t t) {
    int64_t i = o * w->stride[d] - w->pad[d] + t * w->dil[d];
    return i >= 0 && i < w->in[d] ? i : -1;
}

static void check_dim(const nck_window *w, int d) {
    for (int64_t o = 0; o < w->out[d]; o++) {
        int64_t first, low, high;
        nck_window_taps(w, d, o, &first, &low, &high);
        CHECK(first == o * w->stride[d] - w->pad[d]);
        for (int64_t t = 0; t < w->k[d]; t++) CHECK((t >= low && t < high) == (reads(w, d, o, t) >= 0));
    }
    for (int64_t t = 0; t < w->k[d]; t++) {
        int64_t low, high;
        nck_window_places(w, d, t, &low, &high);
        for (int64_t o = 0; o < w->out[d]; o++) CHECK((o >= low && o < high) == (reads(w, d, o, t) >= 0));
    }
}

/* Every element that a tap of a place reads finds that place again, and no other element does. */
static void check_back(const nck_window *w) {
    for (int64_t t = 0; t < nck_window_n_k(w); t++) {
        int64_t tap[NCK_WINDOW_DIMS], o[NCK_WINDOW_DIMS], n_found = 0, n_read = 0;
        nck_window_tap(w, t, tap);
        for (int64_t at = 0; at < nck_window_n_in(w); at++) n_found += nck_window_place_of(w, at, t) >= 0;
        for (int64_t p = 0; p < nck_window_n_out(w); p++) {
            int64_t at = 0;
            bool inside = true;
            nck_window_place(w, p, o);
            for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
                int64_t i = reads(w, d, o[d], tap[d]);
                inside = inside && i >= 0;
                at = at * w->in[d] + i;
            }
            if (!inside) continue;
            n_read++;
            CHECK(nck_window_place_of(w, at, t) == p);
        }
        CHECK(n_found == n_read);
    }
}

TEST(window_sees_what_its_formula_says) {
    static const int64_t rows[][6] = {/* in k stride dil pad pad_end */
                                      {5, 3, 2, 1, 1, 1}, {7, 2, 1, 3, 0, 0},  {4, 3, 3, 2, 4, 1}, {1, 1, 1, 1, 0, 0},
                                      {2, 5, 1, 1, 4, 4}, {9, 3, 2, 2, -2, 0}, {6, 1, 4, 1, 3, 3}};
    enum { N = sizeof rows / sizeof rows[0] };
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) {
            nck_window w;
            for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
                const int64_t *r = rows[d == 0 ? 3 : d == 1 ? a : b];
                w.in[d] = r[0], w.k[d] = r[1], w.stride[d] = r[2], w.dil[d] = r[3], w.pad[d] = r[4];
                w.pad_end[d] = r[5];
                w.out[d] = nck_window_out(r[0], r[1], r[2], r[3], r[4] + r[5]);
                check_dim(&w, d);
            }
            check_back(&w);
        }
}

TEST(window_counts_places) {
    CHECK_INT(nck_window_out(5, 3, 2, 1, 2), 3);
    CHECK_INT(nck_window_out(5, 5, 1, 1, 0), 1);
    CHECK_INT(nck_window_out(4, 5, 1, 1, 0), 0);
    CHECK_INT(nck_window_out(9, 3, 1, 4, 0), 1);
    CHECK_INT(nck_window_out(8, 3, 1, 4, 0), 0);
}
