/* ops/pool/pool_cpu.c: CPU bindings of the pool family: up to three spatial dims, f32 and f64 (MaxPool also int8 and
 * uint8); float16 and bfloat16 go through f32 (ops/widen.h). */
#include "ops/pool/pool_cpu.h"

#include "kernels/cpu/move/move.h"
#include "ops/card.h"
#include "ops/widen.h"

static int rank_of(const nc_node *n) {
    const nc_type *x = n->in[0]->type;
    return x != NULL ? x->rank : -1;
}

/* Channels in blocks are one more dim behind the spatial ones. */
static bool in_deep_blocks(const nc_type *x) {
    return x->rank == 3 + NC_WINDOW_KERNEL_DIMS && x->elem == NC_FLOAT && x->layout.axis == 1 && x->layout.block > 1 &&
           x->layout.block <= NCK_POOL_LANES;
}

static bool forward_fits(const nc_node *n, const char **why) {
    return nc_pool_fits(n, why) || (rank_of(n) > 0 && n->n_out < 2 && in_deep_blocks(n->in[0]->type));
}

bool nc_pool_fits(const nc_node *n, const char **why) {
    int rank = rank_of(n);
    *why = rank < 0 ? "the rank of X is not known" : "one to three spatial dims are supported";
    return rank >= 3 && rank <= 2 + NC_WINDOW_KERNEL_DIMS;
}

nc_code nc_pool_read(const nc_prep *p, nc_pool_kind kind, nc_pooling *out) {
    const nc_node *n = p->node;
    int dims = rank_of(n) - 2;
    bool sums = kind == NC_POOL_SUMS || (kind == NC_POOL_GRADIENT && nc_attr_int(n, "divide") == 0);
    NC_TRY(nc_window_read(p->w, n, dims, &out->window));
    NC_TRY(nc_window_ints(p->w, n, "kernel_shape", dims, 1, 1, out->k));
    out->by = sums ? NCK_POOL_SUM : nc_attr_int(n, "count_include_pad") != 0 ? NCK_POOL_BY_PADDED : NCK_POOL_BY_TAPS;
    out->column_major = nc_attr_int(n, "storage_order") != 0;
    out->p = n->version->since == 1 ? nc_attr_float(n, "p") : (double)nc_attr_int(n, "p");
    return NC_OK;
}

nck_pool_args nc_pool_args_of(const nc_pooling *s, nc_dtype type, const nc_tensor *x, const nc_tensor *y,
                              const void *from, void *to) {
    nc_window w = s->window;
    bool lanes = w.n_spatial > NC_WINDOW_KERNEL_DIMS;
    if (lanes) { /* their window is one of one element */
        w.n_spatial--;
        for (int i = 0; i < w.n_spatial; i++) w.pads[w.n_spatial + i] = w.pads[w.n_spatial + 1 + i];
    }
    return (nck_pool_args){.type = type,
                           .w = nc_window_kernel(&w, x->dims + 2, s->k, y->dims + 2),
                           .planes = x->dims[0] * x->dims[1],
                           .lanes = lanes ? x->dims[x->rank - 1] : 0,
                           .x = from,
                           .y = to};
}

static nc_code pool_prepare(nc_prep *p) {
    nc_pooling *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nc_pool_read(p, *(const nc_pool_kind *)p->own, s);
}

static nck_pool_args forward_args(const nc_call *c) {
    return nc_pool_args_of(c->state, c->in[0]->dtype, c->in[0], c->out[0], c->in[0]->data, c->out[0]->data);
}

static nc_code max_run(const nc_call *c) {
    const nc_pooling *s = c->state;
    nck_pool_args a = forward_args(c);
    if (nc_tensor_numel(c->out[0]) > 0)
        nck_pool_max(&a, c->n_out > 1 ? c->out[1]->data : NULL, s->column_major, c->pool);
    return NC_OK;
}

static nc_code average_run(const nc_call *c) {
    const nc_pooling *s = c->state;
    nck_pool_args a = forward_args(c);
    if (nc_tensor_numel(c->out[0]) > 0) nck_pool_average(&a, s->by, c->pool);
    return NC_OK;
}

static nc_code average_grad_run(const nc_call *c) {
    const nc_pooling *s = c->state;
    nck_pool_args a = nc_pool_args_of(s, c->in[0]->dtype, c->out[0], c->in[0], c->in[0]->data, c->out[0]->data);
    if (nc_tensor_numel(c->out[0]) > 0) nck_pool_average_grad(&a, s->by, c->pool);
    return NC_OK;
}

static nc_code lp_run(const nc_call *c) {
    const nc_pooling *s = c->state;
    nck_pool_args a = forward_args(c);
    if (nc_tensor_numel(c->out[0]) > 0) nck_pool_lp(&a, s->p, c->pool);
    return NC_OK;
}

static nc_code placed(const nc_call *c, int64_t n, bool add, void *y) {
    const nc_tensor *x = c->in[0], *index = c->in[1];
    int64_t planes = x->dims[0] * x->dims[1], bad, m = nc_tensor_numel(x);
    if (m != nc_tensor_numel(index))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "there are %lld indices for %lld elements",
                           (long long)nc_tensor_numel(index), (long long)m);
    if (n == 0) return NC_OK;
    nc_code code = nck_pool_place(x->dtype, planes, m / planes, n, x->data, index->data, add, y, &bad, c->pool);
    if (code == NC_E_DATA)
        return nc_diag_set(c->diag, code, c->node, c->op, "index %lld is outside its plane", (long long)bad);
    return code;
}

static nc_code max_grad_run(const nc_call *c) { return placed(c, nc_tensor_numel(c->out[0]), true, c->out[0]->data); }

/* ---- MaxUnpool ---- */

static nc_code unpool_prepare(nc_prep *p) {
    nc_unpool *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    return nc_unpool_read(p->w, p->node, rank_of(p->node) - 2, s);
}

/* The tensor that undoes the pool, without data. */
static nc_tensor undone(const nc_unpool *s, const nc_tensor *x) {
    nc_tensor t = *x;
    for (int i = 0; i < s->n_spatial; i++) t.dims[i + 2] = (x->dims[i + 2] - 1) * s->strides[i] + s->more[i];
    nc_dense_strides(t.dims, t.rank, t.strides);
    t.data = NULL;
    return t;
}

static size_t unpool_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)out;
    (void)n_out;
    if (n_in < 3) return 0;
    nc_tensor t = undone(state, &in[0]);
    size_t bytes;
    return nc_tensor_bytes(t.dtype, t.dims, t.rank, &bytes) ? bytes : 0;
}

static nc_code unpool_run(const nc_call *c) {
    const nc_unpool *s = c->state;
    nc_tensor t = undone(s, c->in[0]), *y = c->out[0];
    bool same = true;
    for (int i = 0; i < t.rank; i++) {
        if (y->dims[i] < t.dims[i])
            return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "output_shape has %lld where %lld is needed",
                               (long long)y->dims[i], (long long)t.dims[i]);
        same = same && y->dims[i] == t.dims[i];
    }
    if (same) return placed(c, nc_tensor_numel(y), false, y->data);
    const double zero = 0;
    size_t elem = nc_dtype_bytes(y->dtype);
    NC_TRY(placed(c, nc_tensor_numel(&t), false, c->workspace));
    nck_fill(y->rank, y->dims, elem, &zero, y->data, y->strides, c->pool);
    nck_copy(t.rank, t.dims, elem, c->workspace, t.strides, y->data, y->strides, c->pool);
    return NC_OK;
}

NC_WIDENED_HALF(max, NULL)
NC_WIDENED_HALF(average, NULL)
NC_WIDENED_HALF(average_grad, NULL)
NC_WIDENED_HALF(lp, NULL)
NC_WIDENED_HALF(max_grad, NULL)
NC_WIDENED_HALF(unpool, unpool_workspace)

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define ROWS(name, more, ...)                                                                           \
    {__VA_ARGS__, .types = T_WIDE | (more), .run = name##_run}, {                                       \
        __VA_ARGS__, .types = NC_WIDEN_HALF, .workspace = name##_half_workspace, .run = name##_half_run \
    }
#define PLACE_AS(fit, kind) \
    .fits = fit, .prepare = pool_prepare, .own = &(const nc_pool_kind) { kind }
#define PLACE(kind) PLACE_AS(nc_pool_fits, kind)
const nc_binding nc_pool_cpu[] = {
    ROWS(max, NC_BIT(NC_INT8) | NC_BIT(NC_UINT8), .op = "MaxPool", PLACE_AS(forward_fits, NC_POOL_GREATEST)),
    ROWS(average, 0, .op = "AveragePool", PLACE_AS(forward_fits, NC_POOL_MEANS)),
    ROWS(average, 0, .op = "SumPool", .domain = "nacre", PLACE(NC_POOL_SUMS)),
    ROWS(lp, 0, .op = "LpPool", PLACE(NC_POOL_MEANS)),
    ROWS(average_grad, 0, .op = "AveragePoolGrad", .domain = "nacre", PLACE(NC_POOL_GRADIENT)),
    ROWS(max_grad, 0, .op = "MaxPoolGrad", .domain = "nacre"),
    {.op = "MaxUnpool",
     .types = T_WIDE,
     .prepare = unpool_prepare,
     .fits = nc_pool_fits,
     .workspace = unpool_workspace,
     .run = unpool_run},
    {.op = "MaxUnpool",
     .types = NC_WIDEN_HALF,
     .prepare = unpool_prepare,
     .fits = nc_pool_fits,
     .workspace = unpool_half_workspace,
     .run = unpool_half_run},
    {0}};
