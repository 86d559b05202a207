/* ops/index/index_cpu.c: CPU bindings of the index family over kernels/cpu/move. Indices are checked before anything is
 * written; a bad one is an error of the data that names it. */
#include "ops/card.h"
#include "ops/index/index.h"
#include "ops/widen.h"

#include "kernels/cpu/move/move.h"

static nc_code axis_prepare(nc_prep *p) {
    int64_t *axis = nc_arena_alloc(p->arena, sizeof *axis);
    NC_NEED(p->w, axis);
    *axis = nc_attr_int(p->node, "axis");
    p->state = axis;
    return NC_OK;
}

static nc_code gather_prepare(nc_prep *p) {
    NC_TRY(axis_prepare(p));
    p->strided_in = p->unaligned_in = 1;
    return NC_OK;
}

static nc_code bad_index(const nc_call *c, nc_code code, int64_t bad, int64_t size) {
    if (code != NC_E_DATA)
        return nc_diag_set(c->diag, code, c->node, c->op, "%s cannot be done", nc_dtype_name(c->out[0]->dtype));
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "index %lld is out of range for an axis of %lld",
                       (long long)bad, (long long)size);
}

static int64_t product(const int64_t *dims, int n) {
    int64_t p = 1;
    for (int k = 0; k < n; k++) p *= dims[k];
    return p;
}

static int64_t index_at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Data with strides: one copy of a slice per index. out's dims are data's with the index dims in the place of the
 * axis. */
static nc_code gather_strided(const nc_call *c, int64_t axis) {
    const nc_tensor *x = c->in[0], *at = c->in[1], *y = c->out[0];
    int64_t n = nc_tensor_numel(at), dims[NC_MAX_RANK], from[NC_MAX_RANK], to[NC_MAX_RANK];
    size_t bytes = nc_dtype_bytes(x->dtype);
    int64_t inner = product(x->dims + axis + 1, x->rank - (int)axis - 1);
    for (int64_t i = 0; i < n; i++)
        if (index_at(at, i) < -x->dims[axis] || index_at(at, i) >= x->dims[axis])
            return bad_index(c, NC_E_DATA, index_at(at, i), x->dims[axis]);
    int64_t step = n * inner;
    for (int k = x->rank - 1; k >= 0; k--) {
        dims[k] = k == axis ? 1 : x->dims[k];
        from[k] = x->strides[k];
        to[k] = k > axis ? product(x->dims + k + 1, x->rank - k - 1) : step;
        if (k < axis) step *= x->dims[k];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t k = index_at(at, i) < 0 ? index_at(at, i) + x->dims[axis] : index_at(at, i);
        nck_copy(x->rank, dims, bytes, (const char *)x->data + k * x->strides[axis] * (int64_t)bytes, from,
                 (char *)y->data + i * inner * (int64_t)bytes, to, c->pool);
    }
    return NC_OK;
}

static nc_code gather_run(const nc_call *c) {
    const nc_tensor *x = c->in[0], *at = c->in[1];
    int64_t axis = *(const int64_t *)c->state, bad = 0;
    if (axis < 0) axis += x->rank;
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    if (!nc_is_dense(x)) return gather_strided(c, axis);
    size_t inner = (size_t)product(x->dims + axis + 1, x->rank - (int)axis - 1) * nc_dtype_bytes(x->dtype);
    nc_code code = nck_gather(product(x->dims, (int)axis), x->dims[axis], inner, x->data, at->dtype,
                              nc_tensor_numel(at), at->data, c->out[0]->data, &bad, c->pool);
    return code == NC_OK ? NC_OK : bad_index(c, code, bad, x->dims[axis]);
}

/* ---- GatherGrad ---- */

/* onto: dX holds a sum. */
static nc_code gather_grad_add(const nc_call *c, bool onto) {
    const nc_tensor *at = c->in[1], *dy = c->in[2], *dx = c->out[0];
    int64_t axis = *(const int64_t *)c->state, bad = 0;
    if (axis < 0) axis += dx->rank;
    NC_TRY(nc_gather_grad_check(c, (int)axis));
    if (nc_tensor_numel(dx) == 0) return NC_OK;
    nc_code code = nck_gather_grad(dx->dtype, product(dx->dims, (int)axis), dx->dims[axis],
                                   product(dx->dims + axis + 1, dx->rank - (int)axis - 1), dx->data, onto,
                                   at->dtype, nc_tensor_numel(at), at->data, dy->data, &bad, c->pool);
    return code == NC_OK ? NC_OK : bad_index(c, code, bad, dx->dims[axis]);
}

/* Half types are summed in float. */
static nc_code gather_grad_wide_run(const nc_call *c) { return gather_grad_add(c, false); }
NC_WIDENED(gather_grad, NC_WIDEN_HALF, gather_grad_wide_run, NULL)

static nc_code gather_grad_onto_prepare(nc_prep *p) {
    NC_TRY(axis_prepare(p));
    p->over[0] = 1;
    return NC_OK;
}

static nc_code gather_grad_onto_run(const nc_call *c) { return gather_grad_add(c, nc_call_adds(c, 0, 3)); }

/* ---- NonZero ---- */

static nc_code nonzero_prepare(nc_prep *p) {
    p->strided_in = 1;
    return NC_OK;
}

static size_t nonzero_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_nonzero_workspace(nc_tensor_numel(&in[0]));
}

static nc_code nonzero_run(const nc_call *c) {
    c->sizes[0] = c->in[0]->rank;
    c->sizes[1] = nck_nonzero(c->in[0], c->out[0]->data, c->workspace, c->pool);
    return NC_OK;
}

const nc_binding nc_index_cpu[] = {
    {.op = "Gather", .kind = NC_K_STATIC, .types = T_WHOLE, .prepare = gather_prepare, .run = gather_run},
    {.op = "GatherGrad",
     .domain = "nacre",
     .kind = NC_K_STATIC,
     .prepare = axis_prepare,
     .workspace = gather_grad_workspace,
     .run = gather_grad_run},
    {.op = "GatherGradOnto",
     .domain = "nacre",
     .kind = NC_K_STATIC,
     .prepare = gather_grad_onto_prepare,
     .run = gather_grad_onto_run},
    {.op = "NonZero",
     .kind = NC_K_BOUNDED,
     .types = T_WHOLE,
     .prepare = nonzero_prepare,
     .workspace = nonzero_workspace,
     .run = nonzero_run},
    {0}};
