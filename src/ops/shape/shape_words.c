/* ops/shape/shape_words.c: words that several cards of the shape family are written with: integer lists, axes,
 * elements that pass through, gradients that only rename dims. Names no op. */
#include "ops/shape/shape.h"

#include <string.h>

int nc_shape_count(nc_infer *c, int i) {
    int64_t n;
    int rank;
    const nc_dim *d = nc_in_dim(c, i, 0);
    if (nc_in_rank(c, i, &rank) && rank == 0) return 1;
    return d != NULL && nc_dim_is_const(d, &n) && n <= NC_SHAPE_HUGE / 2 ? (int)n : -1;
}

nc_shape_state nc_shape_ints(nc_infer *c, int i, const char *attr, int64_t *v, int max, int *n) {
    const int64_t *a = attr != NULL ? nc_attr_ints(c->node, attr, n) : NULL;
    if (a != NULL) {
        if (*n > max) return NC_SHAPE_UNKNOWN;
        if (*n > 0) memcpy(v, a, (size_t)*n * sizeof *v);
        return NC_SHAPE_KNOWN;
    }
    *n = 0;
    /* An empty list is an attribute without a pointer. */
    if (attr != NULL && nc_attr_has(c->node, attr)) return NC_SHAPE_KNOWN;
    if (i < 0 || i >= c->node->n_in || !c->in[i].present) return NC_SHAPE_ABSENT;
    if (nc_in_ints(c, i, v, max, n)) return NC_SHAPE_KNOWN;
    *n = nc_shape_count(c, i);
    return NC_SHAPE_UNKNOWN;
}

nc_code nc_shape_elems(nc_infer *c, int i, const char *attr, const nc_dim *const **elems, int *n) {
    const int64_t *given = nc_attr_ints(c->node, attr, n);
    if (given == NULL) {
        *elems = nc_in_elems(c, i, n);
        return NC_OK;
    }
    const nc_dim **v = nc_arena_array(c->arena, (size_t)*n, sizeof *v);
    NC_NEED(c->w, v);
    for (int k = 0; k < *n; k++) {
        v[k] = nc_dim_const(c->dims, given[k]);
        NC_NEED(c->w, v[k]);
    }
    *elems = v;
    return NC_OK;
}

nc_code nc_shape_mark_axes(nc_infer *c, const int64_t *axes, int n, int rank, bool *marked) {
    memset(marked, 0, (size_t)rank * sizeof *marked);
    for (int k = 0; k < n; k++) {
        int axis;
        NC_TRY(nc_axis(c, axes[k], rank, &axis));
        if (marked[axis]) NC_FAIL(c->w, NC_E_SHAPE, "axis %d is named twice", axis);
        marked[axis] = true;
    }
    return NC_OK;
}

/* Without a negative coefficient no size is negative; the printed form has no minus sign then. */
bool nc_shape_never_negative(const nc_dim *d) {
    int64_t v;
    if (nc_dim_is_const(d, &v)) return v >= 0;
    nc_text text = {0};
    nc_dim_print(&text, d);
    bool yes = !text.failed && text.s != NULL && strchr(text.s, '-') == NULL;
    nc_text_release(&text);
    return yes;
}

nc_code nc_shape_fold_same(nc_infer *c) {
    int n;
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    return elems != NULL ? nc_out_elems(c, 0, n, elems) : NC_OK;
}

bool nc_shape_known(nc_infer *c, int64_t *dims, int *rank) {
    int n;
    int64_t all = 1;
    if (nc_in_elems(c, 0, &n) == NULL || !nc_in_rank(c, 0, rank)) return false;
    for (int k = 0; k < *rank; k++) {
        if (!nc_dim_is_const(nc_in_dim(c, 0, k), &dims[k]) || dims[k] > NC_MAX_ELEMS) return false;
        all = dims[k] == 0 || all > NC_MAX_ELEMS ? 0 : all * dims[k];
    }
    return all == n;
}

nc_code nc_shape_fold_steps(nc_infer *c, int rank, const int64_t *counts, int64_t first, const int64_t *steps) {
    int n;
    const nc_dim *const *elems = nc_in_elems(c, 0, &n);
    const nc_dim *out[NC_MAX_ELEMS];
    int64_t total = 1;
    for (int k = 0; k < rank; k++) total *= counts[k];
    if (elems == NULL || total > NC_MAX_ELEMS) return NC_OK;
    for (int64_t i = 0; i < total; i++) {
        int64_t at = first, rest = i;
        for (int k = rank - 1; k >= 0; k--) at += rest % counts[k] * steps[k], rest /= counts[k];
        out[i] = elems[at];
    }
    return nc_out_elems(c, 0, (int)total, out);
}

bool nc_shape_same_type(const nc_node *n) {
    const nc_type *in = n->in[0] != NULL ? n->in[0]->type : NULL, *out = n->out[0] != NULL ? n->out[0]->type : NULL;
    return in != NULL && out != NULL && in->kind == NC_T_TENSOR && in->rank >= 0 && nc_type_equal(in, out);
}

nc_code nc_shape_grad_reshape(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy != NULL && g->wants[0]) nc_grad_set(g, 0, nc_build_reshape_like(g->b, dy, nc_grad_like(g, 0)));
    return nc_grad_end(g);
}

int nc_shape_read(const nc_tensor *t, int64_t *v, int max) {
    int64_t n = nc_tensor_numel(t);
    if (n > max || t->rank > 1 || (t->dtype != NC_INT64 && t->dtype != NC_INT32)) return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = t->rank == 1 ? i * t->strides[0] : 0;
        if (t->dtype == NC_INT64) {
            memcpy(&v[i], (const char *)t->data + at * 8, 8);
        } else {
            int32_t x;
            memcpy(&x, (const char *)t->data + at * 4, 4);
            v[i] = x;
        }
    }
    return (int)n;
}

/* The piece lies where it belongs: input 0 that the output grew out of. */
static bool in_place(const nc_tensor *x, const void *dst, const int64_t *strides) {
    if (x->data != dst) return false;
    for (int k = 0; k < x->rank; k++)
        if (x->dims[k] > 1 && x->strides[k] != strides[k]) return false;
    return true;
}

nc_code nc_concat_next(const nc_call *c, int64_t axis, int i, nc_concat_piece *p) {
    const nc_tensor *x = c->in[i], *y = c->out[0];
    if (axis < 0) axis += y->rank;
    p->dst = (char *)y->data + p->at * y->strides[axis] * (int64_t)nc_dtype_bytes(y->dtype);
    for (int k = 0; k < x->rank; k++)
        if (k != axis && x->dims[k] != y->dims[k])
            return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "dim %d of input %d is %lld, expected %lld", k, i,
                               (long long)x->dims[k], (long long)y->dims[k]);
    p->moves = nc_tensor_numel(x) > 0 && !in_place(x, p->dst, y->strides);
    p->at += x->dims[axis];
    return NC_OK;
}
