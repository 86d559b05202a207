/* ops/select/select_cuda.c: CUDA bindings of the select family: OneHot. The depth is a host argument. */
#include "kernels/cuda/move.h"
#include "kernels/cuda/place.h"

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

const nc_binding nc_select_cuda[] = {
    {.op = "OneHot", .fits = one_hot_fits, .prepare = one_hot_prepare, .run = one_hot_run}, {0}};
