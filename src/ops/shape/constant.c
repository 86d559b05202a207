/* ops/shape/constant.c: cards of Constant, ConstantOfShape and Range: values out of attributes and sizes.
 *
 * Loaders make constants of the graph out of Constant nodes. Where one is left, inference puts its literal on the
 * output: the pass fold_sizes makes it a constant, and without that pass its kernel copies the literal. sparse_value
 * is not an attribute kind of the graph; loaders refuse it. */
#include "base/real.h"
#include "ops/shape/shape.h"

#include <math.h>
#include <string.h>

static nc_code new_literal(nc_infer *c, nc_dtype t, int rank, int64_t n, const void *data, size_t bytes) {
    nc_literal *l = nc_arena_alloc(c->arena, sizeof *l);
    int64_t *dims = nc_arena_copy(c->arena, &n, sizeof n);
    NC_NEED(c->w, l);
    NC_NEED(c->w, dims);
    *l = (nc_literal){.dtype = t, .rank = rank, .dims = dims, .n = n, .data = data, .bytes = bytes};
    c->out[0].lit = l;
    return NC_OK;
}

static nc_code literal_of(nc_infer *c, const nc_attr *a) {
    size_t n = (size_t)a->n;
    switch (a->kind) {
    case NC_A_TENSOR: c->out[0].lit = a->tensor; return NC_OK;
    case NC_A_INT: return new_literal(c, NC_INT64, 0, 1, &a->i, sizeof a->i);
    case NC_A_FLOAT: return new_literal(c, NC_FLOAT, 0, 1, &a->f, sizeof a->f);
    case NC_A_STRING: return new_literal(c, NC_STRING, 0, 1, &a->s, sizeof a->s);
    case NC_A_INTS: return new_literal(c, NC_INT64, 1, a->n, a->ints, n * sizeof *a->ints);
    case NC_A_FLOATS: return new_literal(c, NC_FLOAT, 1, a->n, a->floats, n * sizeof *a->floats);
    case NC_A_STRINGS: return new_literal(c, NC_STRING, 1, a->n, a->strings, n * sizeof *a->strings);
    default: NC_FAIL(c->w, NC_E_UNSUPPORTED, "attribute '%s' is not a value", a->name);
    }
}

static nc_code constant_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    if (c->node->n_attrs != 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs one attribute, has %d", c->node->n_attrs);
    NC_TRY(literal_of(c, &c->node->attrs[0]));
    const nc_literal *l = c->out[0].lit;
    if (l->rank > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "%d dims, at most %d are supported", l->rank, NC_MAX_RANK);
    for (int k = 0; k < l->rank; k++) dims[k] = nc_dim_const(c->dims, l->dims[k]);
    return nc_out(c, 0, l->dtype, l->rank, dims);
}

static nc_code constant_fold(nc_infer *c) {
    int64_t v[NC_MAX_ELEMS], n;
    const nc_dim *elems[NC_MAX_ELEMS];
    if (c->out[0].lit == NULL || !nc_literal_ints(c->out[0].lit, v, NC_MAX_ELEMS, &n)) return NC_OK;
    for (int64_t k = 0; k < n; k++) elems[k] = nc_dim_const(c->dims, v[k]);
    return nc_out_elems(c, 0, (int)n, elems);
}

#define CONSTANT(types, ...) NO_IN, OUT({"output", types}), ATTR(__VA_ARGS__)
#define VALUES                                                                                           \
    A_TENSOR_OPT("value"), A_INT_OPT("value_int"), A_INTS_OPT("value_ints"), A_FLOAT_OPT("value_float"), \
        A_FLOATS_OPT("value_floats"), A_STR_OPT("value_string"), A_STRINGS_OPT("value_strings")
#define A_VALUE_REQ \
    { .name = "value", .kind = NC_A_TENSOR, .flags = NC_ATTR_REQUIRED }
static const nc_op_version constant_versions[] = {{.since = 25, CONSTANT(T_TENSOR_ALL | T_NARROW_25, VALUES)},
                                                  {.since = 24, CONSTANT(T_TENSOR_ALL | T_NARROW_24, VALUES)},
                                                  {.since = 23, CONSTANT(T_TENSOR_ALL | T_NARROW_23, VALUES)},
                                                  {.since = 21, CONSTANT(T_TENSOR_ALL | T_NARROW_21, VALUES)},
                                                  {.since = 19, CONSTANT(T_TENSOR_ALL | T_NARROW_19, VALUES)},
                                                  {.since = 13, CONSTANT(T_TENSOR_ALL, VALUES)},
                                                  {.since = 12, CONSTANT(T_TENSOR, VALUES)},
                                                  {.since = 11, CONSTANT(T_TENSOR, A_TENSOR_OPT("value"))},
                                                  {.since = 9, CONSTANT(T_TENSOR, A_VALUE_REQ)},
                                                  {.since = 1, CONSTANT(T_FLOAT, A_VALUE_REQ)},
                                                  {0}};

const nc_card nc_card_constant = {.name = "Constant",
                                  .doc = "The value of its attribute.",
                                  .versions = constant_versions,
                                  .infer = constant_infer,
                                  .fold = constant_fold,
                                  .zero_grad = true};

/* ---- ConstantOfShape ---- */

static nc_code filled_infer(nc_infer *c) {
    const nc_attr *a = nc_node_attr(c->node, "value");
    nc_dtype t = a != NULL ? a->tensor->dtype : NC_FLOAT;
    int n;
    if (a != NULL && a->tensor->n != 1)
        NC_FAIL(c->w, NC_E_SHAPE, "value must have one element, has %lld", (long long)a->tensor->n);
    if (!(c->node->version->out[0].types & NC_BIT(t)))
        NC_FAIL(c->w, NC_E_TYPE, "value is of type %s", nc_dtype_name(t));
    const nc_dim *const *shape = nc_in_elems(c, 0, &n);
    return shape != NULL ? nc_out(c, 0, t, n, shape) : nc_out_unknown(c, 0, t, nc_shape_count(c, 0));
}

static nc_code filled_fold(nc_infer *c) {
    const nc_attr *a = nc_node_attr(c->node, "value");
    const nc_type *y = c->out[0].type;
    const nc_dim *elems[NC_MAX_ELEMS];
    int64_t v, n, count = 1, size;
    if (a == NULL || y == NULL || y->rank < 0 || !nc_literal_ints(a->tensor, &v, 1, &n)) return NC_OK;
    for (int k = 0; k < y->rank; k++)
        if (!nc_dim_is_const(y->dims[k], &size) || !nc_mul_i64(count, size, &count)) return NC_OK;
    if (count > NC_MAX_ELEMS) return NC_OK;
    for (int64_t k = 0; k < count; k++) elems[k] = nc_dim_const(c->dims, v);
    return nc_out_elems(c, 0, (int)count, elems);
}

#define FILLED(types) IN({"input", T_I64}), OUT({"output", types}), ATTR(A_TENSOR_OPT("value"))
#define T_FILL (T_NUMBER | T_BOOL)
static const nc_op_version filled_versions[] = {{.since = 25, FILLED(T_FILL | NC_BIT(NC_BFLOAT16) | T_NARROW_25)},
                                                {.since = 24, FILLED(T_FILL | NC_BIT(NC_BFLOAT16) | T_NARROW_24)},
                                                {.since = 23, FILLED(T_FILL | NC_BIT(NC_BFLOAT16) | T_NARROW_23)},
                                                {.since = 21, FILLED(T_FILL | NC_BIT(NC_BFLOAT16) | T_NARROW_21)},
                                                {.since = 20, FILLED(T_FILL | NC_BIT(NC_BFLOAT16) | T_NARROW_19)},
                                                {.since = 9, FILLED(T_FILL)},
                                                {0}};

const nc_card nc_card_constant_of_shape = {.name = "ConstantOfShape",
                                           .doc = "A tensor of the given shape, all elements one value.",
                                           .versions = filled_versions,
                                           .host_in = 1,
                                           .no_grad_in = 1,
                                           .infer = filled_infer,
                                           .fold = filled_fold,
                                           .zero_grad = true};

/* ---- Range ---- */

/* max(0, ceil((limit - start) / delta)); false: not known, or delta is 0. */
static bool count_ints(nc_infer *c, const nc_dim **out) {
    const nc_dim *at[3];
    int64_t v[3];
    bool fixed = true;
    for (int i = 0; i < 3; i++) {
        int n;
        const nc_dim *const *e = nc_in_elems(c, i, &n);
        if (e == NULL || n != 1) return false;
        at[i] = e[0];
        fixed &= nc_dim_is_const(at[i], &v[i]);
    }
    if (!nc_dim_is_const(at[2], &v[2]) || v[2] == 0 || v[2] == INT64_MIN) return false;
    const nc_dim *span = v[2] > 0 ? nc_dim_sub(c->dims, at[1], at[0]) : nc_dim_sub(c->dims, at[0], at[1]);
    bool certain = !fixed && span != NULL && nc_shape_never_negative(span);
    if (!certain) span = nc_dim_max(c->dims, span, nc_dim_const(c->dims, 0));
    *out = nc_dim_ceildiv(c->dims, span, nc_dim_const(c->dims, v[2] > 0 ? v[2] : -v[2]));
    return *out != NULL;
}

static bool scalar_of(const nc_literal *l, double *v) {
    double aligned = 0;
    if (l == NULL || l->n != 1 || !nc_dtype_is_float(l->dtype)) return false;
    memcpy(&aligned, l->data, nc_dtype_bytes(l->dtype));
    *v = nc_real_get_any(l->dtype, &aligned, 0);
    return true;
}

/* *out stays as it is where they are not all known. */
static nc_code count_floats(nc_infer *c, const nc_dim **out) {
    double v[3];
    for (int i = 0; i < 3; i++)
        if (!scalar_of(c->in[i].lit, &v[i])) return NC_OK;
    double n = ceil((v[1] - v[0]) / v[2]);
    if (!(n < 0x1p40)) NC_FAIL(c->w, NC_E_DATA, "start, limit and delta give no finite count");
    *out = nc_dim_const(c->dims, n > 0 ? (int64_t)n : 0);
    NC_NEED(c->w, *out);
    return NC_OK;
}

static nc_code range_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *n = NULL;
    int64_t delta;
    int count;
    if (x == NULL) return NC_OK;
    if (nc_in_ints(c, 2, &delta, 1, &count) && count == 1 && delta == 0) NC_FAIL(c->w, NC_E_DATA, "delta is 0");
    if (!count_ints(c, &n)) NC_TRY(count_floats(c, &n));
    if (n == NULL) n = nc_fresh(c, "n");
    return nc_out(c, 0, x->elem, 1, &n);
}

static nc_code range_fold(nc_infer *c) {
    const nc_dim *elems[NC_MAX_ELEMS];
    int64_t count, delta, start;
    int n;
    const nc_type *y = c->out[0].type;
    if (y == NULL || !nc_dim_is_const(y->dims[0], &count) || count > NC_MAX_ELEMS) return NC_OK;
    if (!nc_in_ints(c, 0, &start, 1, &n) || n != 1 || !nc_in_ints(c, 2, &delta, 1, &n) || n != 1) return NC_OK;
    for (int64_t k = 0; k < count; k++) elems[k] = nc_dim_const(c->dims, start + k * delta);
    return nc_out_elems(c, 0, (int)count, elems);
}

/* y_k = start + k delta. */
static nc_code range_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || dy->type == NULL) return NC_OK;
    static const int64_t all[1] = {0};
    if (g->wants[0]) nc_grad_set(g, 0, nc_build_reduce_sum(g->b, dy, all, 1, false));
    if (g->wants[2]) {
        nc_value *k =
            nc_build1(g->b, "Range", 3, nc_build_int(g->b, 0), nc_build1(g->b, "Size", 1, dy), nc_build_int(g->b, 1));
        nc_value *product = nc_build1(g->b, "Mul", 2, dy, nc_build_cast(g->b, k, dy->type->elem));
        nc_grad_set(g, 2, nc_build_reduce_sum(g->b, product, all, 1, false));
    }
    return nc_grad_end(g);
}

#define T_RANGE (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT16) | T_INDEX)
#define RANGE(types) \
    IN({"start", types, SINGLE}, {"limit", SAME(0), SINGLE}, {"delta", SAME(0), SINGLE}), OUT({"output", SAME(0)})
static const nc_op_version range_versions[] = {
    {.since = 27, RANGE(T_RANGE | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16)), ATTR(A_INT("stash_type", 1))},
    {.since = 11, RANGE(T_RANGE), NO_ATTR},
    {0}};

const nc_card nc_card_range = {.name = "Range",
                               .doc = "start, start + delta, ... below limit.",
                               .versions = range_versions,
                               .host_in = 7,
                               .no_grad_in = 1u << 1,
                               .infer = range_infer,
                               .fold = range_fold,
                               .grad = range_grad};
