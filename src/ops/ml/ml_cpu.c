/* ops/ml/ml_cpu.c: bindings of the ml family, and the host kernel of LabelEncoder and CategoryMapper. Keys are sorted
 * once, when the session is made; the first of equal keys counts. NaN is found by NaN. */
#include "base/intmath.h"
#include "ops/ml/linear.h"
#include "ops/ml/svm.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct key {
    nc_str s;
    double f;
    int64_t i, at; /* at: its row in the table */
} key;

typedef struct table {
    nc_dtype from, to;
    int64_t n;
    key *keys;          /* sorted */
    const char *values; /* rows of `to`; strings are nc_str */
    const void *otherwise;
} table;

static int compare_strings(const nc_str *a, const nc_str *b) {
    size_t n = nc_min_size(a->n, b->n);
    int c = n > 0 ? memcmp(a->p, b->p, n) : 0;
    return c != 0 ? c : (a->n > b->n) - (a->n < b->n);
}

/* Unused parts are equal. */
static int compare(const void *x, const void *y) {
    const key *a = x, *b = y;
    int c = compare_strings(&a->s, &b->s);
    if (c != 0) return c;
    if (a->i != b->i) return a->i < b->i ? -1 : 1;
    bool nan_a = a->f != a->f, nan_b = b->f != b->f;
    if (nan_a || nan_b) return nan_a - nan_b;
    return (a->f > b->f) - (a->f < b->f);
}

static int compare_rows(const void *x, const void *y) {
    int c = compare(x, y);
    return c != 0 ? c : (((const key *)x)->at > ((const key *)y)->at) - (((const key *)x)->at < ((const key *)y)->at);
}

static key key_at(nc_dtype t, const void *data, int64_t i) {
    key k = {.at = i};
    float f;
    int32_t i32;
    int16_t i16;
    const char *p = data;
    switch (t) {
    case NC_STRING: memcpy(&k.s, p + i * (int64_t)sizeof k.s, sizeof k.s); break;
    case NC_FLOAT: memcpy(&f, p + i * 4, 4), k.f = (double)f; break;
    case NC_DOUBLE: memcpy(&k.f, p + i * 8, 8); break;
    case NC_INT32: memcpy(&i32, p + i * 4, 4), k.i = i32; break;
    case NC_INT16: memcpy(&i16, p + i * 2, 2), k.i = i16; break;
    default: memcpy(&k.i, p + i * 8, 8); break;
    }
    if (k.f == 0) k.f = 0; /* -0 is 0 */
    return k;
}

static size_t row_bytes(nc_dtype t) { return t == NC_STRING ? sizeof(nc_str) : nc_dtype_bytes(t); }

static nc_code read_default(nc_prep *p, table *t) {
    const nc_node *n = p->node;
    const nc_attr *a = nc_node_attr(n, "default_tensor");
    if (a != NULL && a->tensor->dtype == t->to && a->tensor->n == 1) {
        t->otherwise = a->tensor->data;
        return NC_OK;
    }
    const char *s = nc_attr_str(n, "default_string");
    nc_str text = {(char *)(uintptr_t)s, strlen(s)};
    int64_t i = nc_attr_int(n, "default_int64");
    float f = n->version->since > 1 ? (float)nc_attr_float(n, "default_float") : 0;
    double d = (double)f;
    int32_t i32 = (int32_t)i;
    int16_t i16 = (int16_t)i;
    const void *from = t->to == NC_STRING   ? (const void *)&text
                       : t->to == NC_FLOAT  ? (const void *)&f
                       : t->to == NC_DOUBLE ? (const void *)&d
                       : t->to == NC_INT32  ? (const void *)&i32
                       : t->to == NC_INT16  ? (const void *)&i16
                                            : (const void *)&i;
    t->otherwise = nc_arena_copy(p->arena, from, row_bytes(t->to));
    NC_NEED(p->w, t->otherwise);
    return NC_OK;
}

/* Version 1: a list of names against their numbers, one way or the other. */
static nc_code read_classes(nc_prep *p, nc_label_column *keys, nc_label_column *values) {
    const nc_attr *names = nc_node_attr(p->node, "classes_strings");
    int64_t n = names != NULL ? names->n : 0, *numbers = nc_arena_array(p->arena, (size_t)n + 1, sizeof *numbers);
    NC_NEED(p->w, numbers);
    for (int64_t i = 0; i < n; i++) numbers[i] = i;
    nc_label_column text = {NC_STRING, n, names != NULL ? names->strings : NULL}, count = {NC_INT64, n, numbers};
    bool by_name = p->node->in[0]->type->elem == NC_STRING;
    *keys = by_name ? text : count;
    *values = by_name ? count : text;
    return NC_OK;
}

/* CategoryMapper: names against numbers, one way or the other. */
static void read_categories(const nc_node *n, nc_label_column *keys, nc_label_column *values) {
    const nc_attr *names = nc_node_attr(n, "cats_strings"), *ints = nc_node_attr(n, "cats_int64s");
    nc_label_column text = {NC_STRING, names->n, names->strings};
    nc_label_column numbers = {NC_INT64, ints != NULL ? ints->n : 0, ints != NULL ? ints->ints : NULL};
    bool by_name = n->in[0]->type->elem == NC_STRING;
    *keys = by_name ? text : numbers;
    *values = by_name ? numbers : text;
}

static nc_code ml_prepare(nc_prep *p) {
    nc_label_column keys, values;
    table *t = nc_arena_alloc(p->arena, sizeof *t);
    NC_NEED(p->w, t);
    if (nc_attr_has(p->node, "cats_strings"))
        read_categories(p->node, &keys, &values);
    else if (p->node->version->since == 1)
        NC_TRY(read_classes(p, &keys, &values));
    else if (!nc_label_list(p->node, false, &keys) || !nc_label_list(p->node, true, &values))
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "has no keys or no values");
    if (keys.n != values.n)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "has %lld keys and %lld values", (long long)keys.n, (long long)values.n);
    if (keys.type != p->node->in[0]->type->elem)
        NC_FAIL(p->w, NC_E_TYPE, "keys are %s, X is %s", nc_dtype_name(keys.type),
                nc_dtype_name(p->node->in[0]->type->elem));
    *t = (table){.from = keys.type, .to = values.type, .n = keys.n, .values = values.data};
    t->keys = nc_arena_array(p->arena, (size_t)keys.n + 1, sizeof *t->keys);
    NC_NEED(p->w, t->keys);
    for (int64_t i = 0; i < keys.n; i++) t->keys[i] = key_at(keys.type, keys.data, i);
    qsort(t->keys, (size_t)keys.n, sizeof *t->keys, compare_rows);
    p->state = t;
    return read_default(p, t);
}

/* The row of k's value. */
static const void *look_up(const table *t, const key *k) {
    int64_t lo = 0, hi = t->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (compare(&t->keys[mid], k) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool found = lo < t->n && compare(&t->keys[lo], k) == 0;
    return found ? t->values + (size_t)t->keys[lo].at * row_bytes(t->to) : t->otherwise;
}

static nc_code encode(nc_dyn *d) {
    const table *t = d->call->state;
    const nc_tensor *x = d->in[0] != NULL ? &d->in[0]->t : d->call->in[0];
    int64_t n = nc_tensor_numel(x);
    size_t bytes = row_bytes(t->to);
    char *rows = nc_alloc((size_t)n * bytes + 1);
    nc_tensor y;
    nc_code code =
        rows != NULL ? NC_OK : nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
    for (int64_t i = 0; code == NC_OK && i < n; i++) {
        key k = key_at(t->from, x->data, i);
        memcpy(rows + (size_t)i * bytes, look_up(t, &k), bytes);
    }
    if (code == NC_OK && t->to == NC_STRING) {
        d->out[0] = nc_object_strings(x->rank, x->dims, (const nc_str *)(const void *)rows);
        if (d->out[0] == NULL)
            code = nc_diag_set(d->call->diag, NC_E_MEMORY, d->call->node, d->call->op, "out of memory");
    } else if (code == NC_OK) {
        code = d->alloc(d, 0, t->to, x->rank, x->dims, &y);
        if (code == NC_OK && n > 0) memcpy(y.data, rows, (size_t)n * bytes);
    }
    nc_free(rows);
    return code;
}

#define TREES(name, fn)                                                                                   \
    {                                                                                                     \
        .op = name, .domain = "ai.onnx.ml", .fits = fn, .prepare = nc_trees_prepare, .run = nc_trees_run, \
        .workspace = nc_trees_workspace                                                                   \
    }
#define LINEAR(name, kind, fn)                                                                 \
    {                                                                                          \
        .op = name, .domain = "ai.onnx.ml", .fits = fn, .prepare = nc_linear_##kind##_prepare, \
        .run = nc_linear_##kind##_run, .workspace = nc_linear_workspace                        \
    }

#define SVM(name, fn)                                                                                 \
    {                                                                                                 \
        .op = name, .domain = "ai.onnx.ml", .fits = fn, .prepare = nc_svm_prepare, .run = nc_svm_run, \
        .workspace = nc_svm_workspace                                                                 \
    }

const nc_binding nc_ml_cpu[] = {
    {.op = "LabelEncoder", .domain = "ai.onnx.ml", .kind = NC_K_DYNAMIC, .prepare = ml_prepare, .dynamic = encode},
    {.op = "CategoryMapper", .domain = "ai.onnx.ml", .kind = NC_K_DYNAMIC, .prepare = ml_prepare, .dynamic = encode},
    TREES("TreeEnsembleRegressor", NULL),
    TREES("TreeEnsembleClassifier", nc_ml_no_strings),
    TREES("TreeEnsemble", NULL),
    LINEAR("LinearRegressor", regressor, NULL),
    LINEAR("LinearClassifier", classifier, nc_ml_no_strings),
    SVM("SVMRegressor", NULL),
    SVM("SVMClassifier", nc_ml_no_strings),
    {.op = "ZipMap",
     .domain = "ai.onnx.ml",
     .kind = NC_K_DYNAMIC,
     .prepare = nc_zip_map_prepare,
     .dynamic = nc_zip_map},
    {.op = "DictVectorizer",
     .domain = "ai.onnx.ml",
     .kind = NC_K_DYNAMIC,
     .prepare = nc_dict_prepare,
     .dynamic = nc_dict_vectorizer},
    {.op = "CastMap",
     .domain = "ai.onnx.ml",
     .kind = NC_K_DYNAMIC,
     .prepare = nc_cast_map_prepare,
     .dynamic = nc_cast_map},
    {.op = "OneHotEncoder",
     .domain = "ai.onnx.ml",
     .kind = NC_K_DYNAMIC,
     .fits = nc_one_hot_fits,
     .prepare = nc_one_hot_prepare,
     .dynamic = nc_one_hot},
    {0}};
