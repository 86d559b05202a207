/* ops/sequence/sequence_parts.c: between one tensor and a sequence of tensors: ConcatFromSequence and SplitToSequence.
 * Host memory. Strings are moved as pointer and length into borrowed memory, from which their new owner copies them. */
#include "ops/sequence/sequence.h"

#include "base/mem.h"
#include "kernels/cpu/move/move.h"

#include <string.h>

typedef struct state {
    int64_t axis;
    bool flag; /* new_axis; keepdims */
} state;

static nc_code sequence_parts_prepare(nc_prep *p, const char *flag) {
    state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = (state){.axis = nc_attr_int(p->node, "axis"), .flag = nc_attr_int(p->node, flag) != 0};
    p->state = s;
    return NC_OK;
}

nc_code nc_sequence_concat_prepare(nc_prep *p) { return sequence_parts_prepare(p, "new_axis"); }
nc_code nc_sequence_split_prepare(nc_prep *p) { return sequence_parts_prepare(p, "keepdims"); }

static nc_code sequence_parts_wrong(nc_dyn *d, const char *text) {
    return nc_diag_set(d->call->diag, NC_E_DATA, d->call->node, d->call->op, "%s", text);
}

nc_code nc_sequence_no_memory(nc_dyn *d) {
    return nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
}

/* t with a dim of 1 put in at the axis. */
static nc_tensor unsqueezed(const nc_tensor *t, int64_t axis) {
    nc_tensor u = *t;
    size_t behind = (size_t)(t->rank - axis);
    memmove(&u.dims[axis + 1], &t->dims[axis], behind * sizeof *u.dims);
    memmove(&u.strides[axis + 1], &t->strides[axis], behind * sizeof *u.strides);
    u.dims[axis] = 1;
    u.strides[axis] = 0;
    u.rank++;
    return u;
}

/* The dims of the result; false: the elements do not fit together. */
static bool joined_dims(const nc_object *list, int64_t axis, bool is_new, int64_t *dims) {
    const nc_tensor *a = &list->items[0]->t;
    int64_t sum = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const nc_tensor *t = &list->items[i]->t;
        if (t->rank != a->rank || t->dtype != a->dtype) return false;
        for (int k = 0; k < t->rank; k++)
            if (t->dims[k] != a->dims[k] && (is_new || k != axis)) return false;
        if (!nc_add_i64(sum, is_new ? 1 : t->dims[axis], &sum)) return false;
    }
    nc_tensor u = is_new ? unsqueezed(a, axis) : *a;
    memcpy(dims, u.dims, sizeof u.dims);
    dims[axis] = sum;
    return true;
}

static nc_code borrow_strings(nc_dyn *d, int rank, const int64_t *dims, nc_tensor *y) {
    int64_t n;
    nc_tensor_set(y, NULL, NC_STRING, rank);
    memcpy(y->dims, dims, (size_t)rank * sizeof *dims);
    nc_dense_strides(y->dims, rank, y->strides);
    if (nc_numel(dims, rank, &n)) y->data = nc_alloc_zero((size_t)n + 1, sizeof(nc_str));
    return y->data != NULL ? NC_OK : nc_sequence_no_memory(d);
}

/* A tensor of its own of what y borrowed. */
static nc_object *own_strings(const nc_tensor *y) {
    nc_object *o = nc_object_strings(y->rank, y->dims, y->data);
    nc_free(y->data);
    return o;
}

nc_code nc_sequence_concat(nc_dyn *d) {
    const state *s = d->call->state;
    const nc_object *list = d->in[0];
    int64_t dims[NC_MAX_RANK], at = 0;
    nc_tensor y;
    if (list == NULL || list->n == 0) return sequence_parts_wrong(d, "an empty sequence has no shape to concatenate");
    const nc_tensor *first = &list->items[0]->t;
    int rank = first->rank + s->flag;
    int64_t axis = s->axis < 0 ? s->axis + rank : s->axis;
    if (rank > NC_MAX_RANK)
        return nc_diag_set(d->call->diag, NC_E_LIMIT, d->call->node, d->call->op,
                           "the result has %d dims, at most %d are supported", rank, NC_MAX_RANK);
    if (axis < 0 || axis >= rank) return sequence_parts_wrong(d, "the axis is out of range for the elements");
    bool strings = first->dtype == NC_STRING;
    if (!joined_dims(list, axis, s->flag, dims))
        return sequence_parts_wrong(d, "the elements differ in rank, type or a dim beside the axis");
    NC_TRY(strings ? borrow_strings(d, rank, dims, &y) : d->alloc(d, 0, first->dtype, rank, dims, &y));
    size_t bytes = strings ? sizeof(nc_str) : nc_dtype_bytes(y.dtype);
    for (int64_t i = 0; i < list->n; i++) {
        nc_tensor t = s->flag ? unsqueezed(&list->items[i]->t, axis) : list->items[i]->t;
        if (nc_tensor_numel(&t) > 0)
            nck_copy(rank, t.dims, bytes, t.data, t.strides, (char *)y.data + at * y.strides[axis] * (int64_t)bytes,
                     y.strides, d->call->pool);
        at += t.dims[axis];
    }
    return strings && (d->out[0] = own_strings(&y)) == NULL ? nc_sequence_no_memory(d) : NC_OK;
}

/* ---- SplitToSequence ---- */

static int64_t int_at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* The size of part i of a dim of which `done` elements are taken; -1: does not fit. */
static int64_t part_size(const nc_tensor *split, int64_t dim, int64_t done, int64_t i) {
    int64_t size = 1;
    if (split != NULL && split->rank == 0) {
        size = int_at(split, 0);
        if (size <= 0) return -1;
        return size < dim - done ? size : dim - done;
    }
    if (split != NULL) size = i < split->dims[0] ? int_at(split, i) : -1;
    return size >= 0 && size <= dim - done ? size : -1;
}

static nc_object *copy_part(nc_dyn *d, const nc_tensor *x, int64_t axis, int64_t from, int64_t size, bool drops) {
    nc_tensor part = *x, y;
    bool strings = x->dtype == NC_STRING;
    size_t bytes = strings ? sizeof(nc_str) : nc_dtype_bytes(x->dtype);
    part.dims[axis] = size;
    nc_object *o = strings ? NULL : nc_object_host_tensor(x->dtype, part.rank, part.dims);
    if (strings ? borrow_strings(d, part.rank, part.dims, &y) != NC_OK : o == NULL) return NULL;
    if (!strings) nc_tensor_copy(&y, &o->t);
    if (nc_tensor_numel(&part) > 0)
        nck_copy(part.rank, part.dims, bytes, (const char *)x->data + from * x->strides[axis] * (int64_t)bytes,
                 part.strides, y.data, y.strides, d->call->pool);
    if (strings && (o = own_strings(&y)) == NULL) return NULL;
    if (drops) {
        size_t behind = (size_t)(o->t.rank - axis - 1);
        memmove(&o->t.dims[axis], &o->t.dims[axis + 1], behind * sizeof *o->t.dims);
        memmove(&o->t.strides[axis], &o->t.strides[axis + 1], behind * sizeof *o->t.strides);
        o->t.rank--;
    }
    return o;
}

nc_code nc_sequence_split(nc_dyn *d) {
    const state *s = d->call->state;
    const nc_tensor *x = d->call->in[0];
    const nc_tensor *split = d->call->n_in > 1 && d->call->in[1]->data != NULL ? d->call->in[1] : NULL;
    int64_t axis = s->axis < 0 ? s->axis + x->rank : s->axis, at = 0, i = 0;
    if (axis < 0 || axis >= x->rank) return sequence_parts_wrong(d, "the axis is out of range");
    d->out[0] = nc_object_list(NC_OBJ_SEQUENCE, x->dtype);
    if (d->out[0] == NULL) return nc_sequence_no_memory(d);
    bool listed = split != NULL && split->rank == 1;
    for (; listed ? i < split->dims[0] : at < x->dims[axis]; i++) {
        int64_t size = part_size(split, x->dims[axis], at, i);
        if (size < 0) return sequence_parts_wrong(d, "the sizes do not fit the dim that is split");
        nc_object *o = copy_part(d, x, axis, at, size, split == NULL && !s->flag);
        if (o == NULL || !nc_object_push(d->out[0], o)) return nc_sequence_no_memory(d);
        at += size;
    }
    return at == x->dims[axis] ? NC_OK : sequence_parts_wrong(d, "the sizes do not sum to the dim that is split");
}
