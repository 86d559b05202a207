/* ops/attention/tensor_scatter_cpu.c: TensorScatter on the CPU: the cache is copied unless the output lies on it, then
 * each batch's rows are written in one piece or, in circular mode, in two. */
#include "kernels/cpu/move/move.h"

#include "base/intmath.h"
#include "ops/attention/attention_cpu.h"

#include <string.h>

typedef struct scatter {
    int64_t axis;
    bool circular;
} scatter;

nc_code nc_tensor_scatter_prepare(nc_prep *p) {
    scatter *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (scatter){.axis = nc_attr_int(p->node, "axis"),
                   .circular = strcmp(nc_attr_str(p->node, "mode"), "circular") == 0};
    p->state = s;
    p->over[0] = 1;
    p->strided_in = 1u << 1;
    return NC_OK;
}

/* Where the rows of batch b go. */
static int64_t write_index(const nc_call *c, const scatter *s, int64_t b, int64_t rows) {
    int64_t at = c->n_in > 2 && c->in[2]->data != NULL ? ((const int64_t *)c->in[2]->data)[b] : 0;
    if (!s->circular) return at;
    return (at % rows + rows) % rows;
}

static nc_code tensor_scatter_check(const nc_call *c, const scatter *s, int axis) {
    const nc_tensor *y = c->out[0], *u = c->in[1];
    bool fits = u->rank == y->rank && u->dims[axis] <= y->dims[axis];
    for (int i = 0; fits && i < y->rank; i++) fits = i == axis || u->dims[i] == y->dims[i];
    if (!fits)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "update does not fit the cache along an axis of %lld",
                           (long long)y->dims[axis]);
    bool given = c->n_in > 2 && c->in[2]->data != NULL;
    if (given && nc_tensor_numel(c->in[2]) != y->dims[0])
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "write_indices has %lld elements, expected %lld",
                           (long long)nc_tensor_numel(c->in[2]), (long long)y->dims[0]);
    for (int64_t b = 0; !s->circular && b < y->dims[0]; b++) {
        int64_t at = write_index(c, s, b, y->dims[axis]);
        if (at < 0 || at > y->dims[axis] - u->dims[axis])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%lld rows at %lld do not fit into %lld",
                               (long long)u->dims[axis], (long long)at, (long long)y->dims[axis]);
    }
    return NC_OK;
}

/* Rows [first, first + n) of batch b's update to row `at` of its cache. */
static void write_rows(const nc_call *c, int axis, int64_t b, int64_t first, int64_t n, int64_t at) {
    const nc_tensor *y = c->out[0], *u = c->in[1];
    int64_t dims[NC_MAX_RANK];
    size_t es = nc_dtype_bytes(y->dtype);
    if (n <= 0) return;
    memcpy(dims, u->dims, sizeof dims);
    dims[axis] = n;
    const char *src = (const char *)u->data + (b * u->strides[0] + first * u->strides[axis]) * (int64_t)es;
    char *dst = (char *)y->data + (b * y->strides[0] + at * y->strides[axis]) * (int64_t)es;
    nck_copy(y->rank - 1, dims + 1, es, src, u->strides + 1, dst, y->strides + 1, c->pool);
}

nc_code nc_tensor_scatter_run(const nc_call *c) {
    const scatter *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0], *u = c->in[1];
    int axis = (int)(s->axis < 0 ? s->axis + y->rank : s->axis);
    NC_TRY(tensor_scatter_check(c, s, axis));
    if (x->data != y->data)
        nck_copy(y->rank, y->dims, nc_dtype_bytes(y->dtype), x->data, x->strides, y->data, y->strides, c->pool);
    if (nc_tensor_numel(u) == 0) return NC_OK;
    for (int64_t b = 0; b < y->dims[0]; b++) {
        int64_t at = write_index(c, s, b, y->dims[axis]), room = y->dims[axis] - at, n = u->dims[axis];
        int64_t head = nc_min64(n, room);
        write_rows(c, axis, b, 0, head, at);
        write_rows(c, axis, b, head, n - head, 0);
    }
    return NC_OK;
}
