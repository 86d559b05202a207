/* ops/reduce/along_cpu.c: CPU bindings of ArgMax, ArgMin, CumSum and CumProd over kernels/cpu/reduce/along.h. Narrow
 * types go through wider ones (ops/widen.h). */
#include "ops/reduce/along_cpu.h"

#include "kernels/cpu/reduce/along.h"
#include "ops/widen.h"

#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

typedef struct arg_state {
    int64_t axis;
    bool smallest, last;
} arg_state;

nc_code nc_arg_prepare(nc_prep *p) {
    arg_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_attr *last = nc_node_attr(p->node, "select_last_index");
    *s = (arg_state){.axis = nc_attr_int(p->node, "axis"),
                     .smallest = *(const nc_arg_row *)p->own == NC_ARG_MIN,
                     .last = last != NULL && last->i != 0};
    p->state = s;
    return NC_OK;
}

/* A scalar is a line of one element. */
static const nc_tensor *as_lines(const nc_tensor *x, nc_tensor *room) {
    if (x->rank > 0) return x;
    nc_tensor_set(room, x->data, x->dtype, 1);
    room->dims[0] = room->strides[0] = 1;
    return room;
}

nc_code nc_arg_run(const nc_call *c) {
    const arg_state *s = c->state;
    nc_tensor room;
    const nc_tensor *x = as_lines(c->in[0], &room);
    int axis = (int)(s->axis < 0 ? s->axis + x->rank : s->axis);
    if (x->dims[axis] == 0 && nc_tensor_numel(c->out[0]) > 0)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "axis %d has no elements to choose from", axis);
    return nck_arg(x, axis, s->smallest, s->last, c->out[0]->data, c->pool);
}

size_t nc_arg_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(T_NARROW, NULL, state, in, n_in, out, n_out);
}

nc_code nc_arg_narrow_run(const nc_call *c) { return nc_widen_run(T_NARROW, nc_arg_run, c); }

typedef struct cumulate_state {
    bool product, exclusive, reverse;
} cumulate_state;

nc_code nc_cumulate_prepare(nc_prep *p) {
    cumulate_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (cumulate_state){.product = *(const nc_cumulate_row *)p->own == NC_CUMULATE_PRODUCT,
                          .exclusive = nc_attr_int(p->node, "exclusive") != 0,
                          .reverse = nc_attr_int(p->node, "reverse") != 0};
    p->state = s;
    return NC_OK;
}

nc_code nc_cumulate_run(const nc_call *c) {
    const cumulate_state *s = c->state;
    const nc_tensor *at = c->in[1];
    int64_t axis = nc_tensor_numel(at) != 1 ? INT64_MAX
                   : at->dtype == NC_INT32  ? *(const int32_t *)at->data
                                            : *(const int64_t *)at->data;
    nc_tensor room;
    const nc_tensor *x = as_lines(c->in[0], &room);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the axis is out of range for %d dims", x->rank);
    return nck_cumulate(x, (int)axis, s->product, s->exclusive, s->reverse, c->out[0]->data, c->pool);
}

size_t nc_cumulate_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF | NC_BIT(NC_UINT32), NULL, state, in, n_in, out, n_out);
}

nc_code nc_cumulate_narrow_run(const nc_call *c) {
    return nc_widen_run(NC_WIDEN_HALF | NC_BIT(NC_UINT32), nc_cumulate_run, c);
}
