/* ops/nn/softmax_cpu.c: Softmax, LogSoftmax and their gradients on the CPU, over kernels/cpu/reduce/softmax.h. */
#include "kernels/cpu/reduce/softmax.h"

#include "ops/nn/nn_cpu.h"

typedef struct softmax {
    nck_softmax_kind kind;
    int64_t axis;
    bool flat; /* all dims from axis on are one; dense operands */
} softmax;

nc_code nc_softmax_prepare(nc_prep *p) {
    softmax *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_node *n = p->node;
    const nc_softmax_row *row = p->own;
    s->kind = row->logs ? NCK_LOG_SOFTMAX : NCK_SOFTMAX;
    s->axis = nc_attr_int(n, "axis");
    s->flat = row->is_grad ? nc_attr_int(n, "flat") != 0 : n->version->since < 13;
    p->state = s;
    p->strided_in = s->flat ? 0 : UINT32_MAX;
    if (!row->is_grad) p->over[0] = 1; /* a gradient's result must not lie on Y */
    return NC_OK;
}

/* The tensor and axis to work along: t itself, or a matrix of it in *room. */
static const nc_tensor *row_view(const softmax *s, const nc_tensor *t, int *axis, nc_tensor *room) {
    *axis = (int)(s->axis < 0 ? s->axis + t->rank : s->axis);
    if (!s->flat) return t;
    nc_tensor_set(room, t->data, t->dtype, 2);
    room->dims[0] = room->dims[1] = 1;
    for (int i = 0; i < t->rank; i++) room->dims[i >= *axis] *= t->dims[i];
    nc_dense_strides(room->dims, 2, room->strides);
    *axis = 1;
    return room;
}

nc_code nc_softmax_run(const nc_call *c) {
    const softmax *s = c->state;
    int axis;
    nc_tensor room[2];
    const nc_tensor *x = row_view(s, c->in[0], &axis, &room[0]), *y = row_view(s, c->out[0], &axis, &room[1]);
    if (nc_tensor_numel(x) > 0) nck_softmax(s->kind, x, y, axis, c->pool);
    return NC_OK;
}

nc_code nc_softmax_grad_run(const nc_call *c) {
    const softmax *s = c->state;
    int axis;
    nc_tensor room[3];
    const nc_tensor *dy = row_view(s, c->in[0], &axis, &room[0]), *y = row_view(s, c->in[1], &axis, &room[1]);
    const nc_tensor *dx = row_view(s, c->out[0], &axis, &room[2]);
    bool same = dy->rank == y->rank && dx->rank == y->rank;
    for (int k = 0; same && k < y->rank; k++) same = dy->dims[k] == y->dims[k] && dx->dims[k] == y->dims[k];
    if (!same) return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "dY and Y have different shapes");
    if (nc_tensor_numel(dx) > 0) nck_softmax_grad(s->kind, y, dy, dx, axis, c->pool);
    return NC_OK;
}
