/* ops/pool/pool_cuda.c: CUDA bindings of the pool family: up to three spatial dims, floats (MaxPool also int8 and
 * uint8). Operands are dense. */
#include "kernels/cuda/pool.h"

#include "ops/binding.h"
#include "ops/card.h"
#include "ops/pool/unpool.h"

typedef struct pool {
    nc_window window;
    int64_t k[NC_WINDOW_MAX_SPATIAL];
    nck_pool_divide by;
    bool column_major;
    double p;
    nck_cuda_pool kernel;
} pool;

static int rank_of(const nc_node *n) {
    const nc_type *x = n->in[0]->type;
    return x != NULL ? x->rank : -1;
}

static bool pool_fits(const nc_node *n, const char **why) {
    int rank = rank_of(n);
    *why = rank < 0 ? "the rank of X is not known" : "one to three spatial dims are supported";
    return rank >= 3 && rank <= 2 + NC_WINDOW_KERNEL_DIMS;
}

/* Rows of prepare. */
typedef enum pool_kind { GREATEST, MEANS, SUMS, GRADIENT } pool_kind;

static nc_code pool_prepare(nc_prep *p) {
    pool *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_node *n = p->node;
    int dims = rank_of(n) - 2;
    const pool_kind kind = *(const pool_kind *)p->own;
    bool sums = kind == SUMS || (kind == GRADIENT && nc_attr_int(n, "divide") == 0);
    NC_TRY(nc_window_read(p->w, n, dims, &s->window));
    NC_TRY(nc_window_ints(p->w, n, "kernel_shape", dims, 1, 1, s->k));
    s->by = sums ? NCK_POOL_SUM : nc_attr_int(n, "count_include_pad") != 0 ? NCK_POOL_BY_PADDED : NCK_POOL_BY_TAPS;
    s->column_major = nc_attr_int(n, "storage_order") != 0;
    s->p = n->version->since == 1 ? nc_attr_float(n, "p") : (double)nc_attr_int(n, "p");
    p->state = s;
    return nck_cuda_pool_prepare(p->device, n->in[0]->type->elem,
                                 kind == GREATEST ? NCK_CUDA_POOL_MAX : NCK_CUDA_POOL_SUMS, &s->kernel, &p->w->diag);
}

/* Of a pool from x to y; the kernel reads `from` and writes `to`. */
static nck_pool_args args_of(const nc_call *c, const nc_tensor *x, const nc_tensor *y, const void *from, void *to) {
    const pool *s = c->state;
    return (nck_pool_args){.type = c->in[0]->dtype,
                           .w = nc_window_kernel(&s->window, x->dims + 2, s->k, y->dims + 2),
                           .planes = x->dims[0] * x->dims[1],
                           .x = from,
                           .y = to};
}

static nc_code max_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = args_of(c, c->in[0], c->out[0], c->in[0]->data, c->out[0]->data);
    return nck_cuda_pool_max(&s->kernel, nck_cuda_at_call(c), &a, c->n_out > 1 ? c->out[1]->data : NULL,
                             s->column_major);
}

static nc_code average_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = args_of(c, c->in[0], c->out[0], c->in[0]->data, c->out[0]->data);
    return nck_cuda_pool_average(&s->kernel, nck_cuda_at_call(c), &a, s->by);
}

static nc_code average_grad_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = args_of(c, c->out[0], c->in[0], c->in[0]->data, c->out[0]->data);
    return nck_cuda_pool_average_grad(&s->kernel, nck_cuda_at_call(c), &a, s->by);
}

static nc_code lp_run(const nc_call *c) {
    const pool *s = c->state;
    nck_pool_args a = args_of(c, c->in[0], c->out[0], c->in[0]->data, c->out[0]->data);
    return nck_cuda_pool_lp(&s->kernel, nck_cuda_at_call(c), &a, s->p);
}

#define POOL(kind) \
    .fits = pool_fits, .prepare = pool_prepare, .own = &(const pool_kind) { kind }
const nc_binding nc_pool_cuda[] = {
    {.op = "MaxPool", .types = T_FLOAT_ALL | NC_BIT(NC_INT8) | NC_BIT(NC_UINT8), POOL(GREATEST), .run = max_run},
    {.op = "AveragePool", .types = T_FLOAT_ALL, POOL(MEANS), .run = average_run},
    {.op = "SumPool", .domain = "nacre", .types = T_FLOAT_ALL, POOL(SUMS), .run = average_run},
    {.op = "LpPool", .types = T_FLOAT_ALL, POOL(MEANS), .run = lp_run},
    {.op = "AveragePoolGrad", .domain = "nacre", .types = T_FLOAT_ALL, POOL(GRADIENT), .run = average_grad_run},
    {0}};
