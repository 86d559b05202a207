/* ops/reduce/along.c: see along.h. */
#include "ops/reduce/along.h"

#include "ops/card.h"

nc_arg nc_arg_read(const nc_node *n, nc_arg_row row) {
    const nc_attr *last = nc_node_attr(n, "select_last_index");
    return (nc_arg){
        .axis = nc_attr_int(n, "axis"), .smallest = row == NC_ARG_MIN, .last = last != NULL && last->i != 0};
}

nc_cumulate nc_cumulate_read(const nc_node *n, nc_cumulate_row row) {
    return (nc_cumulate){.product = row == NC_CUMULATE_PRODUCT,
                         .exclusive = nc_attr_int(n, "exclusive") != 0,
                         .reverse = nc_attr_int(n, "reverse") != 0};
}

static const nc_tensor *as_lines(const nc_tensor *x, nc_tensor *room) {
    if (x->rank > 0) return x;
    nc_tensor_set(room, x->data, x->dtype, 1);
    room->dims[0] = room->strides[0] = 1;
    return room;
}

nc_code nc_arg_lines(const nc_arg *s, const nc_call *c, nc_tensor *room, const nc_tensor **x, int *axis) {
    *x = as_lines(c->in[0], room);
    *axis = (int)(s->axis < 0 ? s->axis + (*x)->rank : s->axis);
    if ((*x)->dims[*axis] == 0 && nc_tensor_numel(c->out[0]) > 0)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "axis %d has no elements to choose from", *axis);
    return NC_OK;
}

nc_code nc_cumulate_lines(const nc_call *c, nc_tensor *room, const nc_tensor **x, int *axis) {
    const nc_tensor *given = c->in[1];
    int64_t at = nc_tensor_numel(given) != 1 ? INT64_MAX
                 : given->dtype == NC_INT32  ? *(const int32_t *)given->data
                                             : *(const int64_t *)given->data;
    *x = as_lines(c->in[0], room);
    if (at < 0) at += (*x)->rank;
    if (at < 0 || at >= (*x)->rank)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the axis is out of range for %d dims", (*x)->rank);
    *axis = (int)at;
    return NC_OK;
}
