/* ops/sequence/optional.c: cards of the optional ops: a value that may be absent. */
#include "ops/sequence/sequence.h"

static nc_code optional_infer(nc_infer *c) {
    const nc_attr *type = nc_node_attr(c->node, "type");
    const nc_type *of = nc_in(c, 0) != NULL ? nc_in(c, 0) : type != NULL && type->kind == NC_A_TYPE ? type->type : NULL;
    c->out[0].type = nc_type_holding(c->arena, NC_T_OPTIONAL, of);
    NC_NEED(c->w, c->out[0].type);
    return NC_OK;
}

static nc_code has_infer(nc_infer *c) { return nc_out(c, 0, NC_BOOL, 0, NULL); }

/* What is not an optional is there, and is itself the element. */
static nc_code get_infer(nc_infer *c) {
    const nc_type *t = nc_in(c, 0);
    if (t == NULL || t->kind != NC_T_OPTIONAL) return nc_out_like(c, 0, 0);
    return nc_sequence_item(c, t->of, &c->out[0].type);
}

#define T_TENSOR_28 (T_TENSOR_ALL | T_NARROW_28)
static const nc_op_version optional_versions[] = {
    {.since = 28, IN({"input", T_TENSOR_28 | T_SEQ, OPTIONAL}), OUT({"output", T_OPT}), ATTR(A_TYPE_OPT("type"))},
    {.since = 15, IN({"input", T_TENSOR | T_SEQ, OPTIONAL}), OUT({"output", T_OPT}), ATTR(A_TYPE_OPT("type"))},
    {0}};
const nc_card nc_card_optional = {.name = "Optional",
                                  .doc = "An optional that holds its input, or nothing.",
                                  .versions = optional_versions,
                                  .traits = NC_HOST_OBJECTS,
                                  .infer = optional_infer,
                                  .grad = nc_optional_grad};

static const nc_op_version has_versions[] = {
    {.since = 28, IN({"input", T_TENSOR_28 | T_SEQ | T_OPT, OPTIONAL}), OUT({"output", T_BOOL}), NO_ATTR},
    {.since = 18, IN({"input", T_TENSOR | T_SEQ | T_OPT, OPTIONAL}), OUT({"output", T_BOOL}), NO_ATTR},
    {.since = 15, IN({"input", T_OPT}), OUT({"output", T_BOOL}), NO_ATTR},
    {0}};
const nc_card nc_card_optional_has_element = {.name = "OptionalHasElement",
                                              .doc = "Whether there is an element.",
                                              .versions = has_versions,
                                              .traits = NC_HOST_OBJECTS,
                                              .infer = has_infer,
                                              .zero_grad = true};

static const nc_op_version get_versions[] = {
    {.since = 28, IN({"input", T_TENSOR_28 | T_SEQ | T_OPT}), OUT({"output", T_TENSOR_28 | T_SEQ}), NO_ATTR},
    {.since = 18, IN({"input", T_TENSOR | T_SEQ | T_OPT}), OUT({"output", T_TENSOR | T_SEQ}), NO_ATTR},
    {.since = 15, IN({"input", T_OPT}), OUT({"output", T_TENSOR | T_SEQ}), NO_ATTR},
    {0}};
const nc_card nc_card_optional_get_element = {.name = "OptionalGetElement",
                                              .doc = "The element; an error where there is none.",
                                              .versions = get_versions,
                                              .traits = NC_HOST_OBJECTS,
                                              .infer = get_infer,
                                              .grad = nc_optional_get_grad};
