/* ops/infer_words.c: the words of ops/card.h that infer hooks are written with. They read what is known of the
 * inputs and state what is known of the outputs; an unknown stays unknown. No op is named here. */
#include "ops/card.h"

#include <string.h>

const nc_type *nc_in(nc_infer *c, int i) { return i >= 0 && i < c->node->n_in ? c->in[i].type : NULL; }

bool nc_in_rank(nc_infer *c, int i, int *rank) {
    const nc_type *t = nc_in(c, i);
    if (t == NULL || t->kind != NC_T_TENSOR || t->rank < 0) return false;
    *rank = t->rank;
    return true;
}

const nc_dim *nc_in_dim(nc_infer *c, int i, int axis) {
    int rank;
    if (!nc_in_rank(c, i, &rank) || axis < 0 || axis >= rank) return NULL;
    return c->in[i].type->dims[axis];
}

static const char *param_name(const nc_infer *c, int i) {
    const nc_param *p = c->node->version->in;
    for (int k = 0; k < i && p[1].name != NULL; k++) p++;
    return p->name;
}

void nc_leave_open(const nc_infer *c) {
    if (c->open != NULL) *c->open = true;
}

nc_code nc_in_expect(nc_infer *c, int i, int axis, const nc_dim *want) {
    const nc_dim *d = nc_in_dim(c, i, axis);
    int64_t got, expected;
    if (d == NULL || want == NULL || d == want) return NC_OK;
    if (!nc_dim_is_const(d, &got) || !nc_dim_is_const(want, &expected)) {
        nc_leave_open(c);
        return NC_OK;
    }
    if (got == expected) return NC_OK;
    NC_FAIL(c->w, NC_E_SHAPE, "dim %d of %s is %lld, expected %lld", axis, param_name(c, i), (long long)got,
            (long long)expected);
}

nc_code nc_in_same(nc_infer *c, int i, int as) {
    int rank, want;
    if (!nc_in_rank(c, i, &rank) || !nc_in_rank(c, as, &want)) return NC_OK;
    if (rank != want)
        NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d as %s", param_name(c, i), rank, want, param_name(c, as));
    for (int k = 0; k < rank; k++) NC_TRY(nc_in_expect(c, i, k, nc_in_dim(c, as, k)));
    return NC_OK;
}

nc_code nc_in_single(nc_infer *c, int i) {
    int rank;
    if (!nc_in_rank(c, i, &rank)) return NC_OK;
    for (int k = 0; k < rank; k++) NC_TRY(nc_in_expect(c, i, k, nc_dim_const(c->dims, 1)));
    return NC_OK;
}

bool nc_in_ints(nc_infer *c, int i, int64_t *v, int max, int *n) {
    if (i < 0 || i >= c->node->n_in) return false;
    const nc_infer_val *in = &c->in[i];
    int64_t n_lit;
    if (in->lit != NULL && nc_literal_ints(in->lit, v, max, &n_lit)) {
        *n = (int)n_lit;
        return true;
    }
    if (in->elems == NULL || in->n_elems > max) return false;
    for (int k = 0; k < in->n_elems; k++)
        if (in->elems[k] == NULL || !nc_dim_is_const(in->elems[k], &v[k])) return false;
    *n = in->n_elems;
    return true;
}

nc_code nc_in_number(nc_infer *c, int i, int64_t *v, bool *known) {
    const nc_literal *l = i >= 0 && i < c->node->n_in ? c->in[i].lit : NULL;
    int n;
    float f;
    double d;
    uint16_t h;
    *known = nc_in_ints(c, i, v, 1, &n) && n == 1;
    if (*known || l == NULL || l->n != 1 || l->data == NULL) return NC_OK;
    switch (l->dtype) {
    case NC_FLOAT: memcpy(&f, l->data, sizeof f), d = (double)f; break;
    case NC_DOUBLE: memcpy(&d, l->data, sizeof d); break;
    case NC_FLOAT16: memcpy(&h, l->data, sizeof h), d = (double)nc_f16_to_f32(h); break;
    default: return NC_OK;
    }
    if (!(d >= -0x1p63 && d < 0x1p63))
        NC_FAIL(c->w, NC_E_DATA, "%s is %g, expected a number that int64 holds", param_name(c, i), d);
    *v = (int64_t)d;
    *known = true;
    return NC_OK;
}

const nc_dim *const *nc_in_elems(nc_infer *c, int i, int *n) {
    if (i < 0 || i >= c->node->n_in) return NULL;
    nc_infer_val *in = &c->in[i];
    int64_t v[NC_MAX_ELEMS], n_lit;
    if (in->elems == NULL && in->lit != NULL && nc_literal_ints(in->lit, v, NC_MAX_ELEMS, &n_lit)) {
        const nc_dim **elems = nc_arena_array(c->arena, (size_t)n_lit, sizeof *elems);
        if (elems == NULL) return NULL;
        for (int64_t k = 0; k < n_lit; k++)
            if ((elems[k] = nc_dim_const(c->dims, v[k])) == NULL) return NULL;
        in->elems = elems;
        in->n_elems = (int)n_lit;
    }
    *n = in->n_elems;
    return in->elems;
}

nc_code nc_out(nc_infer *c, int i, nc_dtype elem, int rank, const nc_dim *const *dims) {
    if (i < 0 || i >= c->node->n_out) return NC_OK;
    if (rank > NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "output %d has %d dims, at most %d are supported", i, rank, NC_MAX_RANK);
    for (int k = 0; k < rank; k++) {
        int64_t size;
        /* Out of memory would give NULL too: whoever asked the card notices (nc_work_finish). */
        if (dims[k] == NULL) NC_FAIL(c->w, NC_E_LIMIT, "output %d: dim %d is more than 64 bits hold", i, k);
        if (nc_dim_is_const(dims[k], &size) && size < 0)
            NC_FAIL(c->w, NC_E_SHAPE, "output %d: dim %d is %lld", i, k, (long long)size);
    }
    c->out[i].type = nc_type_tensor(c->arena, elem, rank, dims);
    NC_NEED(c->w, c->out[i].type);
    return NC_OK;
}

nc_code nc_out_unknown(nc_infer *c, int i, nc_dtype elem, int rank) {
    const nc_dim *dims[NC_MAX_RANK];
    if (rank > NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "output %d has %d dims, at most %d are supported", i, rank, NC_MAX_RANK);
    for (int k = 0; k < rank; k++) {
        dims[k] = nc_fresh(c, "d");
        NC_NEED(c->w, dims[k]);
    }
    return nc_out(c, i, elem, rank, dims);
}

nc_code nc_out_like(nc_infer *c, int i, int i_in) {
    if (i >= 0 && i < c->node->n_out) c->out[i].type = nc_in(c, i_in);
    return NC_OK;
}

nc_code nc_out_of_shape(nc_infer *c, nc_dtype elem, int i_shape, int rank) {
    int n;
    int64_t count;
    const nc_dim *const *shape = nc_in_elems(c, i_shape, &n), *d = nc_in_dim(c, i_shape, 0);
    if (shape != NULL) return nc_out(c, 0, elem, n, shape);
    bool counted = d != NULL && nc_dim_is_const(d, &count) && count <= INT32_MAX;
    return nc_out_unknown(c, 0, elem, counted ? (int)count : rank);
}

nc_code nc_out_layout(nc_infer *c, int i, nc_layout layout) {
    if (i < 0 || i >= c->node->n_out || c->out[i].type == NULL) return NC_OK;
    nc_type *t = nc_arena_copy(c->arena, c->out[i].type, sizeof *t);
    NC_NEED(c->w, t);
    t->layout = layout;
    c->out[i].type = t;
    return NC_OK;
}

nc_code nc_out_elems(nc_infer *c, int i, int n, const nc_dim *const *elems) {
    if (i < 0 || i >= c->node->n_out || n < 0 || n > NC_MAX_ELEMS) return NC_OK;
    for (int k = 0; k < n; k++)
        if (elems[k] == NULL) return NC_OK;
    c->out[i].elems = nc_arena_copy(c->arena, elems, (size_t)n * sizeof *elems);
    NC_NEED(c->w, c->out[i].elems);
    c->out[i].n_elems = n;
    return NC_OK;
}

const nc_dim *nc_fresh(nc_infer *c, const char *what) {
    const char *hint = nc_arena_printf(&c->w->scratch, "%s_%s", c->node->name, what);
    return hint != NULL ? nc_dim_fresh(c->dims, hint) : NULL;
}

nc_code nc_axis(nc_infer *c, int64_t axis, int rank, int *out) {
    if (axis < -rank || axis >= rank)
        NC_FAIL(c->w, NC_E_SHAPE, "axis %lld is out of range for %d dims", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NC_OK;
}

static nc_code broadcast_dim(nc_infer *c, int i_in, const nc_dim *a, const nc_dim *b, const nc_dim **out) {
    int64_t ca = -1, cb = -1;
    bool const_a = nc_dim_is_const(a, &ca), const_b = nc_dim_is_const(b, &cb);
    if (a == b || ca == 1)
        *out = b;
    else if (cb == 1)
        *out = a;
    else if (const_a && const_b)
        NC_FAIL(c->w, NC_E_SHAPE, "input %d has a dim of %lld where %lld or 1 is expected", i_in, (long long)cb,
                (long long)ca);
    else {
        nc_leave_open(c);
        *out = const_a ? a : const_b ? b : nc_dim_spread(c->dims, a, b);
    }
    NC_NEED(c->w, *out);
    return NC_OK;
}

nc_code nc_broadcast_in(nc_infer *c, int lo, int hi, const nc_dim **dims, int *rank) {
    int out = 0, r;
    *rank = -1;
    for (int i = lo; i < hi; i++) {
        if (!nc_in_rank(c, i, &r)) return NC_OK;
        if (r > out) out = r;
    }
    if (out > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "%d dims, at most %d are supported", out, NC_MAX_RANK);
    const nc_dim *one = nc_dim_const(c->dims, 1);
    NC_NEED(c->w, one);
    for (int k = 0; k < out; k++) dims[k] = one;
    for (int i = lo; i < hi; i++) {
        const nc_type *t = c->in[i].type;
        for (int k = 0; k < t->rank; k++) {
            const nc_dim **d = &dims[out - t->rank + k];
            NC_TRY(broadcast_dim(c, i, *d, t->dims[k], d));
        }
    }
    *rank = out;
    return NC_OK;
}
