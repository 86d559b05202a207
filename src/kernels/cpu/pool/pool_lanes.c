/* kernels/cpu/pool/pool_lanes.c: see pool_lanes.h. Places in the middle of a line, which see all columns, go together;
 * those at its ends one by one. */
#include "kernels/cpu/pool/pool_lanes.h"

#include "base/intmath.h"
#include "kernels/cpu/conv/window_kernel.h"
#include "kernels/cpu/isa.h"

bool nck_pool_has_lanes(const nck_pool_args *a) {
    const nck_window *w = &a->w;
    bool lanes = w->k[2] == 1 && w->stride[2] == 1 && w->pad[2] == 0 && w->in[2] == w->out[2];
    return a->lanes > 0 || (a->type == NC_FLOAT && lanes && w->out[2] > 1 && w->out[2] <= NCK_POOL_LANES);
}

typedef struct lanes_job {
    const nck_pool_args *a;
    nck_window w; /* without the lanes */
    int64_t lanes;
    int64_t low, high; /* places of a line that see all columns */
    void (*places)(const struct lanes_job *j, const nck_window_grid *g, const float *x, const int64_t *o, int64_t n,
                   float *y);
    nck_pool_divide by;
} lanes_job;

/* The n places from o on of a line of the plane x, which see the same columns. */
static void some_places(const lanes_job *j, const float *x, const int64_t *o, int64_t n, float *y) {
    const nck_window *w = &j->w;
    int64_t first[NCK_WINDOW_DIMS], low[NCK_WINDOW_DIMS], high[NCK_WINDOW_DIMS], at[NCK_WINDOW_DIMS], L = j->lanes;
    for (int d = 0; d < NCK_WINDOW_DIMS; d++) {
        nck_window_taps(w, d, o[d], &first[d], &low[d], &high[d]);
        at[d] = first[d] + low[d] * w->dil[d];
    }
    nck_window_grid g = {.depths = high[0] - low[0], .rows = high[1] - low[1], .cols = high[2] - low[2], .lanes = L};
    g.col = w->dil[2] * L;
    g.row = w->dil[1] * w->in[2] * L;
    g.depth = w->dil[0] * w->in[1] * w->in[2] * L;
    g.step = w->stride[2] * L;
    bool any = g.depths > 0 && g.rows > 0 && g.cols > 0;
    if (any) x += ((at[0] * w->in[1] + at[1]) * w->in[2] + at[2]) * L;
    j->places(j, &g, x, o, n, y);
}

static void line_item(void *ctx, int64_t item) {
    const lanes_job *j = ctx;
    const nck_window *w = &j->w;
    int64_t lines = w->out[0] * w->out[1], L = j->lanes;
    int64_t o[NCK_WINDOW_DIMS] = {item % lines / w->out[1], item % w->out[1]};
    const float *x = (const float *)j->a->x + item / lines * nck_window_n_in(w) * L;
    float *y = (float *)j->a->y + item * w->out[2] * L;
    while (o[2] < w->out[2]) {
        int64_t n = o[2] == j->low && j->low < j->high ? j->high - j->low : 1;
        some_places(j, x, o, n, y + o[2] * L);
        o[2] += n;
    }
}

static void max_places(const lanes_job *j, const nck_window_grid *g, const float *x, const int64_t *o, int64_t n,
                       float *y) {
    (void)j, (void)o;
    nck_isa_get()->window->f32.max_lanes(y, x, g, n);
}

/* Places that go together see all columns, and so are divided by the same count. */
static void average_places(const lanes_job *j, const nck_window_grid *g, const float *x, const int64_t *o, int64_t n,
                           float *y) {
    nck_isa_get()->window->average_lanes(y, x, g, 1 / nck_pool_count(&j->w, o[0], o[1], o[2], j->by), n);
}

/* The last dim of a window without lanes of their own is the lanes. */
static void take_lanes(lanes_job *j) {
    const nck_window *v = &j->a->w;
    j->w = *v, j->lanes = j->a->lanes;
    if (j->lanes > 0) return;
    j->w = (nck_window){{1}, {1}, {1}, {1}, {1}, {0}, {0}};
    j->lanes = v->in[2];
    for (int d = 1; d < NCK_WINDOW_DIMS; d++) {
        j->w.in[d] = v->in[d - 1], j->w.k[d] = v->k[d - 1], j->w.out[d] = v->out[d - 1];
        j->w.stride[d] = v->stride[d - 1], j->w.dil[d] = v->dil[d - 1];
        j->w.pad[d] = v->pad[d - 1], j->w.pad_end[d] = v->pad_end[d - 1];
    }
}

static void run(lanes_job *j, nc_pool *pool) {
    const nck_window *w = &j->w;
    int64_t end;
    take_lanes(j);
    nck_window_places(w, 2, 0, &j->low, &end);
    nck_window_places(w, 2, w->k[2] - 1, &end, &j->high);
    pool = nc_pool_for(pool, j->a->planes * nck_window_n_out(w) * nck_window_n_k(w) * j->lanes);
    nc_parallel(pool, j->a->planes * w->out[0] * w->out[1], line_item, j);
}

void nck_pool_max_lanes(const nck_pool_args *a, nc_pool *pool) {
    run(&(lanes_job){.a = a, .places = max_places}, pool);
}

void nck_pool_average_lanes(const nck_pool_args *a, nck_pool_divide by, nc_pool *pool) {
    run(&(lanes_job){.a = a, .places = average_places, .by = by}, pool);
}
