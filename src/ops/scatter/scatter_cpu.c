/* ops/scatter/scatter_cpu.c: CPU bindings of the scatter family over kernels/cpu/index. Indices are checked before
 * anything is written but the copy of data; a bad one is an error of the data that names it. */
#include "ops/binding.h"
#include "ops/card.h"
#include "ops/scatter/picking.h"
#include "ops/widen.h"

#include <string.h>

#define T_SUMMED (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT64))
#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

static nc_code prepare(nc_prep *p) {
    nc_picking *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    NC_TRY(nc_picking_read(p, s));
    p->state = s;
    return NC_OK;
}

static nc_code scatter_prepare(nc_prep *p) {
    p->over[0] = 1; /* indices and updates are read while the result is written */
    return prepare(p);
}

/* Indices of elements are often expanded, and read as that. */
static nc_code elements_prepare(nc_prep *p) {
    p->strided_in = 1u << 1;
    return prepare(p);
}

static nc_code scatter_elements_prepare(nc_prep *p) {
    NC_TRY(scatter_prepare(p));
    return elements_prepare(p);
}

static nc_code answer(const nc_call *c, nc_code code, nck_bad_index bad) {
    if (code == NC_OK) return NC_OK;
    if (code != NC_E_DATA)
        return nc_diag_set(c->diag, code, c->node, c->op, "%s cannot be combined", nc_dtype_name(c->out[0]->dtype));
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "index %lld is out of range for an axis of %lld",
                       (long long)bad.index, (long long)bad.size);
}

static nc_code gather_elements_run(const nc_call *c) {
    nck_bad_index bad = {0};
    int axis = nc_picking_axis(c->state, c->in[0]);
    NC_TRY(nc_picking_check_elements(c, axis));
    return answer(c, nck_gather_elements(c->in[0], c->in[1], axis, c->out[0]->data, &bad, c->pool), bad);
}

static void copy_data(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    size_t bytes = (size_t)nc_tensor_numel(x) * nc_dtype_bytes(x->dtype);
    if (bytes > 0 && x->data != y->data) memcpy(y->data, x->data, bytes);
}

static nc_code scatter_elements_run(const nc_call *c) {
    const nc_picking *s = c->state;
    nck_bad_index bad = {0};
    int axis = nc_picking_axis(s, c->in[0]);
    NC_TRY(nc_picking_check_elements(c, axis));
    copy_data(c);
    return answer(c, nck_scatter_elements(s->how, c->out[0], c->in[1], axis, c->in[2]->data, &bad, c->pool), bad);
}

static nc_code gather_nd_run(const nc_call *c) {
    const nc_picking *s = c->state;
    nck_bad_index bad = {0};
    NC_TRY(nc_picking_check_batch(c, c->in[0], c->in[1], s->batch));
    return answer(c, nck_gather_nd(c->in[0], c->in[1], (int)s->batch, c->out[0]->data, &bad, c->pool), bad);
}

static nc_code gather_nd_grad_run(const nc_call *c) {
    const nc_picking *s = c->state;
    const nc_tensor *dx = c->out[0];
    nck_bad_index bad = {0};
    NC_TRY(nc_picking_check_batch(c, dx, c->in[1], s->batch));
    NC_TRY(nc_picking_check_rows(c, dx, s->batch));
    memset(dx->data, 0, (size_t)nc_tensor_numel(dx) * nc_dtype_bytes(dx->dtype));
    return answer(c, nck_scatter_nd(NCK_ADD, dx, c->in[1], (int)s->batch, c->in[2]->data, &bad, c->pool), bad);
}

static nc_code scatter_nd_run(const nc_call *c) {
    const nc_picking *s = c->state;
    nck_bad_index bad = {0};
    NC_TRY(nc_picking_check_rows(c, c->in[0], 0));
    copy_data(c);
    return answer(c, nck_scatter_nd(s->how, c->out[0], c->in[1], 0, c->in[2]->data, &bad, c->pool), bad);
}

/* The kernels for narrow types; indices are wide already. */
#define WIDENED(name) NC_WIDENED(name##_narrow, T_NARROW, name##_run, NULL)
WIDENED(scatter_elements)
WIDENED(scatter_nd)
WIDENED(gather_nd_grad)

static bool is_narrow_grad(const nc_node *n, const char **why) {
    *why = "dY is wide";
    return n->out[0]->type != NULL && (NC_WIDEN_HALF & NC_BIT(n->out[0]->type->elem)) != 0;
}

#define SCATTER(name, how, fn)                                                                                        \
    {.op = name, .types = T_WHOLE, .fits = nc_picking_only_puts, .prepare = how, .run = fn##_run},                    \
        {.op = name, .types = T_SUMMED, .prepare = how, .run = fn##_run}, {                                           \
        .op = name, .types = T_NARROW, .prepare = prepare, .workspace = fn##_narrow_workspace, .run = fn##_narrow_run \
    }

const nc_binding nc_scatter_cpu[] = {
    {.op = "GatherElements", .types = T_WHOLE, .prepare = elements_prepare, .run = gather_elements_run},
    {.op = "GatherND", .types = T_WHOLE, .prepare = prepare, .run = gather_nd_run},
    {.op = "GatherNDGrad",
     .domain = "nacre",
     .fits = is_narrow_grad,
     .prepare = prepare,
     .workspace = gather_nd_grad_narrow_workspace,
     .run = gather_nd_grad_narrow_run},
    {.op = "GatherNDGrad", .domain = "nacre", .prepare = prepare, .run = gather_nd_grad_run},
    SCATTER("ScatterElements", scatter_elements_prepare, scatter_elements),
    SCATTER("Scatter", scatter_elements_prepare, scatter_elements),
    SCATTER("ScatterND", scatter_prepare, scatter_nd),
    {0}};
