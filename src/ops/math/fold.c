/* ops/math/fold.c: shape arithmetic: what Add, Mul, Div, ... make of small integer tensors whose elements are sizes or
 * expressions over sizes. Only where the result is certain for every value of the symbols; else nothing is said. */
#include "ops/math/math.h"

#include <string.h>

/* Results that the element type can hold; symbols stand for sizes, which fit. */
static bool fits_type(nc_dtype t, const nc_dim *d) {
    int64_t v;
    if (d == NULL) return false;
    if (!nc_dim_is_const(d, &v)) return t == NC_INT64 || t == NC_INT32;
    return t == NC_INT64 || t == NC_BOOL || (t == NC_INT32 && v >= INT32_MIN && v <= INT32_MAX);
}

/* Elements of inputs lo..lo+n_in-1 (at most 3), each of n or 1, of rank at most 1; n is the common count. */
static bool same_counts(nc_infer *c, int n_in, const nc_dim *const **elems, int *n_each, int *n) {
    *n = 1;
    for (int i = 0; i < n_in; i++) {
        int rank;
        elems[i] = nc_in_rank(c, i, &rank) && rank <= 1 ? nc_in_elems(c, i, &n_each[i]) : NULL;
        if (elems[i] == NULL) return false;
        if (n_each[i] != 1) *n = n_each[i];
    }
    for (int i = 0; i < n_in; i++)
        if (n_each[i] != 1 && n_each[i] != *n) return false;
    return *n <= NC_MAX_ELEMS && c->out[0].type != NULL;
}

nc_code nc_math_fold2(nc_infer *c, nc_math_dim2 f) {
    const nc_dim *const *in[2];
    const nc_dim *out[NC_MAX_ELEMS];
    int count[2], n;
    if (c->node->n_in != 2 || !same_counts(c, 2, in, count, &n)) return NC_OK;
    for (int i = 0; i < n; i++) {
        out[i] = f(c->dims, in[0][count[0] == 1 ? 0 : i], in[1][count[1] == 1 ? 0 : i]);
        if (!fits_type(c->out[0].type->elem, out[i])) return NC_OK;
    }
    return nc_out_elems(c, 0, n, out);
}

/* Certain when no coefficient is negative, since symbols are sizes; then the printed form has no minus sign. */
static bool never_negative(const nc_dim *d) {
    nc_text text = {0};
    nc_dim_print(&text, d);
    bool yes = !text.failed && text.s != NULL && strchr(text.s, '-') == NULL;
    nc_text_release(&text);
    return yes;
}

/* ONNX divides integers towards zero, floordiv towards minus infinity: the same where nothing is negative. By a size
 * of 0 kernels give 0 (lanes/vocab_int.h): floor(a/max(b,1)) times min(b,1). */
static const nc_dim *quotient(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    int64_t x, y;
    bool const_b = nc_dim_is_const(b, &y);
    if (const_b && y == 0) return NULL;
    if (const_b && nc_dim_is_const(a, &x)) return x == INT64_MIN && y == -1 ? NULL : nc_dim_const(t, x / y);
    if (!never_negative(a) || !never_negative(b)) return NULL;
    if (const_b) return nc_dim_floordiv(t, a, b);
    const nc_dim *one = nc_dim_const(t, 1), *whole = nc_dim_floordiv(t, a, nc_dim_max(t, b, one));
    return nc_dim_mul(t, whole, nc_dim_min(t, b, one));
}

static const nc_dim *negated(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    (void)b;
    return nc_dim_sub(t, nc_dim_const(t, 0), a);
}

static const nc_dim *equal(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    int64_t x = 0, y = 0;
    bool const_a = nc_dim_is_const(a, &x), const_b = nc_dim_is_const(b, &y);
    if (a == b) return nc_dim_const(t, 1);
    if (const_a && const_b) return nc_dim_const(t, 0);
    if ((const_a && x < 0 && never_negative(b)) || (const_b && y < 0 && never_negative(a))) return nc_dim_const(t, 0);
    return NULL;
}

static const nc_dim *less(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    int64_t x, y;
    return nc_dim_is_const(a, &x) && nc_dim_is_const(b, &y) ? nc_dim_const(t, x < y) : NULL;
}

static const nc_dim *greater(nc_dims *t, const nc_dim *a, const nc_dim *b) { return less(t, b, a); }

nc_code nc_math_fold_add(nc_infer *c) { return nc_math_fold2(c, nc_dim_add); }
nc_code nc_math_fold_sub(nc_infer *c) { return nc_math_fold2(c, nc_dim_sub); }
nc_code nc_math_fold_mul(nc_infer *c) { return nc_math_fold2(c, nc_dim_mul); }
nc_code nc_math_fold_div(nc_infer *c) { return nc_math_fold2(c, quotient); }
nc_code nc_math_fold_min(nc_infer *c) { return nc_math_fold2(c, nc_dim_min); }
nc_code nc_math_fold_max(nc_infer *c) { return nc_math_fold2(c, nc_dim_max); }
nc_code nc_math_fold_equal(nc_infer *c) { return nc_math_fold2(c, equal); }
nc_code nc_math_fold_less(nc_infer *c) { return nc_math_fold2(c, less); }
nc_code nc_math_fold_greater(nc_infer *c) { return nc_math_fold2(c, greater); }

nc_code nc_math_fold_neg(nc_infer *c) {
    const nc_dim *out[NC_MAX_ELEMS];
    const nc_dim *const *in;
    int n_in, n;
    if (!same_counts(c, 1, &in, &n_in, &n)) return NC_OK;
    for (int i = 0; i < n; i++) {
        out[i] = negated(c->dims, in[i], NULL);
        if (!fits_type(c->out[0].type->elem, out[i])) return NC_OK;
    }
    return nc_out_elems(c, 0, n, out);
}

nc_code nc_math_fold_where(nc_infer *c) {
    const nc_dim *const *in[3];
    const nc_dim *out[NC_MAX_ELEMS];
    int count[3], n;
    int64_t yes;
    if (!same_counts(c, 3, in, count, &n)) return NC_OK;
    for (int i = 0; i < n; i++) {
        if (!nc_dim_is_const(in[0][count[0] == 1 ? 0 : i], &yes)) return NC_OK;
        int from = yes != 0 ? 1 : 2;
        out[i] = in[from][count[from] == 1 ? 0 : i];
    }
    return nc_out_elems(c, 0, n, out);
}

static const nc_dim *remainder_of(nc_dims *t, const nc_dim *a, const nc_dim *b) {
    int64_t x, y;
    if (!nc_dim_is_const(a, &x) || !nc_dim_is_const(b, &y) || x < 0 || y <= 0) return NULL;
    return nc_dim_const(t, x % y);
}

nc_code nc_math_fold_mod(nc_infer *c) { return nc_math_fold2(c, remainder_of); }

/* One bound of Clip over all elements. */
static bool bound(nc_infer *c, int i_in, const nc_dim **out, int n, nc_math_dim2 f) {
    int count;
    if (i_in >= c->node->n_in || !c->in[i_in].present) return true;
    const nc_dim *const *limit = nc_in_elems(c, i_in, &count);
    if (limit == NULL || count != 1) return false;
    for (int i = 0; i < n; i++)
        if ((out[i] = f(c->dims, out[i], limit[0])) == NULL) return false;
    return true;
}

nc_code nc_math_fold_clip(nc_infer *c) {
    const nc_dim *out[NC_MAX_ELEMS];
    int n;
    const nc_dim *const *in = nc_in_elems(c, 0, &n);
    if (in == NULL || n > NC_MAX_ELEMS || c->out[0].type == NULL) return NC_OK;
    for (int i = 0; i < n; i++) out[i] = in[i];
    if (!bound(c, 1, out, n, nc_dim_max) || !bound(c, 2, out, n, nc_dim_min)) return NC_OK;
    for (int i = 0; i < n; i++)
        if (!fits_type(c->out[0].type->elem, out[i])) return NC_OK;
    return nc_out_elems(c, 0, n, out);
}
