/* ops/reduce/reduce_cpu.c: CPU bindings of the reductions over kernels/cpu/reduce, and the kernel of nacre.SumTo.
 * Axes given as an input are read in the run. Types without a loop of their own go through a wider one (ops/widen.h).
 * */
#include "kernels/cpu/reduce/reduce.h"

#include "kernels/cpu/move/move.h"
#include "ops/card.h"
#include "ops/reduce/along_cpu.h"
#include "ops/reduce/reduce.h"
#include "ops/widen.h"

#include <string.h>

typedef struct reduction {
    nck_reduce_op op;
    bool noop;
    int n_axes; /* of the attribute */
    int64_t axes[NC_MAX_RANK];
} reduction;

/* The row's own is an nck_reduce_op. */
static nc_code reduce_prepare(nc_prep *p) {
    reduction *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    const nc_attr *axes = nc_node_attr(p->node, "axes"), *noop = nc_node_attr(p->node, "noop_with_empty_axes");
    r->op = *(const nck_reduce_op *)p->own;
    r->noop = noop != NULL && noop->i != 0;
    if (axes != NULL && axes->n > NC_MAX_RANK)
        NC_FAIL(p->w, NC_E_SHAPE, "%d axes, at most %d are supported", axes->n, NC_MAX_RANK);
    for (int i = 0; axes != NULL && i < axes->n; i++) r->axes[r->n_axes++] = axes->ints[i];
    p->state = r;
    p->strided_in = 1;
    return NC_OK;
}

/* Elements of in[0] per element of out[0]. */
size_t nc_reduce_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    int64_t n = nc_tensor_numel(&out[0]);
    (void)state;
    (void)n_in;
    (void)n_out;
    return n > 0 ? nck_reduce_workspace(n, nc_tensor_numel(&in[0]) / n) : 0;
}

static nc_code read_axes(const nc_call *c, nc_axes *mask) {
    const reduction *r = c->state;
    int64_t axes[NC_MAX_RANK];
    int n = r->n_axes, rank = c->in[0]->rank;
    memcpy(axes, r->axes, sizeof axes);
    if (c->n_in > 1 && c->in[1]->data != NULL) {
        int64_t count = nc_tensor_numel(c->in[1]);
        if (count > NC_MAX_RANK)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%lld axes are too many", (long long)count);
        n = (int)count;
        memcpy(axes, c->in[1]->data, (size_t)n * sizeof *axes);
    }
    if (!nc_reduce_mask(axes, n, rank, mask))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "an axis is out of range for %d dims", rank);
    if (n == 0 && !r->noop) *mask = nc_axes_below(rank);
    return NC_OK;
}

/* The kept dims of x fill y. */
static bool sizes_fit(const nc_call *c, nc_axes mask) {
    int64_t kept = 1;
    for (int i = 0; i < c->in[0]->rank; i++)
        if (!(mask >> i & 1)) kept *= c->in[0]->dims[i];
    return kept == nc_tensor_numel(c->out[0]);
}

static nc_code reduce_run(const nc_call *c) {
    const reduction *r = c->state;
    nc_axes mask;
    NC_TRY(read_axes(c, &mask));
    if (!sizes_fit(c, mask))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the axes do not give the planned shape");
    return nck_reduce(r->op, c->in[0], mask, c->out[0]->data, c->workspace, c->pool);
}

/* ---- narrow types ---- */

#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

size_t nc_reduce_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(T_NARROW, 0, nc_reduce_workspace, state, in, n_in, out, n_out);
}

/* The extreme over nothing is the end of the type, which the wide type does not know. */
static void fill_end(const nc_call *c, bool lowest) {
    const nc_tensor *y = c->out[0];
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        uint32_t u32;
    } v = {0};
    switch (y->dtype) {
    case NC_INT8: v.i8 = lowest ? INT8_MIN : INT8_MAX; break;
    case NC_INT16: v.i16 = lowest ? INT16_MIN : INT16_MAX; break;
    case NC_UINT8: v.u8 = lowest ? 0 : UINT8_MAX; break;
    case NC_UINT16: v.u16 = lowest ? 0 : UINT16_MAX; break;
    case NC_UINT32: v.u32 = lowest ? 0 : UINT32_MAX; break;
    default: v.u8 = !lowest; break; /* bool */
    }
    nck_fill(y->rank, y->dims, nc_dtype_bytes(y->dtype), &v, y->data, y->strides, c->pool);
}

static nc_code reduce_narrow_run(const nc_call *c) {
    const reduction *r = c->state;
    bool extreme = r->op == NCK_REDUCE_MAX || r->op == NCK_REDUCE_MIN;
    if (extreme && !nc_dtype_is_float(c->out[0]->dtype) && nc_tensor_numel(c->in[0]) == 0) {
        fill_end(c, r->op == NCK_REDUCE_MAX);
        return NC_OK;
    }
    if (extreme && nc_dtype_bytes(c->out[0]->dtype) == 1) {
        nc_axes mask;
        NC_TRY(read_axes(c, &mask));
        if (sizes_fit(c, mask) && nck_reduce_bytes(r->op == NCK_REDUCE_MIN, c->in[0], mask, c->out[0]->data, c->pool))
            return NC_OK;
    }
    return nc_widen_run(T_NARROW, 0, reduce_run, c);
}

/* ---- nacre.SumTo ---- */

nc_code nc_reduce_sum_to_prepare(nc_prep *p) {
    p->strided_in = 1;
    return NC_OK;
}

nc_code nc_reduce_sum_to_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int lead = x->rank - y->rank;
    nc_axes mask = 0;
    bool fits = lead >= 0;
    for (int i = 0; fits && i < x->rank; i++) {
        int64_t to = i < lead ? -1 : y->dims[i - lead];
        if (to == x->dims[i]) continue;
        fits = i < lead || to == 1;
        mask |= nc_axes_of(i);
    }
    if (!fits) return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the shape does not broadcast to X's");
    return nck_reduce(NCK_REDUCE_SUM, x, mask, y->data, c->workspace, c->pool);
}

nc_code nc_reduce_sum_to_narrow_run(const nc_call *c) { return nc_widen_run(T_NARROW, 0, nc_reduce_sum_to_run, c); }

#define T_WIDE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
#define OWN(kind, value) \
    .own = &(const kind) { value }
#define ROWS(name, op_of)                                                                    \
    {.op = name,                                                                             \
     .types = T_WIDE,                                                                        \
     OWN(nck_reduce_op, op_of),                                                              \
     .prepare = reduce_prepare,                                                              \
     .workspace = nc_reduce_workspace,                                                       \
     .run = reduce_run},                                                                     \
    {                                                                                        \
        .op = name, .types = T_NARROW, OWN(nck_reduce_op, op_of), .prepare = reduce_prepare, \
        .workspace = nc_reduce_narrow_workspace, .run = reduce_narrow_run                    \
    }
#define ARG(name, row)                                                                                   \
    {.op = name, .types = T_WIDE, OWN(nc_arg_row, row), .prepare = nc_arg_prepare, .run = nc_arg_run}, { \
        .op = name, .types = T_NARROW, OWN(nc_arg_row, row), .prepare = nc_arg_prepare,                  \
        .workspace = nc_arg_narrow_workspace, .run = nc_arg_narrow_run                                   \
    }
#define CUMULATE(name, dom, row)                                                                                 \
    {.op = name,                                                                                                 \
     .domain = dom,                                                                                              \
     .types = T_WIDE,                                                                                            \
     OWN(nc_cumulate_row, row),                                                                                  \
     .prepare = nc_cumulate_prepare,                                                                             \
     .run = nc_cumulate_run},                                                                                    \
    {                                                                                                            \
        .op = name, .domain = dom, .types = T_NARROW, OWN(nc_cumulate_row, row), .prepare = nc_cumulate_prepare, \
        .workspace = nc_cumulate_narrow_workspace, .run = nc_cumulate_narrow_run                                 \
    }

const nc_binding nc_reduce_cpu[] = {ROWS("ReduceSum", NCK_REDUCE_SUM),
                                    ROWS("ReduceMean", NCK_REDUCE_MEAN),
                                    ROWS("ReduceMax", NCK_REDUCE_MAX),
                                    ROWS("ReduceMin", NCK_REDUCE_MIN),
                                    ROWS("ReduceProd", NCK_REDUCE_PROD),
                                    ARG("ArgMax", NC_ARG_MAX),
                                    ARG("ArgMin", NC_ARG_MIN),
                                    CUMULATE("CumSum", NULL, NC_CUMULATE_SUM),
                                    CUMULATE("CumProd", NULL, NC_CUMULATE_PRODUCT),
                                    CUMULATE("CumProd", "nacre", NC_CUMULATE_PRODUCT),
                                    {0}};
