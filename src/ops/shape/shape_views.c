/* ops/shape/shape_views.c: the geometry of views, for every device: pointers, dims and strides, never a byte of input
 * 0. Host arguments (starts, sizes) are read. Dims of the outputs are set before; what contradicts them is an error of
 * the data. */
#include "ops/shape/shape.h"

#include "base/intmath.h"

#include <string.h>

static nc_code shape_views_wrong(const nc_call *c, const char *text) {
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "%s", text);
}

static void *moved(const nc_tensor *t, int64_t elements) {
    return (char *)t->data + elements * (int64_t)nc_dtype_bytes(t->dtype);
}

/* Only dims of 1 differ: the others correspond in order. */
nc_code nc_shape_view_ones(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    nc_tensor *y = c->out[0];
    int i = 0;
    y->data = x->data;
    nc_dense_strides(y->dims, y->rank, y->strides);
    for (int k = 0; k < y->rank; k++) {
        if (y->dims[k] == 1) continue;
        while (i < x->rank && x->dims[i] == 1) i++;
        if (i == x->rank || x->dims[i] != y->dims[k])
            return shape_views_wrong(c, "a dim that is not 1 cannot be put in or left out");
        if (!nc_is_dense(x)) y->strides[k] = x->strides[i];
        i++;
    }
    for (; i < x->rank; i++)
        if (x->dims[i] != 1) return shape_views_wrong(c, "a dim that is not 1 cannot be left out");
    return NC_OK;
}

nc_code nc_shape_view_dense(const nc_call *c) {
    nc_tensor *y = c->out[0];
    if (nc_tensor_numel(c->in[0]) != nc_tensor_numel(y))
        return shape_views_wrong(c, "the new shape holds another number of elements");
    y->data = c->in[0]->data;
    nc_dense_strides(y->dims, y->rank, y->strides);
    return NC_OK;
}

/* ---- Transpose ---- */

typedef struct order {
    int n; /* 0: reversed */
    int perm[NC_MAX_RANK];
} order;

nc_code nc_shape_transpose_prepare(nc_prep *p) {
    int n;
    const int64_t *perm = nc_attr_ints(p->node, "perm", &n);
    order *o = nc_arena_alloc(p->arena, sizeof *o);
    NC_NEED(p->w, o);
    o->n = perm != NULL ? n : 0;
    for (int k = 0; k < o->n && k < NC_MAX_RANK; k++) o->perm[k] = (int)perm[k];
    p->state = o;
    return NC_OK;
}

nc_code nc_shape_view_transpose(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    const order *o = c->state;
    nc_tensor *y = c->out[0];
    if (o->n != 0 && o->n != x->rank) return shape_views_wrong(c, "perm does not fit the rank");
    y->data = x->data;
    for (int k = 0; k < x->rank; k++) y->strides[k] = x->strides[o->n != 0 ? o->perm[k] : x->rank - 1 - k];
    return NC_OK;
}

/* ---- Slice ---- */

nc_code nc_slice_prepare(nc_prep *p) {
    nc_slice_state *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    p->state = s;
    if (!nc_attr_has(p->node, "starts")) return NC_OK;
    int n_ends;
    const int64_t *starts = nc_attr_ints(p->node, "starts", &s->n), *ends = nc_attr_ints(p->node, "ends", &n_ends);
    const int64_t *axes = nc_attr_ints(p->node, "axes", &s->n_axes);
    if (s->n > NC_MAX_RANK || n_ends != s->n || (axes != NULL && s->n_axes != s->n))
        NC_FAIL(p->w, NC_E_SHAPE, "starts, ends and axes differ in length");
    s->by_attr = true;
    for (int k = 0; k < s->n; k++) {
        s->starts[k] = starts[k];
        s->ends[k] = ends[k];
        s->axes[k] = axes != NULL ? axes[k] : k;
    }
    return NC_OK;
}

typedef struct cuts {
    int n;
    int64_t starts[NC_MAX_RANK], ends[NC_MAX_RANK], axes[NC_MAX_RANK], steps[NC_MAX_RANK];
} cuts;

/* An absent list counts 0, 1, 2, ... from `first` by `by`. */
static bool read_list(const nc_call *c, int i, int n, int64_t first, int64_t by, int64_t *v) {
    if (i < c->n_in && c->in[i]->data != NULL) return nc_shape_read(c->in[i], v, NC_MAX_RANK) == n;
    for (int k = 0; k < n; k++) v[k] = first + k * by;
    return true;
}

static bool read_cuts(const nc_call *c, int first, cuts *s) {
    const nc_slice_state *state = c->state;
    if (state->by_attr) {
        s->n = state->n;
        memcpy(s->starts, state->starts, sizeof s->starts);
        memcpy(s->ends, state->ends, sizeof s->ends);
        memcpy(s->axes, state->axes, sizeof s->axes);
        return read_list(c, c->n_in, s->n, 1, 0, s->steps);
    }
    s->n = nc_shape_read(c->in[first], s->starts, NC_MAX_RANK);
    return s->n >= 0 && nc_shape_read(c->in[first + 1], s->ends, NC_MAX_RANK) == s->n &&
           read_list(c, first + 2, s->n, 0, 1, s->axes) && read_list(c, first + 3, s->n, 1, 0, s->steps);
}

nc_code nc_slice_view(const nc_call *c, int first_arg, const nc_tensor *whole, nc_tensor *part) {
    cuts s;
    int64_t at = 0, first, count;
    bool cut[NC_MAX_RANK] = {false};
    if (!read_cuts(c, first_arg, &s)) return shape_views_wrong(c, "starts, ends, axes and steps differ in length");
    if (part->rank != whole->rank) return shape_views_wrong(c, "the slice has another rank than what it is cut from");
    memcpy(part->strides, whole->strides, (size_t)whole->rank * sizeof *part->strides);
    for (int k = 0; k < s.n; k++) {
        int64_t axis = s.axes[k] < 0 ? s.axes[k] + whole->rank : s.axes[k];
        if (axis < 0 || axis >= whole->rank) return shape_views_wrong(c, "an axis is out of range");
        if (s.steps[k] == 0) return shape_views_wrong(c, "a step is 0");
        nc_slice_range(whole->dims[axis], s.starts[k], s.ends[k], s.steps[k], &first, &count);
        if (count != part->dims[axis]) return shape_views_wrong(c, "the slice has another size than planned");
        cut[axis] = true;
        at += first * whole->strides[axis];
        /* With one element or none the stride does not matter, and its product may be too large. */
        part->strides[axis] = count > 1 ? s.steps[k] * whole->strides[axis] : whole->strides[axis];
    }
    for (int k = 0; k < whole->rank; k++)
        if (!cut[k] && part->dims[k] != whole->dims[k])
            return shape_views_wrong(c, "a dim that is not cut differs in the slice");
    part->data = nc_tensor_numel(part) > 0 ? moved(whole, at) : whole->data;
    return NC_OK;
}

nc_code nc_shape_view_slice(const nc_call *c) { return nc_slice_view(c, 1, c->in[0], c->out[0]); }

/* ---- Split ---- */

typedef struct parts {
    int64_t axis;
    const int64_t *sizes; /* of the attribute, or NULL */
    int n_sizes;
    bool uneven;
} parts;

nc_code nc_shape_split_prepare(nc_prep *p) {
    parts *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->axis = nc_attr_int(p->node, "axis");
    s->uneven = p->node->version->since >= 18;
    const int64_t *sizes = nc_attr_ints(p->node, "split", &s->n_sizes);
    if (sizes != NULL) {
        s->sizes = nc_arena_copy(p->arena, sizes, (size_t)s->n_sizes * sizeof *sizes);
        NC_NEED(p->w, s->sizes);
    }
    p->state = s;
    return NC_OK;
}

/* The size of part k of n; sizes of parts that are not wanted are needed too. */
static int64_t part_size(const nc_call *c, const parts *s, int64_t d, int64_t done, int k) {
    if (s->sizes != NULL) return k < s->n_sizes ? s->sizes[k] : -1;
    if (c->n_in > 1 && c->in[1]->data != NULL) {
        const nc_tensor *t = c->in[1];
        int64_t v;
        if (t->rank != 1 || t->dtype != NC_INT64 || k >= t->dims[0]) return -1;
        memcpy(&v, (const char *)t->data + k * t->strides[0] * 8, 8);
        return v;
    }
    int64_t chunk = s->uneven ? nc_ceil_div(d, c->n_out) : d / c->n_out;
    return chunk < d - done ? chunk : d - done;
}

nc_code nc_shape_view_split(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    const parts *s = c->state;
    int64_t axis = s->axis < 0 ? s->axis + x->rank : s->axis, at = 0;
    for (int k = 0; k < c->n_out; k++) {
        nc_tensor *y = c->out[k];
        int64_t size = part_size(c, s, x->dims[axis], at, k);
        if (size < 0 || size > x->dims[axis] - at)
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "part %d has %lld elements, %lld are left of %lld",
                               k, (long long)size, (long long)(x->dims[axis] - at), (long long)x->dims[axis]);
        if (y->rank == x->rank && y->dims[axis] == size) {
            y->data = nc_tensor_numel(y) > 0 ? moved(x, at * x->strides[axis]) : x->data;
            memcpy(y->strides, x->strides, (size_t)x->rank * sizeof *y->strides);
        }
        at += size;
    }
    if (at == x->dims[axis]) return NC_OK;
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "the sizes of split sum to %lld, the dim is %lld",
                       (long long)at, (long long)x->dims[axis]);
}

/* ---- Expand ---- */

nc_code nc_shape_view_expand(const nc_call *c) {
    const nc_tensor *x = c->in[0];
    nc_tensor *y = c->out[0];
    for (int k = 0; k < x->rank; k++) {
        int64_t to = k + y->rank - x->rank >= 0 ? y->dims[k + y->rank - x->rank] : -1;
        if (x->dims[k] != 1 && x->dims[k] != to)
            return shape_views_wrong(c, "the input does not broadcast to the shape");
    }
    y->data = x->data;
    nc_broadcast_strides(x, y->rank, y->dims, y->strides);
    return NC_OK;
}
