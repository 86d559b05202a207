/* ops/reduce/reduce_cuda.c: CUDA bindings of the reductions and of nacre.SumTo over kernels/cuda/reduce.h. Axes given
 * as an input are a host argument, read when the kernel is queued. */
#include "kernels/cuda/reduce.h"

#include "ops/card.h"
#include "ops/reduce/along.h"
#include "ops/reduce/along_cuda.h"
#include "ops/reduce/reduce.h"

typedef struct reduction {
    bool noop; /* no axes: nothing is reduced, else all */
    int n_axes;
    int64_t axes[NC_MAX_RANK];
    nck_cuda_reduce kernel;
} reduction;

/* Which types the kernels hold; bools have a largest and a smallest, but no sum. */
static bool reduce_fits(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_type_name(t->elem) != NULL;
}

/* The row's own is an nck_reduce_op. */
static nc_code reduce_prepare(nc_prep *p) {
    reduction *r = nc_arena_alloc(p->arena, sizeof *r);
    NC_NEED(p->w, r);
    *r = (reduction){0};
    const nc_node *n = p->node;
    const nc_attr *axes = nc_node_attr(n, "axes"), *noop = nc_node_attr(n, "noop_with_empty_axes");
    r->noop = noop != NULL && noop->i != 0;
    if (axes != NULL && axes->n > NC_MAX_RANK)
        NC_FAIL(p->w, NC_E_SHAPE, "%d axes, at most %d are supported", axes->n, NC_MAX_RANK);
    for (int i = 0; axes != NULL && i < axes->n; i++) r->axes[r->n_axes++] = axes->ints[i];
    NC_TRY(nck_cuda_reduce_prepare(p->device, *(const nck_reduce_op *)p->own, n->in[0]->type->elem, &r->kernel,
                                   &p->w->diag));
    p->state = r;
    p->strided_in = 1;
    return NC_OK;
}

static size_t reduce_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    int64_t n = nc_tensor_numel(&out[0]);
    (void)state, (void)n_in, (void)n_out;
    return n > 0 ? nck_cuda_reduce_workspace(n, nc_tensor_numel(&in[0]) / n) : 0;
}

static nc_code read_axes(const nc_call *c, nc_axes *mask) {
    const reduction *r = c->state;
    const int64_t *axes = r->axes;
    int64_t n = r->n_axes;
    int rank = c->in[0]->rank;
    if (c->n_in > 1 && c->in[1]->data != NULL) {
        axes = c->in[1]->data;
        n = nc_tensor_numel(c->in[1]);
    }
    if (n > NC_MAX_RANK || !nc_reduce_mask(axes, (int)n, rank, mask))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "axes are out of range for %d dims", rank);
    if (n == 0 && !r->noop) *mask = nc_axes_below(rank);
    return NC_OK;
}

static nc_code reduce_run(const nc_call *c) {
    const reduction *r = c->state;
    nc_axes mask;
    int64_t kept = 1;
    NC_TRY(read_axes(c, &mask));
    for (int i = 0; i < c->in[0]->rank; i++)
        if (!(mask >> i & 1)) kept *= c->in[0]->dims[i];
    if (kept != nc_tensor_numel(c->out[0]))
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the axes do not give the planned shape");
    return nck_cuda_reduce_run(&r->kernel, nck_cuda_at_call(c), c->in[0], mask, c->out[0]->data, c->workspace);
}

/* The dims that broadcasting added or widened. */
static nc_code sum_to_run(const nc_call *c) {
    const reduction *r = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int lead = x->rank - y->rank;
    nc_axes mask = 0;
    bool fits = lead >= 0;
    for (int i = 0; fits && i < x->rank; i++) {
        bool same = i >= lead && y->dims[i - lead] == x->dims[i];
        if (!same) mask |= nc_axes_of(i);
        fits = same || i < lead || y->dims[i - lead] == 1;
    }
    if (!fits) return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the shape does not broadcast to X's");
    return nck_cuda_reduce_run(&r->kernel, nck_cuda_at_call(c), x, mask, y->data, c->workspace);
}

#define PLACE(op_of) \
    .fits = reduce_fits, .prepare = reduce_prepare, .own = &(const nck_reduce_op){op_of}, .workspace = reduce_workspace
#define ROW(name, op_of) \
    { .op = name, PLACE(op_of), .run = reduce_run, .half_through = true }
#define ARG(name, row)                                                                                                \
    {                                                                                                                 \
        .op = name, .fits = nc_along_cuda_fits, .workspace = nc_along_cuda_workspace, .prepare = nc_arg_cuda_prepare, \
        .run = nc_arg_cuda_run, .own = &(const nc_arg_row) {                                                          \
            row                                                                                                       \
        }                                                                                                             \
    }
#define CUMULATE(name, domain_name, row)                                                                     \
    {                                                                                                        \
        .op = name, .domain = domain_name, .fits = nc_along_cuda_fits, .workspace = nc_along_cuda_workspace, \
        .prepare = nc_cumulate_cuda_prepare, .run = nc_cumulate_cuda_run, .own = &(const nc_cumulate_row) {  \
            row                                                                                              \
        }                                                                                                    \
    }
const nc_binding nc_reduce_cuda[] = {ROW("ReduceSum", NCK_REDUCE_SUM),
                                     ROW("ReduceMean", NCK_REDUCE_MEAN),
                                     ROW("ReduceMax", NCK_REDUCE_MAX),
                                     ROW("ReduceMin", NCK_REDUCE_MIN),
                                     ROW("ReduceProd", NCK_REDUCE_PROD),
                                     {.op = "SumTo", .domain = "nacre", PLACE(NCK_REDUCE_SUM), .run = sum_to_run},
                                     ARG("ArgMax", NC_ARG_MAX),
                                     ARG("ArgMin", NC_ARG_MIN),
                                     CUMULATE("CumSum", NULL, NC_CUMULATE_SUM),
                                     CUMULATE("CumProd", NULL, NC_CUMULATE_PRODUCT),
                                     CUMULATE("CumProd", "nacre", NC_CUMULATE_PRODUCT),
                                     {0}};
