/* ops/ml/label_encoder.c: the card of LabelEncoder: every element looked up in a table of keys and values. The table
 * stands in attributes, as lists of one type or as tensors; version 1 has a list of names and counts them. */
#include "ops/ml/ml.h"

#include <string.h>

static const char *const list_names[2][3] = {{"keys_strings", "keys_int64s", "keys_floats"},
                                             {"values_strings", "values_int64s", "values_floats"}};
static const nc_dtype list_types[3] = {NC_STRING, NC_INT64, NC_FLOAT};

bool nc_label_list(const nc_node *n, bool values, nc_label_column *out) {
    const nc_attr *t = nc_node_attr(n, values ? "values_tensor" : "keys_tensor");
    if (t != NULL) {
        *out = (nc_label_column){t->tensor->dtype, t->tensor->n, t->tensor->data};
        return true;
    }
    for (int k = 0; k < 3; k++) {
        const nc_attr *a = nc_node_attr(n, list_names[values][k]);
        if (a == NULL) continue;
        *out = (nc_label_column){list_types[k], a->n,
                                 k == 0   ? (const void *)a->strings
                                 : k == 1 ? (const void *)a->ints
                                          : a->floats};
        return true;
    }
    return false;
}

static nc_code label_encoder_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    nc_label_column values;
    nc_dtype t;
    if (x == NULL) return NC_OK;
    if (c->node->version->since == 1) {
        t = x->elem == NC_STRING ? NC_INT64 : NC_STRING;
    } else {
        if (!nc_label_list(c->node, true, &values)) NC_FAIL(c->w, NC_E_BAD_GRAPH, "has no values");
        t = values.type;
    }
    return x->rank < 0 ? nc_out_unknown(c, 0, t, -1) : nc_out(c, 0, t, x->rank, x->dims);
}

#define LABELS (T_STRING | T_I64 | NC_BIT(NC_FLOAT))
#define LABELS_4 (LABELS | NC_BIT(NC_DOUBLE) | NC_BIT(NC_INT32) | NC_BIT(NC_INT16))
#define LISTS                                                                                                         \
    A_STRINGS_OPT("keys_strings"), {.name = "keys_int64s", .kind = NC_A_INTS}, A_FLOATS_OPT("keys_floats"),           \
        A_STRINGS_OPT("values_strings"), {.name = "values_int64s", .kind = NC_A_INTS}, A_FLOATS_OPT("values_floats"), \
        A_STR("default_string", "_Unused"), A_INT("default_int64", -1), A_FLOAT("default_float", -0.0f)
static const nc_op_version versions[] = {
    {.since = 4,
     IN({"X", LABELS_4}),
     OUT({"Y", LABELS_4}),
     ATTR(LISTS, A_TENSOR_OPT("keys_tensor"), A_TENSOR_OPT("values_tensor"), A_TENSOR_OPT("default_tensor"))},
    {.since = 2, IN({"X", LABELS}), OUT({"Y", LABELS}), ATTR(LISTS)},
    {.since = 1,
     IN({"X", T_STRING | T_I64}),
     OUT({"Y", T_STRING | T_I64}),
     ATTR(A_STRINGS_OPT("classes_strings"), A_STR("default_string", "_Unused"), A_INT("default_int64", -1))},
    {0}};

const nc_card nc_card_label_encoder = {.name = "LabelEncoder",
                                       .domain = "ai.onnx.ml",
                                       .doc = "Every element looked up in a table of keys and values.",
                                       .versions = versions,
                                       .traits = NC_HOST_OBJECTS,
                                       .infer = label_encoder_infer,
                                       .zero_grad = true};
