/* ops/scatter/scatter_cpu.c: CPU bindings of the scatter family over kernels/cpu/index. Indices are checked before
 * anything is written but the copy of data; a bad one is an error of the data that names it. */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/widen.h"

#include "kernels/cpu/index/index.h"

#include <string.h>

#define T_SUMMED (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

typedef struct picking {
    int64_t axis, batch;
    nck_combine how;
} picking;

static nc_code read_how(nc_prep *p, nck_combine *how) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *name = nc_node_attr(p->node, "reduction") != NULL ? nc_attr_str(p->node, "reduction") : "none";
    for (int k = 0; k < 5; k++) {
        if (strcmp(name, names[k]) != 0) continue;
        *how = (nck_combine)k;
        return NC_OK;
    }
    NC_FAIL(p->w, NC_E_UNSUPPORTED, "reduction is '%s', expected none, add, mul, max or min", name);
}

static nc_code prepare(nc_prep *p) {
    picking *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *batch = nc_node_attr(p->node, "batch_dims"), *axis = nc_node_attr(p->node, "axis");
    *s = (picking){.axis = axis != NULL ? axis->i : 0, .batch = batch != NULL ? batch->i : 0};
    NC_TRY(read_how(p, &s->how));
    p->state = s;
    return NC_OK;
}

static nc_code scatter_prepare(nc_prep *p) {
    p->over[0] = 1; /* indices and updates are read while the result is written */
    return prepare(p);
}

static nc_code answer(const nc_call *c, nc_code code, nck_bad_index bad) {
    if (code == NC_OK) return NC_OK;
    if (code != NC_E_DATA)
        return nc_diag_set(c->diag, code, c->node, c->op, "%s cannot be combined", nc_dtype_name(c->out[0]->dtype));
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "index %lld is out of range for an axis of %lld",
                       (long long)bad.index, (long long)bad.size);
}

static nc_code check_dims(const nc_call *c, int axis) {
    const nc_tensor *x = c->in[0], *at = c->in[1];
    for (int k = 0; k < x->rank; k++)
        if (k != axis && at->dims[k] > x->dims[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op,
                               "dim %d of indices is %lld, of data %lld: expected no more", k, (long long)at->dims[k],
                               (long long)x->dims[k]);
    return NC_OK;
}

static int axis_of(const nc_call *c) {
    int64_t axis = ((const picking *)c->state)->axis;
    return (int)(axis < 0 ? axis + c->in[0]->rank : axis);
}

static nc_code gather_elements_run(const nc_call *c) {
    nck_bad_index bad = {0};
    NC_TRY(check_dims(c, axis_of(c)));
    return answer(c, nck_gather_elements(c->in[0], c->in[1], axis_of(c), c->out[0]->data, &bad, c->pool), bad);
}

static void copy_data(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    size_t bytes = (size_t)nc_tensor_numel(x) * nc_dtype_bytes(x->dtype);
    if (bytes > 0 && x->data != y->data) memcpy(y->data, x->data, bytes);
}

static nc_code same_dims(const nc_call *c, const nc_tensor *a, const int64_t *dims, int rank) {
    bool same = a->rank == rank;
    for (int k = 0; same && k < rank; k++) same = a->dims[k] == dims[k];
    return same ? NC_OK
                : nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "updates has another shape than indices ask for");
}

static nc_code scatter_elements_run(const nc_call *c) {
    const picking *s = c->state;
    nck_bad_index bad = {0};
    NC_TRY(check_dims(c, axis_of(c)));
    NC_TRY(same_dims(c, c->in[2], c->in[1]->dims, c->in[1]->rank));
    copy_data(c);
    return answer(c, nck_scatter_elements(s->how, c->out[0], c->in[1], axis_of(c), c->in[2]->data, &bad, c->pool),
                  bad);
}

static nc_code check_batch(const nc_call *c, const nc_tensor *x, const nc_tensor *at, int64_t batch) {
    for (int k = 0; k < batch; k++)
        if (x->dims[k] != at->dims[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "batch dim %d is %lld in data, %lld in indices", k,
                               (long long)x->dims[k], (long long)at->dims[k]);
    return NC_OK;
}

static nc_code gather_nd_run(const nc_call *c) {
    const picking *s = c->state;
    nck_bad_index bad = {0};
    NC_TRY(check_batch(c, c->in[0], c->in[1], s->batch));
    return answer(c, nck_gather_nd(c->in[0], c->in[1], (int)s->batch, c->out[0]->data, &bad, c->pool), bad);
}

static nc_code gather_nd_grad_run(const nc_call *c) {
    const picking *s = c->state;
    const nc_tensor *dx = c->out[0];
    nck_bad_index bad = {0};
    NC_TRY(check_batch(c, dx, c->in[1], s->batch));
    memset(dx->data, 0, (size_t)nc_tensor_numel(dx) * nc_dtype_bytes(dx->dtype));
    return answer(c, nck_scatter_nd(NCK_ADD, dx, c->in[1], (int)s->batch, c->in[2]->data, &bad, c->pool), bad);
}

static nc_code scatter_nd_run(const nc_call *c) {
    const picking *s = c->state;
    const nc_tensor *x = c->in[0], *at = c->in[1];
    nck_bad_index bad = {0};
    int64_t dims[2 * NC_MAX_RANK], m = at->dims[at->rank - 1];
    int n = 0;
    for (int k = 0; k < at->rank - 1; k++) dims[n++] = at->dims[k];
    for (int64_t k = m; k < x->rank; k++) dims[n++] = x->dims[k];
    NC_TRY(same_dims(c, c->in[2], dims, n));
    copy_data(c);
    return answer(c, nck_scatter_nd(s->how, c->out[0], at, 0, c->in[2]->data, &bad, c->pool), bad);
}

/* The kernels for narrow types; indices are wide already. */
#define WIDENED(name)                                                                                             \
    static size_t name##_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, \
                                          int n_out) {                                                            \
        return nc_widen_workspace(T_NARROW, NULL, state, in, n_in, out, n_out);                                   \
    }                                                                                                             \
    static nc_code name##_narrow_run(const nc_call *c) { return nc_widen_run(T_NARROW, name##_run, c); }
WIDENED(scatter_elements)
WIDENED(scatter_nd)
WIDENED(gather_nd_grad)

static bool only_puts(const nc_node *n, const char **why) {
    *why = "updates are combined with data";
    const nc_attr *a = nc_node_attr(n, "reduction");
    return a == NULL || strcmp(nc_attr_str(n, "reduction"), "none") == 0;
}

static bool is_narrow_grad(const nc_node *n, const char **why) {
    *why = "dY is wide";
    return n->out[0]->type != NULL && (NC_WIDEN_HALF & NC_BIT(n->out[0]->type->elem)) != 0;
}

#define SCATTER(name, fn)                                                                                             \
    {.op = name, .types = T_WHOLE, .fits = only_puts, .prepare = scatter_prepare, .run = fn##_run},                   \
        {.op = name, .types = T_SUMMED, .prepare = scatter_prepare, .run = fn##_run}, {                               \
        .op = name, .types = T_NARROW, .prepare = prepare, .workspace = fn##_narrow_workspace, .run = fn##_narrow_run \
    }

const nc_binding nc_scatter_cpu[] = {
    {.op = "GatherElements", .types = T_WHOLE, .prepare = prepare, .run = gather_elements_run},
    {.op = "GatherND", .types = T_WHOLE, .prepare = prepare, .run = gather_nd_run},
    {.op = "GatherNDGrad",
     .domain = "nacre",
     .fits = is_narrow_grad,
     .prepare = prepare,
     .workspace = gather_nd_grad_narrow_workspace,
     .run = gather_nd_grad_narrow_run},
    {.op = "GatherNDGrad", .domain = "nacre", .prepare = prepare, .run = gather_nd_grad_run},
    SCATTER("ScatterElements", scatter_elements),
    SCATTER("Scatter", scatter_elements),
    SCATTER("ScatterND", scatter_nd),
    {0}};
