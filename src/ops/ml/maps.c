/* ops/ml/maps.c: cards of ZipMap, DictVectorizer and CastMap, which make maps and take them. */
#include "ops/ml/ml.h"

#include <string.h>

/* ---- ZipMap ---- */

static nc_code zip_infer(nc_infer *c) {
    bool strings = nc_node_attr(c->node, "classlabels_strings") != NULL;
    nc_type *map = nc_arena_alloc(c->arena, sizeof *map);
    const nc_type *values = nc_type_tensor(c->arena, NC_FLOAT, -1, NULL);
    NC_NEED(c->w, map);
    NC_NEED(c->w, values);
    *map = (nc_type){.kind = NC_T_MAP, .elem = strings ? NC_STRING : NC_INT64, .of = values};
    c->out[0].type = nc_type_holding(c->arena, NC_T_SEQUENCE, map);
    NC_NEED(c->w, c->out[0].type);
    return NC_OK;
}

static const nc_op_version zip_versions[] = {
    {.since = 1,
     IN({"X", NC_BIT(NC_FLOAT)}),
     OUT({"Z", T_SEQ}),
     ATTR(A_STRINGS_OPT("classlabels_strings"), A_INTS_OPT("classlabels_int64s"))},
    {0}};

const nc_card nc_card_zip_map = {.name = "ZipMap",
                                 .domain = "ai.onnx.ml",
                                 .doc = "A map from labels to scores for every row.",
                                 .versions = zip_versions,
                                 .traits = NC_HOST_OBJECTS,
                                 .infer = zip_infer,
                                 .zero_grad = true};

/* ---- DictVectorizer ---- */

static nc_code dict_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_attr *ints = nc_node_attr(c->node, "int64_vocabulary");
    const nc_attr *strings = nc_node_attr(c->node, "string_vocabulary");
    if (x == NULL) return NC_OK;
    if ((ints == NULL) == (strings == NULL))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs int64_vocabulary or string_vocabulary");
    if (x->kind != NC_T_MAP || x->of == NULL) NC_FAIL(c->w, NC_E_TYPE, "X is no map");
    const nc_dim *dims[2] = {nc_dim_const(c->dims, 1), nc_dim_const(c->dims, ints != NULL ? ints->n : strings->n)};
    return nc_out(c, 0, x->of->elem, 2, dims);
}

static const nc_op_version dict_versions[] = {
    {.since = 1,
     IN({"X", NC_TYPES_MAP}),
     OUT({"Y", T_I64 | NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE) | T_STRING}),
     ATTR(A_STRINGS_OPT("string_vocabulary"), A_INTS_OPT("int64_vocabulary"))},
    {0}};

const nc_card nc_card_dict_vectorizer = {.name = "DictVectorizer",
                                         .domain = "ai.onnx.ml",
                                         .doc =
                                             "The values of a map in the order of a vocabulary, 0 where it has none.",
                                         .versions = dict_versions,
                                         .traits = NC_HOST_OBJECTS,
                                         .infer = dict_infer,
                                         .zero_grad = true};

/* ---- CastMap ---- */

static nc_code cast_infer(nc_infer *c) {
    static const struct {
        const char *word;
        nc_dtype type;
    } casts[] = {{"TO_FLOAT", NC_FLOAT}, {"TO_STRING", NC_STRING}, {"TO_INT64", NC_INT64}};
    const char *to = nc_attr_str(c->node, "cast_to"), *form = nc_attr_str(c->node, "map_form");
    bool sparse = strcmp(form, "SPARSE") == 0;
    int64_t places = nc_attr_int(c->node, "max_map");
    nc_dtype t = NC_UNDEFINED;
    const nc_type *x = nc_in(c, 0);
    for (int i = 0; i < 3; i++)
        if (strcmp(to, casts[i].word) == 0) t = casts[i].type;
    if (t == NC_UNDEFINED)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "cast_to is '%s', expected TO_FLOAT, TO_STRING or TO_INT64", to);
    if (!sparse && strcmp(form, "DENSE") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "map_form is '%s', expected DENSE or SPARSE", form);
    if (sparse && places < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "max_map is %lld, expected 1 or more", (long long)places);
    if (x != NULL && (x->kind != NC_T_MAP || x->elem != NC_INT64))
        NC_FAIL(c->w, NC_E_TYPE, "X is no map of int64 keys");
    const nc_dim *dims[2] = {nc_dim_const(c->dims, 1), sparse ? nc_dim_const(c->dims, places) : nc_fresh(c, "size")};
    return nc_out(c, 0, t, 2, dims);
}

static const nc_op_version cast_versions[] = {
    {.since = 1,
     IN({"X", NC_TYPES_MAP}),
     OUT({"Y", T_STRING | NC_BIT(NC_FLOAT) | T_I64}),
     ATTR(A_STR("cast_to", "TO_FLOAT"), A_STR("map_form", "DENSE"), A_INT("max_map", 1))},
    {0}};

const nc_card nc_card_cast_map = {.name = "CastMap",
                                  .domain = "ai.onnx.ml",
                                  .doc = "The values of a map in the order of its keys, or at the places they say.",
                                  .versions = cast_versions,
                                  .traits = NC_HOST_OBJECTS,
                                  .infer = cast_infer,
                                  .zero_grad = true};
