/* ops/matmul/einsum_parts.c: Einsum in simple ops, for devices without a kernel for it. Diagonals come first; then the
 * operands are joined from the left, two at a time: labels that nothing behind needs are summed, those that only one of
 * the two has by themselves, those of both by a MatMul whose batch is the labels of both that stay. Where neither has
 * a label alone such products were of one row and one column: numbers are multiplied where they lie, and summed. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/matmul/einsum.h"

typedef struct joining {
    nc_builder *b;
    bool *later; /* by label: the result has it, or an operand that is not joined yet */
} joining;

/* A value and the labels of its dims, each once. */
typedef struct labelled {
    nc_value *v;
    nc_einsum_term t;
} labelled;

static int place_of(const nc_einsum_term *t, int label) {
    for (int k = 0; k < t->rank; k++)
        if (t->label[k] == label) return k;
    return -1;
}

static nc_value *unsqueezed(nc_builder *b, nc_value *x, int first, int n) {
    int64_t axes[NC_MAX_RANK];
    for (int i = 0; i < n; i++) axes[i] = first + i;
    return n == 0 ? x : nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, axes, n));
}

/* Dims [from, to) of x, as a list. */
static nc_value *dims_of(nc_builder *b, nc_value *x, int from, int to) {
    nc_attr range[2] = {{.name = "start", .kind = NC_A_INT, .i = from}, {.name = "end", .kind = NC_A_INT, .i = to}};
    return nc_build_attr1(b, "", "Shape", &x, 1, range, 2);
}

/* How many elements those dims hold, as a list of one number. */
static nc_value *count_of(nc_builder *b, nc_value *x, int from, int to) {
    nc_value *in[1] = {dims_of(b, x, from, to)};
    nc_attr keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    return nc_build_attr1(b, "", "ReduceProd", in, 1, &keep, 1);
}

static nc_value *reshaped(nc_builder *b, nc_value *x, nc_value *const *pieces, int n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0}, zeros = {.name = "allowzero", .kind = NC_A_INT, .i = 1};
    nc_value *in[2] = {x, nc_build_attr1(b, "", "Concat", pieces, n, &axis, 1)};
    return nc_build_attr1(b, "", "Reshape", in, 2, &zeros, 1);
}

/* 0, 1, ... along axis k, of as many dims as x behind it. */
static nc_value *places(nc_builder *b, nc_value *x, int k) {
    nc_value *n = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_int(b, k));
    nc_value *i = nc_build1(b, "Range", 3, nc_build_int(b, 0), n, nc_build_int(b, 1));
    return unsqueezed(b, i, 1, x->type->rank - 1 - k);
}

static nc_code drop_axis(nc_builder *b, labelled *x, int axis) {
    int64_t at = axis;
    x->v = nc_build_reduce_sum(b, x->v, &at, 1, false);
    for (int k = axis; k + 1 < x->t.rank; k++) x->t.label[k] = x->t.label[k + 1];
    x->t.rank--;
    return b->code;
}

/* A label that stands twice: what is off the diagonal counts as 0, and one of its axes is summed. */
static nc_code take_diagonals(nc_builder *b, labelled *x) {
    for (int k = x->t.rank - 1; k > 0; k--) {
        int first = place_of(&x->t, x->t.label[k]);
        int64_t m, n;
        if (first == k) continue;
        const nc_dim *a = x->v->type->dims[first], *c = x->v->type->dims[k];
        if (a != c && !(nc_dim_is_const(a, &m) && nc_dim_is_const(c, &n) && m == n))
            NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need diagonals of squares");
        nc_value *on = nc_build1(b, "Equal", 2, places(b, x->v, first), places(b, x->v, k));
        NC_TRY(b->code);
        x->v = nc_build1(b, "Where", 3, on, x->v, nc_build_scalar(b, x->v->type->elem, 0));
        NC_TRY(drop_axis(b, x, k));
    }
    return b->code;
}

/* Sums x over labels that neither `other` nor anything behind has. */
static nc_code sum_alone(const joining *j, labelled *x, const nc_einsum_term *other) {
    for (int k = x->t.rank - 1; k >= 0; k--) {
        int l = x->t.label[k];
        if (!j->later[l] && (other == NULL || place_of(other, l) < 0)) NC_TRY(drop_axis(j->b, x, k));
    }
    return j->b->code;
}

enum { BATCH, ALONE, SUMMED }; /* what a label of an operand is, beside another */

static int kind_of(const joining *j, int label, const nc_einsum_term *other) {
    return place_of(other, label) < 0 ? ALONE : j->later[label] ? BATCH : SUMMED;
}

/* Appends the labels of t that are of a kind beside `other`; how many. */
static int pick(const joining *j, const nc_einsum_term *t, const nc_einsum_term *other, int kind, nc_einsum_term *out) {
    int before = out->rank;
    for (int k = 0; k < t->rank; k++)
        if (kind_of(j, t->label[k], other) == kind) out->label[out->rank++] = t->label[k];
    return out->rank - before;
}

/* x with its dims in the order of the labels. */
static nc_value *ordered(nc_builder *b, const labelled *x, const nc_einsum_term *order) {
    int64_t perm[NC_MAX_RANK];
    bool same = true;
    for (int k = 0; k < order->rank; k++) {
        perm[k] = place_of(&x->t, order->label[k]);
        same = same && perm[k] == k;
    }
    return same ? x->v : nc_build_transpose(b, x->v, perm, order->rank);
}

static nc_code need_equal(const joining *j, const labelled *a, const labelled *b, int label) {
    const nc_dim *x = a->v->type->dims[place_of(&a->t, label)], *y = b->v->type->dims[place_of(&b->t, label)];
    int64_t m, n;
    if (x == y || (nc_dim_is_const(x, &m) && nc_dim_is_const(y, &n) && m == n)) return NC_OK;
    NC_FAIL(j->b->w, NC_E_UNSUPPORTED, "its pieces need sizes of summed labels that are known to be equal");
}

/* Of operands of the same labels, floats: products are summed, those of the half types in float, and rounded once. */
static nc_code sum_products(const joining *j, const labelled *a, const labelled *b, labelled *out) {
    nc_builder *g = j->b;
    nc_dtype t = a->v->type->elem, wide = t == NC_DOUBLE ? t : NC_FLOAT;
    int64_t axes[NC_MAX_RANK];
    int n = 0;
    for (int k = 0; k < a->t.rank; k++)
        if (!j->later[a->t.label[k]]) axes[n++] = k;
    nc_value *x = nc_build_cast(g, a->v, wide), *y = nc_build_cast(g, ordered(g, b, &a->t), wide);
    out->v = nc_build_cast(g, nc_build_reduce_sum(g, nc_build1(g, "Mul", 2, x, y), axes, n, false), t);
    return g->code;
}

/* out: batch, labels of a alone, labels of b alone. */
static nc_code multiply(const joining *j, const labelled *a, const labelled *b, labelled *out) {
    nc_builder *g = j->b;
    nc_einsum_term left = {0}, right = {0}, summed = {0};
    int n_batch = pick(j, &a->t, &b->t, BATCH, &out->t), n_left = pick(j, &a->t, &b->t, ALONE, &out->t);
    int n_right = pick(j, &b->t, &a->t, ALONE, &out->t), n_sum = pick(j, &a->t, &b->t, SUMMED, &summed);
    for (int k = 0; k < summed.rank; k++) NC_TRY(need_equal(j, a, b, summed.label[k]));
    bool floats = (NC_BIT(a->v->type->elem) & T_FLOAT_ALL) != 0;
    if (n_sum > 0 && n_left + n_right == 0 && floats) return sum_products(j, a, b, out);
    for (int k = 0; k < n_batch + n_left; k++) left.label[left.rank++] = out->t.label[k];
    for (int k = 0; k < n_batch; k++) right.label[right.rank++] = out->t.label[k];
    for (int k = 0; k < n_sum; k++) left.label[left.rank++] = right.label[right.rank++] = summed.label[k];
    for (int k = 0; k < n_right; k++) right.label[right.rank++] = out->t.label[n_batch + n_left + k];
    nc_value *x = ordered(g, a, &left), *y = ordered(g, b, &right);
    if (n_sum == 0) {
        out->v = nc_build1(g, "Mul", 2, unsqueezed(g, x, left.rank, n_right), unsqueezed(g, y, n_batch, n_left));
        return g->code;
    }
    int m = n_batch + n_left, k = n_batch + n_sum;
    nc_value *rows[3] = {dims_of(g, x, 0, n_batch), count_of(g, x, n_batch, m), count_of(g, x, m, left.rank)};
    nc_value *cols[3] = {dims_of(g, y, 0, n_batch), count_of(g, y, n_batch, k), count_of(g, y, k, right.rank)};
    nc_value *z = nc_build1(g, "MatMul", 2, reshaped(g, x, rows, 3), reshaped(g, y, cols, 3));
    nc_value *dims[3] = {dims_of(g, z, 0, n_batch), dims_of(g, x, n_batch, m), dims_of(g, y, k, right.rank)};
    out->v = reshaped(g, z, dims, 3);
    return g->code;
}

static void mark(bool *seen, const nc_einsum_term *t) {
    for (int k = 0; k < t->rank; k++) seen[t->label[k]] = true;
}

static nc_code operand(nc_builder *b, const nc_einsum *e, int i, nc_value *v, nc_dtype type, labelled *out) {
    *out = (labelled){.v = nc_build_cast(b, v, type), .t = e->in[i]};
    NC_TRY(b->code);
    return take_diagonals(b, out);
}

nc_code nc_einsum_join(nc_builder *b, const nc_node *n, const nc_einsum *e, nc_value **out) {
    const nc_types computed = T_FLOAT_ALL | NC_BIT(NC_INT32) | NC_BIT(NC_INT64) | NC_BIT(NC_UINT32) | NC_BIT(NC_UINT64);
    nc_dtype elem = n->in[0]->type->elem, type = elem;
    const nc_types narrow = NC_BIT(NC_INT8) | NC_BIT(NC_UINT8) | NC_BIT(NC_INT16) | NC_BIT(NC_UINT16);
    if (!(NC_BIT(elem) & (computed | narrow))) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for numbers");
    if (NC_BIT(elem) & narrow) type = NC_INT64; /* exact; what the result cannot hold goes at the end */
    if (e->n_in > 2 && (elem == NC_FLOAT16 || elem == NC_BFLOAT16)) type = NC_FLOAT; /* one rounding, at the end */
    labelled sum;
    NC_TRY(operand(b, e, 0, n->in[0], type, &sum));
    for (int i = 1; i <= e->n_in; i++) {
        bool later[NC_EINSUM_LABELS] = {false};
        joining j = {b, later};
        labelled next, joined = {0};
        mark(later, &e->out);
        for (int k = i + 1; k < e->n_in; k++) mark(later, &e->in[k]);
        if (i == e->n_in) NC_TRY(sum_alone(&j, &sum, NULL));
        if (i == e->n_in) break;
        NC_TRY(operand(b, e, i, n->in[i], type, &next));
        NC_TRY(sum_alone(&j, &sum, &next.t));
        NC_TRY(sum_alone(&j, &next, &sum.t));
        NC_TRY(multiply(&j, &sum, &next, &joined));
        sum = joined;
    }
    out[0] = nc_build_cast(b, ordered(b, &sum, &e->out), elem);
    return b->code;
}
