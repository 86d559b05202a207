/* ops/reduce/along_cuda.c: see along_cuda.h; over kernels/cuda/along.h. The axis of CumSum is a host argument. */
#include "ops/reduce/along_cuda.h"

#include "kernels/cuda/along.h"
#include "ops/reduce/along.h"

typedef struct along {
    nc_arg arg;
    nc_cumulate cumulate;
    nck_cuda_along kernel;
} along;

bool nc_along_cuda_fits(const nc_node *n, const char **why) {
    const nc_type *t = n->in[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return t != NULL && t->kind == NC_T_TENSOR && nck_cuda_type_name(t->elem) != NULL;
}

static nc_code along_prepare(nc_prep *p, along **out) {
    along *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (along){0};
    p->state = *out = s;
    return nck_cuda_along_prepare(p->device, p->node->in[0]->type->elem, &s->kernel, &p->w->diag);
}

size_t nc_along_cuda_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_along_workspace(nc_tensor_numel(&in[0]));
}

nc_code nc_arg_cuda_prepare(nc_prep *p) {
    along *s;
    NC_TRY(along_prepare(p, &s));
    s->arg = nc_arg_read(p->node, *(const nc_arg_row *)p->own);
    return NC_OK;
}

nc_code nc_arg_cuda_run(const nc_call *c) {
    const along *s = c->state;
    nc_tensor room;
    const nc_tensor *x;
    int axis;
    NC_TRY(nc_arg_lines(&s->arg, c, &room, &x, &axis));
    return nck_cuda_arg_run(&s->kernel, nck_cuda_at_call(c), x, axis, s->arg.smallest, s->arg.last, c->workspace,
                            c->out[0]->data);
}

nc_code nc_cumulate_cuda_prepare(nc_prep *p) {
    along *s;
    NC_TRY(along_prepare(p, &s));
    s->cumulate = nc_cumulate_read(p->node, *(const nc_cumulate_row *)p->own);
    return NC_OK;
}

nc_code nc_cumulate_cuda_run(const nc_call *c) {
    const along *s = c->state;
    nc_tensor room;
    const nc_tensor *x;
    int axis;
    NC_TRY(nc_cumulate_lines(c, &room, &x, &axis));
    return nck_cuda_cumulate_run(&s->kernel, nck_cuda_at_call(c), x, axis, s->cumulate.product, s->cumulate.exclusive,
                                 s->cumulate.reverse, c->workspace, c->out[0]->data);
}
