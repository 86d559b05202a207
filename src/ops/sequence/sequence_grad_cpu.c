/* ops/sequence/sequence_grad_cpu.c: host kernels of what gradients of sequences need: zeros, sums, sizes. */
#include "kernels/cpu/tile.h"
#include "ops/sequence/sequence.h"

#include <string.h>

static nc_code sequence_grad_wrong(nc_dyn *d, const char *text) {
    return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "%s", text);
}

nc_code nc_sequence_zeros(nc_dyn *d) {
    const nc_object *list = d->in[0];
    d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, list->t.dtype);
    for (int64_t i = 0; d->out[0] != NULL && i < list->n; i++) {
        const nc_tensor *t = &list->items[i]->t;
        size_t bytes;
        nc_object *o = nc_object_host_tensor(t->dtype, t->rank, t->dims);
        if (o == NULL || !nc_tensor_bytes(t->dtype, t->dims, t->rank, &bytes)) return nc_sequence_no_memory(d);
        if (bytes > 0) memset(o->t.data, 0, bytes);
        if (!nc_object_push(d->out[0], o)) return nc_sequence_no_memory(d);
    }
    return d->out[0] != NULL ? NC_OK : nc_sequence_no_memory(d);
}

static bool same_form(const nc_tensor *a, const nc_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

static void add_tensors(const nc_tensor *a, const nc_tensor *b, nc_tensor *y, nc_pool *pool) {
    static const nck_tile_op add = {.lane = NCK_LANE_add, .dst = 2, .src = {0, 1, 1}};
    static const uint16_t result = 2;
    nck_tile_prog p = {.compute = nck_tile_compute(y->dtype),
                       .n_in = 2,
                       .n_out = 1,
                       .n_reg = 3,
                       .n_op = 1,
                       .op = &add,
                       .out_reg = &result};
    nck_tile_run(&p, (nc_tensor *[]){(nc_tensor *)(uintptr_t)a, (nc_tensor *)(uintptr_t)b}, &y, pool);
}

nc_code nc_sequence_add(nc_dyn *d) {
    const nc_object *a = d->in[0], *b = d->in[1];
    if (a->n != b->n) return sequence_grad_wrong(d, "the sequences differ in length");
    d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, a->t.dtype);
    for (int64_t i = 0; d->out[0] != NULL && i < a->n; i++) {
        const nc_tensor *t = &a->items[i]->t;
        if (!same_form(t, &b->items[i]->t)) return sequence_grad_wrong(d, "elements differ in type or dims");
        nc_object *o = nc_object_host_tensor(t->dtype, t->rank, t->dims);
        if (o == NULL) return nc_sequence_no_memory(d);
        if (nc_tensor_numel(t) > 0) add_tensors(t, &b->items[i]->t, &o->t, d->call->pool);
        if (!nc_object_push(d->out[0], o)) return nc_sequence_no_memory(d);
    }
    return d->out[0] != NULL ? NC_OK : nc_sequence_no_memory(d);
}

nc_code nc_sequence_sizes_prepare(nc_prep *p) {
    int64_t *axis = nc_arena_alloc(p->arena, sizeof *axis);
    NC_NEED(p->w, axis);
    *axis = nc_attr_int(p->node, "axis");
    p->state = axis;
    return NC_OK;
}

nc_code nc_sequence_sizes(nc_dyn *d) {
    const nc_object *list = d->in[0];
    const int64_t *asked = d->call->state;
    nc_tensor y;
    NC_TRY(d->alloc(d, 0, NC_INT64, 1, &list->n, &y));
    for (int64_t i = 0; i < list->n; i++) {
        const nc_tensor *t = &list->items[i]->t;
        int64_t axis = *asked < 0 ? *asked + t->rank : *asked;
        if (axis < 0 || axis >= t->rank) return sequence_grad_wrong(d, "the axis is out of range for the elements");
        ((int64_t *)y.data)[i] = t->dims[axis];
    }
    return NC_OK;
}
