/* ops/quant/qpool_cpu.c: NhwcMaxPool on the CPU, one to three spatial dims. */
#include "kernels/cpu/quant/qpool.h"
#include "ops/quant/quant.h"
#include "ops/window.h"

typedef struct qpool {
    nc_window window;
    int64_t k[NC_WINDOW_MAX_SPATIAL];
} qpool;

bool nc_qpool_fits(const nc_node *n, const char **why) {
    const nc_type *x = n->in[0]->type;
    *why = "the rank of x is not known to be 3, 4 or 5";
    return x != NULL && x->rank >= 3 && x->rank <= 2 + NC_WINDOW_KERNEL_DIMS;
}

nc_code nc_qpool_prepare(nc_prep *p) {
    qpool *s = nc_arena_alloc(p->arena, sizeof *s);
    int dims = p->node->in[0]->type->rank - 2;
    NC_NEED(p->w, s);
    NC_TRY(nc_window_read(p->w, p->node, dims, &s->window));
    NC_TRY(nc_window_ints(p->w, p->node, "kernel_shape", dims, 1, 1, s->k));
    p->state = s;
    return NC_OK;
}

nc_code nc_qpool_run(const nc_call *c) {
    const qpool *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    if (nc_tensor_numel(y) == 0) return NC_OK;
    nck_qpool_max(&(nck_qpool_args){.type = x->dtype,
                                    .w = nc_window_kernel(&s->window, x->dims + 1, s->k, y->dims + 1),
                                    .N = x->dims[0],
                                    .C = x->dims[x->rank - 1],
                                    .x = x->data,
                                    .y = y->data},
                  c->pool);
    return NC_OK;
}
