/* kernels/cpu/pool/pool_lanes.c: see pool_lanes.h. Places in the middle of a line, which see all columns, go together;
 * those at its ends one by one. */
#include "kernels/cpu/pool/pool_lanes.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"

enum { MOST_LANES = 16 };

bool nck_pool_has_lanes(const nck_pool_args *a) {
    const nck_window *w = &a->w;
    bool lanes = w->k[2] == 1 && w->stride[2] == 1 && w->pad[2] == 0 && w->in[2] == w->out[2];
    return a->type == NC_FLOAT && lanes && w->out[2] > 1 && w->out[2] <= MOST_LANES;
}

typedef struct lanes_job {
    const nck_pool_args *a;
    int64_t low, high; /* places of a line that see all columns */
    void (*places)(const struct lanes_job *j, const nck_window_grid *g, const float *x, int64_t o0, int64_t o1,
                   int64_t n, float *y);
    nck_pool_divide by;
} lanes_job;

/* The places [o1, o1 + n) of line o0 of the plane x, which see the same columns. */
static void some_places(const lanes_job *j, const float *x, int64_t o0, int64_t o1, int64_t n, float *y) {
    const nck_window *w = &j->a->w;
    int64_t f0, l0, h0, f1, l1, h1, L = w->in[2];
    nck_window_taps(w, 0, o0, &f0, &l0, &h0);
    nck_window_taps(w, 1, o1, &f1, &l1, &h1);
    nck_window_grid g = {.rows = h0 - l0, .cols = h1 - l1, .row = w->dil[0] * w->in[1] * L, .lanes = L};
    g.col = w->dil[1] * L;
    g.step = w->stride[1] * L;
    bool any = g.rows > 0 && g.cols > 0;
    if (any) x += ((f0 + l0 * w->dil[0]) * w->in[1] + f1 + l1 * w->dil[1]) * L;
    j->places(j, &g, x, o0, o1, n, y);
}

static void line_item(void *ctx, int64_t item) {
    const lanes_job *j = ctx;
    const nck_window *w = &j->a->w;
    int64_t plane = item / w->out[0], o0 = item % w->out[0], L = w->in[2];
    const float *x = (const float *)j->a->x + plane * nck_window_n_in(w);
    float *y = (float *)j->a->y + item * w->out[1] * L;
    for (int64_t o = 0; o < j->low; o++) some_places(j, x, o0, o, 1, y + o * L);
    if (j->low < j->high) some_places(j, x, o0, j->low, j->high - j->low, y + j->low * L);
    for (int64_t o = nc_max64(j->low, j->high); o < w->out[1]; o++) some_places(j, x, o0, o, 1, y + o * L);
}

static void max_places(const lanes_job *j, const nck_window_grid *g, const float *x, int64_t o0, int64_t o1, int64_t n,
                       float *y) {
    (void)j, (void)o0, (void)o1;
    nck_isa_get()->window->f32.max_lanes(y, x, g, n);
}

/* Sums in double, in the order of the taps. */
static void average_places(const lanes_job *j, const nck_window_grid *g, const float *x, int64_t o0, int64_t o1,
                           int64_t n, float *y) {
    for (int64_t p = 0; p < n; p++, x += g->step, y += g->lanes) {
        double sum[MOST_LANES] = {0}, count = nck_pool_count(&j->a->w, o0, o1 + p, 0, j->by);
        for (int64_t a = 0; a < g->rows; a++)
            for (int64_t t = 0; t < g->cols; t++) {
                const float *from = x + a * g->row + t * g->col;
                for (int64_t i = 0; i < g->lanes; i++) sum[i] += (double)from[i];
            }
        for (int64_t i = 0; i < g->lanes; i++) y[i] = (float)(sum[i] / count);
    }
}

static void run(lanes_job *j, nc_pool *pool) {
    const nck_window *w = &j->a->w;
    int64_t end;
    nck_window_places(w, 1, 0, &j->low, &end);
    nck_window_places(w, 1, w->k[1] - 1, &end, &j->high);
    pool = nc_pool_for(pool, j->a->planes * nck_window_n_out(w) * nck_window_n_k(w));
    nc_parallel(pool, j->a->planes * w->out[0], line_item, j);
}

void nck_pool_max_lanes(const nck_pool_args *a, nc_pool *pool) {
    run(&(lanes_job){.a = a, .places = max_places}, pool);
}

void nck_pool_average_lanes(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    run(&(lanes_job){.a = a, .places = average_places, .by = by}, pool);
}
