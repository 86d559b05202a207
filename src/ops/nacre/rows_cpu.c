/* ops/nacre/rows_cpu.c: nacre.ChainRows on the CPU: some rows of the formulas' result, or a part of a long one, and
 * what is done to them while they are in the cache. A softmax or norm has them where its result goes; a reduction in a
 * room of the tile program, and its parts of rows are reduced once more. */
#include "ops/nacre/rows_cpu.h"

#include "kernels/cpu/norm/norm.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/reduce/softmax.h"
#include "ops/lane_prog.h"
#include "ops/nacre/rows.h"
#include "ops/norm/rows.h"

enum { SHORT = 32 }; /* columns of rows that are reduced together */

typedef struct rows_state {
    nc_lane_prog lanes;
    nck_tile_prog prog;
    nc_rows_op op;
    int axis;
    double epsilon;
} rows_state;

/* A call: the shape that the formulas make, and where results go. */
typedef struct rows_call {
    const rows_state *s;
    nc_tensor shape;
    float *out; /* of reductions: (rows, parts) */
    int64_t parts;
    const float *scale, *bias;
} rows_call;

bool nc_rows_fits(const nc_node *n, const char **why) {
    nc_lane_prog p;
    bool ok = nc_lane_prog_body(&p, n->subs[0].graph) && p.compute == NC_FLOAT && p.n_out == 1;
    *why = p.why != NULL ? p.why : "the body makes no floats";
    return ok;
}

nc_code nc_rows_prepare(nc_prep *p) {
    rows_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    if (!nc_lane_prog_body(&s->lanes, p->node->subs[0].graph))
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", s->lanes.why);
    s->prog = nc_lane_prog_tile(&s->lanes);
    s->op = (nc_rows_op)nc_attr_int(p->node, "op");
    s->axis = (int)nc_attr_int(p->node, "axis");
    s->epsilon = nc_attr_float(p->node, "epsilon");
    p->state = s;
    p->strided_in = (1u << s->lanes.n_in) - 1;
    return NC_OK;
}

/* The shape that n operands broadcast to; false: they do not. */
static bool shape_of(const nc_tensor *const *in, int n, nc_tensor *shape) {
    nc_tensor_set(shape, NULL, NC_FLOAT, 0);
    for (int i = 0; i < n; i++)
        if (!nc_broadcast(shape->dims, shape->rank, in[i]->dims, in[i]->rank, shape->dims, &shape->rank)) return false;
    nc_dense_strides(shape->dims, shape->rank, shape->strides);
    return true;
}

static nck_tile_rows rows_of(const rows_state *s, const nc_tensor *shape) {
    nck_tile_rows r = {.rows = 1, .cols = 1};
    for (int i = 0; i < shape->rank; i++) *(i < s->axis ? &r.rows : &r.cols) *= shape->dims[i];
    return r;
}

/* Parts of rows that are reduced. */
size_t nc_rows_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const rows_state *s = state;
    const nc_tensor *operands[NCK_TILE_MAX_REG];
    nc_tensor shape;
    (void)n_in, (void)out, (void)n_out;
    for (int i = 0; i < s->lanes.n_in; i++) operands[i] = &in[i];
    if (s->op < NC_ROWS_SUM || !shape_of(operands, s->lanes.n_in, &shape)) return 0;
    nck_tile_rows r = rows_of(s, &shape);
    int64_t parts = nck_tile_parts(&r);
    return parts > 1 ? (size_t)(r.rows * parts) * sizeof(float) : 0;
}

static nc_tensor matrix(float *data, int64_t rows, int64_t cols) {
    nc_tensor t;
    nc_tensor_set(&t, data, NC_FLOAT, 2);
    t.dims[0] = rows, t.dims[1] = cols, t.strides[0] = cols, t.strides[1] = 1;
    return t;
}

static void then_softmax(const nck_tile_rows *r, int64_t row, int64_t part, float *x, int64_t n) {
    const rows_call *k = r->ctx;
    nc_tensor t = matrix(x, n / r->cols, r->cols);
    (void)row, (void)part;
    nck_softmax(k->s->op == NC_ROWS_SOFTMAX ? NCK_SOFTMAX : NCK_LOG_SOFTMAX, &t, &t, 1, NULL);
}

static void then_norm(const nck_tile_rows *r, int64_t row, int64_t part, float *x, int64_t n) {
    const rows_call *k = r->ctx;
    (void)row, (void)part;
    nck_norm_args a = {.type = NC_FLOAT,
                       .rows = n / r->cols,
                       .cols = r->cols,
                       .center = k->s->op == NC_ROWS_NORM,
                       .epsilon = k->s->epsilon,
                       .x = x,
                       .scale = k->scale,
                       .bias = k->bias,
                       .pick = {.mod = 1, .div = 1, .col_step = 1},
                       .y = x};
    nck_norm_rows(&a, NULL);
}

static nck_reduce_op reduction_of(const rows_state *s) { return (nck_reduce_op)(s->op - NC_ROWS_SUM); }

/* Whole rows, short ones together, or a part of one; a mean is a sum until its row is whole. */
static void then_reduce(const nck_tile_rows *r, int64_t row, int64_t part, float *x, int64_t n) {
    const rows_call *k = r->ctx;
    nck_reduce_op op = reduction_of(k->s);
    float *y = k->out + row * k->parts + part;
    if (k->parts > 1) {
        *y = nck_reduce_line(op == NCK_REDUCE_MEAN ? NCK_REDUCE_SUM : op, x, n);
        return;
    }
    nc_tensor t = matrix(x, n / r->cols, r->cols);
    if (r->cols <= SHORT && nck_reduce(op, &t, 2, y, NULL, NULL) == NC_OK) return;
    for (int64_t i = 0; i < t.dims[0]; i++) y[i] = nck_reduce_line(op, x + i * r->cols, r->cols);
}

static void reduce_rows(const nc_call *c, rows_call *k, nck_tile_rows *r) {
    nck_reduce_op op = reduction_of(k->s);
    float *y = c->out[0]->data;
    bool mean = op == NCK_REDUCE_MEAN;
    k->parts = nck_tile_parts(r);
    k->out = k->parts > 1 ? c->workspace : y;
    r->then = then_reduce;
    nck_tile_run_rows(&k->s->prog, c->in, &k->shape, r, c->pool);
    for (int64_t i = 0; k->parts != 1 && i < r->rows; i++) { /* of parts, or of nothing */
        y[i] = nck_reduce_line(mean ? NCK_REDUCE_SUM : op, k->out + i * k->parts, k->parts);
        if (mean) y[i] = (float)((double)y[i] / (double)r->cols);
    }
}

nc_code nc_rows_run(const nc_call *c) {
    const rows_state *s = c->state;
    int n = s->lanes.n_in;
    rows_call k = {.s = s};
    bool reduces = s->op >= NC_ROWS_SUM, fits = shape_of((const nc_tensor *const *)c->in, n, &k.shape);
    nck_tile_rows r = rows_of(s, &k.shape);
    int64_t made = reduces ? r.rows : r.rows * r.cols, want = nc_tensor_numel(c->out[0]);
    if (!fits)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "inputs of one shape, or spread to it, are expected");
    if (made != want)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "the inputs make %lld elements where %lld are expected",
                           (long long)made, (long long)want);
    r.ctx = &k;
    if (reduces) {
        reduce_rows(c, &k, &r);
        return NC_OK;
    }
    NC_TRY(nc_norm_counts(c, n, c->n_in, r.cols));
    if (c->n_in > n) k.scale = c->in[n]->data;
    if (c->n_in > n + 1) k.bias = c->in[n + 1]->data;
    r.y = c->out[0]->data;
    r.then = s->op < NC_ROWS_NORM ? then_softmax : then_norm;
    nck_tile_run_rows(&s->prog, c->in, &k.shape, &r, c->pool);
    return NC_OK;
}
