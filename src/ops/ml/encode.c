/* ops/ml/encode.c: cards of OneHotEncoder, Imputer and FeatureVectorizer, which are other ops put together, and of
 * CategoryMapper, which is a LabelEncoder. */
#include "ops/build.h"
#include "ops/ml/ml.h"

#define T_ML (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT64))
#define T_F32 NC_BIT(NC_FLOAT)
#define ML "ai.onnx.ml"

static nc_value *list(nc_builder *b, nc_dtype t, int64_t n, const void *data) {
    const nc_literal *l = nc_edit_literal(b->graph->model, t, 1, &n, data);
    nc_attr value = {.name = "value", .kind = NC_A_TENSOR, .tensor = l};
    if (l == NULL && b->code == NC_OK) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    return l != NULL ? nc_build_attr1(b, "", "Constant", NULL, 0, &value, 1) : NULL;
}

/* ---- OneHotEncoder ---- */

static nc_code one_hot_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    const nc_attr *ints = nc_node_attr(c->node, "cats_int64s"), *strings = nc_node_attr(c->node, "cats_strings");
    if (x == NULL) return NC_OK;
    if ((ints == NULL) == (strings == NULL)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs cats_int64s or cats_strings");
    if ((x->elem == NC_STRING) != (strings != NULL))
        NC_FAIL(c->w, NC_E_TYPE, "X is %s, the categories are %s", nc_dtype_name(x->elem),
                strings ? "string" : "int64");
    if (x->rank < 0) return nc_out_unknown(c, 0, NC_FLOAT, -1);
    if (x->rank >= NC_MAX_RANK) NC_FAIL(c->w, NC_E_LIMIT, "X has %d dims", x->rank);
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    dims[x->rank] = nc_dim_const(c->dims, ints != NULL ? ints->n : strings->n);
    return nc_out(c, 0, NC_FLOAT, x->rank + 1, dims);
}

static nc_value *counted(nc_builder *b, int64_t n) {
    return nc_build1(b, "Range", 3, nc_build_int(b, 0), nc_build_int(b, n), nc_build_int(b, 1));
}

/* The numbers of strings among the categories, -1 for unknown ones. */
static nc_value *numbered(nc_builder *b, nc_value *x, const nc_attr *cats) {
    int64_t *numbers = nc_arena_array(&b->w->scratch, (size_t)cats->n + 1, sizeof *numbers);
    if (numbers == NULL) {
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
        return NULL;
    }
    for (int i = 0; i < cats->n; i++) numbers[i] = i;
    nc_attr attrs[2] = {*cats, {.name = "cats_int64s", .kind = NC_A_INTS, .n = cats->n, .ints = numbers}};
    return nc_build_attr1(b, ML, "CategoryMapper", &x, 1, attrs, 2);
}

/* Every element equal to every category. Floats are cut off first, as in other runtimes. Where an element without a
 * category is an error, a kernel looks (one_hot_cpu.c). */
static nc_code one_hot_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_attr *ints = nc_node_attr(n, "cats_int64s"), *strings = nc_node_attr(n, "cats_strings");
    int64_t last = -1;
    nc_value *x = strings != NULL ? numbered(b, n->in[0], strings) : nc_build_cast(b, n->in[0], NC_INT64);
    nc_value *cats = ints != NULL ? list(b, NC_INT64, ints->n, ints->ints) : counted(b, strings->n);
    nc_value *wide = nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, &last, 1));
    out[0] = nc_build_cast(b, nc_build1(b, "Equal", 2, wide, cats), NC_FLOAT);
    return b->code;
}

static const nc_op_version one_hot_versions[] = {
    {.since = 1,
     IN({"X", T_ML | T_STRING}),
     OUT({"Y", T_F32}),
     ATTR(A_INT("zeros", 1), A_STRINGS_OPT("cats_strings"), A_INTS_OPT("cats_int64s"))},
    {0}};

const nc_card nc_card_one_hot_encoder = {.name = "OneHotEncoder",
                                         .domain = ML,
                                         .doc = "A new axis that is 1 where the element is the category.",
                                         .versions = one_hot_versions,
                                         .infer = one_hot_infer,
                                         .zero_grad = true,
                                         .decompose = one_hot_decompose};

/* ---- Imputer ---- */

static nc_code imputer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    bool whole = x != NULL && (x->elem == NC_INT64 || x->elem == NC_INT32);
    NC_TRY(nc_ml_columns_expect(c, whole ? "imputed_value_int64s" : "imputed_value_floats"));
    return nc_out_like(c, 0, 0);
}

static nc_code imputer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_dtype t = n->in[0]->type->elem;
    bool whole = t == NC_INT64 || t == NC_INT32;
    const nc_attr *by = nc_node_attr(n, whole ? "imputed_value_int64s" : "imputed_value_floats");
    if (by == NULL || by->n == 0) NC_FAIL(b->w, NC_E_BAD_GRAPH, "has no imputed values for %s", nc_dtype_name(t));
    nc_value *values =
        nc_build_cast(b, whole ? list(b, NC_INT64, by->n, by->ints) : list(b, NC_FLOAT, by->n, by->floats), t);
    double missing = whole ? (double)nc_attr_int(n, "replaced_value_int64") : nc_attr_float(n, "replaced_value_float");
    nc_value *at = missing != missing ? nc_build1(b, "IsNaN", 1, n->in[0])
                                      : nc_build1(b, "Equal", 2, n->in[0], nc_build_scalar(b, t, missing));
    out[0] = nc_build1(b, "Where", 3, at, values, n->in[0]);
    return b->code;
}

static const nc_op_version imputer_versions[] = {
    {.since = 1,
     IN({"X", T_ML}),
     OUT({"Y", SAME(0)}),
     ATTR(A_INT("replaced_value_int64", 0), A_INTS_OPT("imputed_value_int64s"), A_FLOAT("replaced_value_float", 0),
          A_FLOATS_OPT("imputed_value_floats"))},
    {0}};

const nc_card nc_card_imputer = {.name = "Imputer",
                                 .domain = ML,
                                 .doc = "One value of X replaced by another, or by one per column.",
                                 .versions = imputer_versions,
                                 .infer = imputer_infer,
                                 .decompose = imputer_decompose};

/* ---- CategoryMapper ---- */

static nc_code mapper_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL) return NC_OK;
    nc_dtype t = x->elem == NC_STRING ? NC_INT64 : NC_STRING;
    return x->rank < 0 ? nc_out_unknown(c, 0, t, -1) : nc_out(c, 0, t, x->rank, x->dims);
}

static const nc_op_version mapper_versions[] = {{.since = 1,
                                                 IN({"X", T_STRING | T_I64}),
                                                 OUT({"Y", T_STRING | T_I64}),
                                                 ATTR(A_INT("default_int64", -1), A_STR("default_string", "_Unused"),
                                                      A_INTS_OPT("cats_int64s"), A_STRINGS_OPT("cats_strings"))},
                                                {0}};

const nc_card nc_card_category_mapper = {.name = "CategoryMapper",
                                         .domain = ML,
                                         .doc = "Names to numbers, or numbers to names.",
                                         .versions = mapper_versions,
                                         .traits = NC_HOST_OBJECTS,
                                         .infer = mapper_infer,
                                         .zero_grad = true};

/* ---- FeatureVectorizer ---- */

static nc_code vectorizer_infer(nc_infer *c) {
    int n;
    const int64_t *sizes = nc_attr_ints(c->node, "inputdimensions", &n);
    const nc_dim *dims[2] = {NULL, nc_dim_const(c->dims, 0)};
    for (int i = 0; i < c->node->n_in; i++) {
        const nc_type *x = nc_in(c, i);
        if (x == NULL || x->rank < 0) return nc_out_unknown(c, 0, NC_FLOAT, 2);
        if (x->rank < 1) NC_FAIL(c->w, NC_E_SHAPE, "input %d has no dims, at least 1 is expected", i);
        int64_t width;
        const nc_dim *columns = x->dims[x->rank > 1];
        for (int k = 2; k < x->rank; k++) columns = nc_dim_mul(c->dims, columns, x->dims[k]);
        bool known = nc_dim_is_const(columns, &width);
        if (sizes != NULL && i < n && known && width != sizes[i])
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %lld columns, inputdimensions says %lld", i, (long long)width,
                    (long long)sizes[i]);
        if (i == 0) dims[0] = x->rank > 1 ? x->dims[0] : nc_dim_const(c->dims, 1);
        dims[1] = nc_dim_add(c->dims, dims[1], columns);
    }
    return nc_out(c, 0, NC_FLOAT, 2, dims);
}

static nc_code vectorizer_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value **parts = nc_arena_array(&b->w->scratch, (size_t)n->n_in, sizeof *parts);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    int64_t first = 0;
    NC_NEED(b->w, parts);
    for (int i = 0; i < n->n_in; i++) {
        parts[i] = nc_build_cast(b, n->in[i], NC_FLOAT);
        int rank = n->in[i]->type != NULL ? n->in[i]->type->rank : -1;
        if (rank == 1) parts[i] = nc_build1(b, "Unsqueeze", 2, parts[i], nc_build_ints(b, &first, 1));
        if (rank > 2) parts[i] = nc_build_attr1(b, "", "Flatten", &parts[i], 1, &axis, 1);
    }
    out[0] = nc_build_attr1(b, "", "Concat", parts, n->n_in, &axis, 1);
    return b->code;
}

static const nc_op_version vectorizer_versions[] = {
    {.since = 1, IN({"X", T_ML, VARIADIC}), OUT({"Y", T_F32}), ATTR(A_INTS_OPT("inputdimensions"))}, {0}};

const nc_card nc_card_feature_vectorizer = {.name = "FeatureVectorizer",
                                            .domain = ML,
                                            .doc = "Columns of several inputs side by side.",
                                            .versions = vectorizer_versions,
                                            .infer = vectorizer_infer,
                                            .decompose = vectorizer_decompose};
