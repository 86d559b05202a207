/* kernels/cpu/optim/optim.c: an optimizer's step as a tile program. Numbers that are the same for all elements are
 * operands of rank 0, so that one program serves every step. Adam of f32 alone goes by optim.simd.c: its program would
 * pass each tile through the cache fifteen times. */
#include "kernels/cpu/optim/optim.h"

#include "base/intmath.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/optim/optim_kernel.h"
#include "kernels/cpu/tile.h"

#include <math.h>

/* Registers: the tensors, the numbers, then what is made of them. */
enum {
    W,
    M,
    V,
    G,
    ALPHA,
    REST_ALPHA,
    BETA,
    REST_BETA,
    EPSILON,
    ROOT, /* what the root of the second moment is multiplied with */
    RATE,
    KEEP, /* what the decay leaves of a weight */
    SCALE,
    N_IN,
    GRAD = N_IN,
    NEW_M,
    NEW_V,
    DOWN,
    UP,
    NEW_W,
    N_REG
};

#define DO(name, to, ...)                                          \
    {                                                              \
        .lane = NCK_LANE_##name, .dst = to, .src = { __VA_ARGS__ } \
    }
#define MOMENTS                                                                                                      \
    DO(mul, GRAD, G, SCALE), DO(mul, NEW_M, M, ALPHA), DO(mul, UP, GRAD, REST_ALPHA), DO(add, NEW_M, NEW_M, UP),     \
        DO(mul, NEW_V, V, BETA), DO(mul, DOWN, GRAD, GRAD), DO(mul, DOWN, DOWN, REST_BETA),                          \
        DO(add, NEW_V, NEW_V, DOWN), DO(sqrt, DOWN, NEW_V), DO(mul, DOWN, DOWN, ROOT), DO(add, DOWN, DOWN, EPSILON), \
        DO(mul, UP, NEW_M, RATE), DO(div, UP, UP, DOWN)

static const nck_tile_op decay_first[] = {MOMENTS, DO(mul, NEW_W, W, KEEP), DO(sub, NEW_W, NEW_W, UP)};
static const nck_tile_op decay_last[] = {MOMENTS, DO(sub, NEW_W, W, UP), DO(mul, NEW_W, NEW_W, KEEP)};
static const uint16_t adam_out[3] = {NEW_W, NEW_M, NEW_V};

static const nck_tile_op sgd[] = {DO(mul, 3, 1, 2), DO(sub, 3, 0, 3)};
static const uint16_t sgd_out[1] = {3};

/* SGD with momentum: tensors, numbers, then what is made of them. */
enum { S_W, S_M, S_G, S_KEEP, S_TAKE, S_DECAY, S_RATE, S_SCALE, S_AHEAD, S_N_IN, S_GRAD = S_N_IN, S_NEW, S_TO, S_N };
static const nck_tile_op momentum_ops[] = {DO(mul, S_GRAD, S_G, S_SCALE), DO(mul, S_TO, S_W, S_DECAY),
                                           DO(add, S_GRAD, S_GRAD, S_TO), DO(mul, S_NEW, S_M, S_KEEP),
                                           DO(mul, S_TO, S_GRAD, S_TAKE), DO(add, S_NEW, S_NEW, S_TO),
                                           DO(mul, S_TO, S_NEW, S_RATE),  DO(sub, S_TO, S_W, S_TO)};
static const nck_tile_op nesterov_ops[] = {DO(mul, S_GRAD, S_G, S_SCALE), DO(mul, S_TO, S_W, S_DECAY),
                                           DO(add, S_GRAD, S_GRAD, S_TO), DO(mul, S_NEW, S_M, S_KEEP),
                                           DO(mul, S_TO, S_GRAD, S_TAKE), DO(add, S_NEW, S_NEW, S_TO),
                                           DO(mul, S_TO, S_NEW, S_AHEAD), DO(add, S_TO, S_GRAD, S_TO),
                                           DO(mul, S_TO, S_TO, S_RATE),   DO(sub, S_TO, S_W, S_TO)};
static const uint16_t momentum_out[2] = {S_TO, S_NEW};

static nc_dtype compute_of(const nck_optim_tensors *t) {
    bool wide = t->w->dtype == NC_DOUBLE || t->g->dtype == NC_DOUBLE || (t->m != NULL && t->m->dtype == NC_DOUBLE);
    return wide ? NC_DOUBLE : NC_FLOAT;
}

/* ALPHA .. SCALE */
static void numbers_of(const nck_optim_args *a, double *k) {
    const nck_optim_rule *r = a->rule;
    double first = r->correct_bias ? 1 - pow(r->alpha, (double)a->step) : 1;
    double second = r->correct_bias ? 1 - pow(r->beta, (double)a->step) : 1;
    k[ALPHA - ALPHA] = r->alpha, k[REST_ALPHA - ALPHA] = 1 - r->alpha;
    k[BETA - ALPHA] = r->beta, k[REST_BETA - ALPHA] = 1 - r->beta;
    k[EPSILON - ALPHA] = r->epsilon;
    k[ROOT - ALPHA] = r->decay_last ? 1 : 1 / sqrt(second);
    k[RATE - ALPHA] = r->decay_last ? a->rate * sqrt(second) / first : a->rate / first;
    k[KEEP - ALPHA] = 1 - a->rate * r->decay;
    k[SCALE - ALPHA] = a->scale;
}

enum { ITEM = 16384 }; /* elements */

typedef struct adam_job {
    nck_adam_numbers k;
    nck_adam_run all;
    const nck_optim_table *table;
} adam_job;

static void adam_item(void *ctx, int64_t item) {
    const adam_job *j = ctx;
    const nck_adam_run *a = &j->all;
    int64_t at = item * ITEM;
    j->table->adam(&j->k, &(nck_adam_run){.w = a->w + at,
                                          .m = a->m + at,
                                          .v = a->v + at,
                                          .g = a->g + at,
                                          .new_w = a->new_w + at,
                                          .new_m = a->new_m + at,
                                          .new_v = a->new_v + at,
                                          .n = nc_min64(ITEM, a->n - at)});
}

static bool all_floats(const nck_optim_tensors *t) {
    const nc_tensor *v[] = {t->w, t->m, t->v, t->g, t->new_w, t->new_m, t->new_v};
    for (int i = 0; i < 7; i++)
        if (v[i]->dtype != NC_FLOAT || (uintptr_t)v[i]->data % sizeof(float) != 0) return false;
    return true;
}

static void adam_floats(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool) {
    double k[N_IN - ALPHA];
    numbers_of(a, k);
    adam_job j = {.k = {.alpha = (float)k[ALPHA - ALPHA],
                        .rest_alpha = (float)k[REST_ALPHA - ALPHA],
                        .beta = (float)k[BETA - ALPHA],
                        .rest_beta = (float)k[REST_BETA - ALPHA],
                        .epsilon = (float)k[EPSILON - ALPHA],
                        .root = (float)k[ROOT - ALPHA],
                        .rate = (float)k[RATE - ALPHA],
                        .keep = (float)k[KEEP - ALPHA],
                        .scale = (float)k[SCALE - ALPHA],
                        .decay_last = a->rule->decay_last},
                  .all = {.w = t->w->data,
                          .m = t->m->data,
                          .v = t->v->data,
                          .g = t->g->data,
                          .new_w = t->new_w->data,
                          .new_m = t->new_m->data,
                          .new_v = t->new_v->data,
                          .n = nc_tensor_numel(t->w)},
                  .table = nck_isa_get()->optim};
    nc_parallel(nc_pool_for(pool, j.all.n), nc_ceil_div(j.all.n, ITEM), adam_item, &j);
}

static void adam_step(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool) {
    if (all_floats(t)) {
        adam_floats(a, t, pool);
        return;
    }
    double k[N_IN - ALPHA];
    nc_tensor numbers[N_IN - ALPHA], *in[N_IN] = {t->w, t->m, t->v, t->g}, *out[3] = {t->new_w, t->new_m, t->new_v};
    numbers_of(a, k);
    for (int i = ALPHA; i < N_IN; i++) {
        nc_tensor_set(&numbers[i - ALPHA], &k[i - ALPHA], NC_DOUBLE, 0);
        in[i] = &numbers[i - ALPHA];
    }
    nck_tile_prog p = {.compute = compute_of(t),
                       .n_in = N_IN,
                       .n_out = 3,
                       .n_reg = N_REG,
                       .n_op = sizeof decay_last / sizeof decay_last[0],
                       .op = a->rule->decay_last ? decay_last : decay_first,
                       .out_reg = adam_out};
    nck_tile_run(&p, in, out, pool);
}

static void sgd_step(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool) {
    double by = a->rate * a->scale;
    nc_tensor number, *in[3] = {t->w, t->g, &number}, *out[1] = {t->new_w};
    nc_tensor_set(&number, &by, NC_DOUBLE, 0);
    nck_tile_prog p = {
        .compute = compute_of(t), .n_in = 3, .n_out = 1, .n_reg = 4, .n_op = 2, .op = sgd, .out_reg = sgd_out};
    nck_tile_run(&p, in, out, pool);
}

static void momentum_step(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool) {
    const nck_optim_rule *r = a->rule;
    bool first = a->step <= 1; /* the moment is the first gradient itself */
    double k[S_N_IN - S_KEEP] = {
        first ? 0 : r->alpha, first ? 1 : 1 - r->dampening, r->decay, a->rate, a->scale, r->alpha};
    nc_tensor numbers[S_N_IN - S_KEEP], *in[S_N_IN] = {t->w, t->m, t->g}, *out[2] = {t->new_w, t->new_m};
    for (int i = S_KEEP; i < S_N_IN; i++) {
        nc_tensor_set(&numbers[i - S_KEEP], &k[i - S_KEEP], NC_DOUBLE, 0);
        in[i] = &numbers[i - S_KEEP];
    }
    size_t n_op = r->nesterov ? sizeof nesterov_ops / sizeof *nesterov_ops : sizeof momentum_ops / sizeof *momentum_ops;
    nck_tile_prog p = {.compute = compute_of(t),
                       .n_in = S_N_IN,
                       .n_out = 2,
                       .n_reg = S_N,
                       .n_op = (int)n_op,
                       .op = r->nesterov ? nesterov_ops : momentum_ops,
                       .out_reg = momentum_out};
    nck_tile_run(&p, in, out, pool);
}

void nck_optim_step(const nck_optim_args *a, const nck_optim_tensors *t, nc_pool *pool) {
    if (a->rule->adam)
        adam_step(a, t, pool);
    else if (a->rule->momentum)
        momentum_step(a, t, pool);
    else
        sgd_step(a, t, pool);
}
