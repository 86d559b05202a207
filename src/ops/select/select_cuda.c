/* ops/select/select_cuda.c: CUDA bindings of the select family. The depth of OneHot and the K of TopK are host
 * arguments. */
#include "kernels/cuda/compact.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/place.h"
#include "kernels/cuda/topk.h"
#include "kernels/cuda/unique.h"

#include "ops/binding.h"
#include "ops/card.h"

typedef struct one_hot {
    int64_t axis;
    nck_cuda_place kernel;
} one_hot;

static bool one_hot_fits(const nc_node *n, const char **why) {
    const nc_type *at = n->in[0]->type, *y = n->out[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return at != NULL && y != NULL && y->kind == NC_T_TENSOR && nck_cuda_type_name(at->elem) != NULL &&
           nck_cuda_move_define(nc_dtype_bytes(y->elem)) != NULL;
}

static nc_code one_hot_prepare(nc_prep *p) {
    one_hot *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (one_hot){.axis = nc_attr_int(p->node, "axis")};
    p->state = s;
    return nck_cuda_place_prepare(p->device, "one_hot", p->node->in[0]->type->elem,
                                  nc_dtype_bytes(p->node->out[0]->type->elem), &s->kernel, &p->w->diag);
}

static nc_code one_hot_run(const nc_call *c) {
    const one_hot *s = c->state;
    const nc_tensor *y = c->out[0];
    int64_t axis = s->axis < 0 ? s->axis + y->rank : s->axis, outer = 1, inner = 1;
    if (nc_tensor_numel(c->in[2]) != 2)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "values has %lld elements, expected off and on",
                           (long long)nc_tensor_numel(c->in[2]));
    for (int k = 0; k < y->rank; k++)
        if (k != axis) *(k < axis ? &outer : &inner) *= y->dims[k];
    return nck_cuda_one_hot_run(&s->kernel, nck_cuda_at_call(c), outer, y->dims[axis], inner, c->in[0]->data,
                                c->in[2]->data, y->data);
}

/* ---- TopK ---- */

typedef struct topk {
    int64_t axis;
    bool largest;
    nck_cuda_topk kernel;
} topk;

static bool can_hold(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return x != NULL && x->kind == NC_T_TENSOR && nck_cuda_type_name(x->elem) != NULL;
}

static nc_code topk_prepare(nc_prep *p) {
    topk *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *largest = nc_node_attr(p->node, "largest");
    *s = (topk){.axis = nc_attr_int(p->node, "axis"), .largest = largest == NULL || largest->i != 0};
    p->state = s;
    return nck_cuda_topk_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

static nck_topk topk_of(const topk *s, const nc_tensor *x, const nc_tensor *y) {
    int axis = (int)(s->axis < 0 ? s->axis + x->rank : s->axis);
    nck_topk t = {.type = x->dtype, .outer = 1, .axis = x->dims[axis], .inner = 1, .k = y->dims[axis]};
    for (int k = 0; k < x->rank; k++)
        if (k != axis) *(k < axis ? &t.outer : &t.inner) *= x->dims[k];
    t.largest = s->largest;
    return t;
}

static size_t topk_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)n_in, (void)n_out;
    nck_topk t = topk_of(state, &in[0], &out[0]);
    return nck_cuda_topk_workspace(t.outer * t.inner, t.axis, t.k);
}

static nc_code topk_run(const nc_call *c) {
    const topk *s = c->state;
    nck_topk t = topk_of(s, c->in[0], c->out[0]);
    t.x = c->in[0]->data, t.values = c->out[0]->data, t.indices = c->n_out > 1 ? c->out[1]->data : NULL;
    if (t.k > t.axis)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "K is %lld, the axis has %lld elements", (long long)t.k,
                           (long long)t.axis);
    return nck_cuda_topk_run(&s->kernel, nck_cuda_at_call(c), &t, c->workspace);
}

/* ---- Compress ---- */

typedef struct compress {
    int64_t axis;
    bool has_axis;
    nck_cuda_compact kernel;
} compress;

static bool can_compress(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return x != NULL && x->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(x->elem)) != NULL;
}

static nc_code compress_prepare(nc_prep *p) {
    compress *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *axis = nc_node_attr(p->node, "axis");
    *s = (compress){.axis = axis != NULL ? axis->i : 0, .has_axis = axis != NULL};
    p->state = s;
    return nck_cuda_compact_prepare(p->device, NC_BOOL, nc_dtype_bytes(p->node->in[0]->type->elem), &s->kernel,
                                    &p->w->diag);
}

static size_t compress_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_compress_workspace(nc_tensor_numel(&in[1]));
}

static nc_code compress_run(const nc_call *c) {
    const compress *s = c->state;
    const nc_tensor *x = c->in[0];
    int axis = s->has_axis ? (int)(s->axis < 0 ? s->axis + x->rank : s->axis) : 0;
    nck_cuda_compress a = {.outer = 1,
                           .axis = s->has_axis ? x->dims[axis] : nc_tensor_numel(x),
                           .inner = 1,
                           .n_flags = nc_tensor_numel(c->in[1]),
                           .x = x->data,
                           .flags = c->in[1]->data,
                           .y = c->out[0]->data};
    nck_cuda_compact_sizes sizes = {.rank = c->out[0]->rank, .axis = axis};
    for (int k = 0; s->has_axis && k < x->rank; k++) {
        sizes.dims[k] = x->dims[k];
        if (k != axis) *(k < axis ? &a.outer : &a.inner) *= x->dims[k];
    }
    return nck_cuda_compress_run(&s->kernel, c, &a, &sizes);
}

/* ---- Unique ---- */

typedef struct unique {
    int64_t axis;
    bool has_axis, sorted;
    nck_cuda_unique kernel;
} unique;

static nc_code unique_prepare(nc_prep *p) {
    unique *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *axis = nc_node_attr(p->node, "axis");
    *s = (unique){
        .axis = axis != NULL ? axis->i : 0, .has_axis = axis != NULL, .sorted = nc_attr_int(p->node, "sorted") != 0};
    p->state = s;
    return nck_cuda_unique_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

/* x as (outer, n, inner), and the dims of result 0. */
static nck_cuda_unique_args unique_of(const unique *s, const nc_tensor *x, nck_cuda_compact_sizes *sizes) {
    int axis = s->has_axis ? (int)(s->axis < 0 ? s->axis + x->rank : s->axis) : 0;
    nck_cuda_unique_args a = {.outer = 1, .n = 1, .inner = 1, .sorted = s->sorted};
    *sizes = (nck_cuda_compact_sizes){.rank = s->has_axis ? x->rank : 1, .axis = axis};
    for (int k = 0; k < x->rank; k++) {
        *(!s->has_axis || k == axis ? &a.n : k < axis ? &a.outer : &a.inner) *= x->dims[k];
        sizes->dims[k] = x->dims[k];
    }
    return a;
}

static size_t unique_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    nck_cuda_compact_sizes sizes;
    (void)n_in, (void)out, (void)n_out;
    return nck_cuda_unique_workspace(unique_of(state, &in[0], &sizes).n);
}

static nc_code unique_run(const nc_call *c) {
    const unique *s = c->state;
    nck_cuda_compact_sizes sizes;
    nck_cuda_unique_args a = unique_of(s, c->in[0], &sizes);
    int64_t **const to[] = {NULL, &a.first, &a.inverse, &a.count};
    a.n_out = c->n_out, a.x = c->in[0]->data, a.y = c->out[0]->data;
    for (int i = 1; i < c->n_out; i++) *to[i] = c->out[i]->data;
    return nck_cuda_unique_run(&s->kernel, nck_cuda_at_call(c), &a, &sizes, c->sizes, c->workspace);
}

const nc_binding nc_select_cuda[] = {
    {.op = "OneHot", .fits = one_hot_fits, .prepare = one_hot_prepare, .run = one_hot_run},
    {.op = "TopK", .fits = can_hold, .prepare = topk_prepare, .workspace = topk_workspace, .run = topk_run},
    {.op = "Compress",
     .kind = NC_K_BOUNDED,
     .fits = can_compress,
     .prepare = compress_prepare,
     .workspace = compress_workspace,
     .run = compress_run},
    {.op = "Unique",
     .kind = NC_K_BOUNDED,
     .fits = can_hold,
     .prepare = unique_prepare,
     .workspace = unique_workspace,
     .run = unique_run},
    {0}};
