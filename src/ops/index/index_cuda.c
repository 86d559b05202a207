/* ops/index/index_cuda.c: CUDA bindings of Gather and its gradient over kernels/cuda/index.h, and of NonZero. Indices
 * out of range are told when the stream is next waited for. */
#include "kernels/cuda/compact.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/move.h"

#include "ops/card.h"
#include "ops/index/index.h"

typedef struct gathering {
    int64_t axis;
    nck_cuda_gather gather;
    nck_cuda_scatter scatter;
    nck_cuda_move move;
} gathering;

static bool can_gather(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "elements of this type are not moved by a GPU kernel";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_move_define(nc_dtype_bytes(t->elem)) != NULL;
}

static nc_code gather_prepare(nc_prep *p) {
    gathering *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (gathering){.axis = nc_attr_int(p->node, "axis")};
    p->state = s;
    p->strided_in = 3;
    p->strided_out = 1;
    return nck_cuda_gather_prepare(p->device, nc_dtype_bytes(p->node->in[0]->type->elem), &s->gather, &p->w->diag);
}

static int axis_of(const nc_call *c, const nc_tensor *x) {
    int64_t axis = ((const gathering *)c->state)->axis;
    return (int)(axis < 0 ? axis + x->rank : axis);
}

static nc_code gather_run(const nc_call *c) {
    const gathering *s = c->state;
    const nc_tensor *x = c->in[0];
    nck_cuda_pick p = nck_cuda_pick_slices(x, c->in[1], axis_of(c, x), c->out[0]);
    return nck_cuda_gather_run(&s->gather, c, &p, x->data, c->in[1]->data, c->out[0]->data);
}

/* ---- GatherGrad ---- */

static nc_code gather_grad_prepare(nc_prep *p) {
    gathering *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nc_dtype t = p->node->in[2]->type->elem;
    *s = (gathering){.axis = nc_attr_int(p->node, "axis")};
    p->state = s;
    NC_TRY(nck_cuda_move_prepare(p->device, nc_dtype_bytes(t), &s->move, &p->w->diag));
    return nck_cuda_scatter_prepare(p->device, t, &s->scatter, &p->w->diag);
}

static bool can_add(const nc_node *n, const char **why) {
    const nc_type *t = n->in[2]->type;
    *why = "a type that GPU kernels cannot hold";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_type_name(t->elem) != NULL;
}

static size_t gather_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_scatter_workspace(NCK_ADD, nc_tensor_numel(&in[1]), 0);
}

static nc_code add_slices(const nc_call *c, bool onto) {
    static const char zero[8];
    const gathering *s = c->state;
    const nc_tensor *at = c->in[1], *dx = c->out[0];
    int axis = axis_of(c, dx);
    NC_TRY(nc_gather_grad_check(c, axis));
    nck_cuda_scatter_args a = {.how = NCK_ADD,
                               .outer = 1,
                               .axis = dx->dims[axis],
                               .inner = 1,
                               .n = nc_tensor_numel(at),
                               .index = at->data,
                               .updates = c->in[2]->data,
                               .y = dx->data};
    for (int k = 0; k < dx->rank; k++)
        if (k != axis) *(k < axis ? &a.outer : &a.inner) *= dx->dims[k];
    a.unit = a.inner;
    if (!onto) NC_TRY(nck_cuda_fill(&s->move, nck_cuda_at_call(c), dx, zero));
    if (a.inner == 0) return NC_OK;
    nc_tensor line = {.dtype = dx->dtype, .rank = 1, .dims = {a.axis}, .strides = {a.inner}};
    nck_cuda_pick p = nck_cuda_pick_slices(&line, at, 0, at);
    return nck_cuda_scatter_run(&s->scatter, c, &p, &a, c->workspace);
}

static nc_code gather_grad_run(const nc_call *c) { return add_slices(c, false); }

static nc_code gather_grad_onto_prepare(nc_prep *p) {
    p->over[0] = 1;
    return gather_grad_prepare(p);
}

static nc_code gather_grad_onto_run(const nc_call *c) {
    const nc_tensor *from = c->in[0], *to = c->out[0];
    const bool *overwrite = c->n_in > 3 ? c->in[3]->data : NULL;
    bool onto = !overwrite || !*overwrite;
    size_t bytes = (size_t)nc_tensor_numel(to) * nc_dtype_bytes(to->dtype);
    if (onto && from->data != to->data)
        NC_TRY(c->device->table->copy(c->device, c->stream, to->data, false, from->data, false, bytes, c->diag));
    return add_slices(c, onto);
}

/* ---- NonZero ---- */

static bool can_look(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_type_name(t->elem) != NULL;
}

static nc_code nonzero_prepare(nc_prep *p) {
    nck_cuda_compact *k = nc_arena_alloc(p->arena, sizeof *k);
    NC_NEED(p->w, k);
    p->state = k;
    return nck_cuda_compact_prepare(p->device, p->node->in[0]->type->elem, 0, k, &p->w->diag);
}

static size_t nonzero_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_nonzero_workspace();
}

static nc_code nonzero_run(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    nck_cuda_compact_sizes sizes = {.rank = 2, .axis = 1, .dims = {x->rank}};
    return nck_cuda_nonzero_run(c->state, nck_cuda_at_call(c), x, c->out[0]->data, &sizes, c->sizes, c->workspace);
}

const nc_binding nc_index_cuda[] = {{.op = "Gather", .fits = can_gather, .prepare = gather_prepare, .run = gather_run},
                                    {.op = "GatherGrad",
                                     .domain = "nacre",
                                     .fits = can_add,
                                     .prepare = gather_grad_prepare,
                                     .workspace = gather_grad_workspace,
                                     .run = gather_grad_run},
                                    {.op = "GatherGradOnto",
                                     .domain = "nacre",
                                     .prepare = gather_grad_onto_prepare,
                                     .workspace = gather_grad_workspace,
                                     .run = gather_grad_onto_run},
                                    {.op = "NonZero",
                                     .kind = NC_K_BOUNDED,
                                     .fits = can_look,
                                     .prepare = nonzero_prepare,
                                     .workspace = nonzero_workspace,
                                     .run = nonzero_run},
                                    {0}};
