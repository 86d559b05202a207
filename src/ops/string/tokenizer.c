/* ops/string/tokenizer.c: the card of Tokenizer (com.microsoft); how texts are cut is in tokenizer_cpu.c. */
#include "ops/contrib.h"

static nc_code tokenizer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank, n_separators = nc_attr_n_strings(c->node, "separators");
    const char *expression = nc_attr_str(c->node, "tokenexp");
    int64_t fewest = nc_attr_int(c->node, "mincharnum");
    if (n_separators == 0 && (expression == NULL || expression[0] == '\0'))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "needs separators or a tokenexp that is not empty");
    if (fewest < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "mincharnum is %lld, expected at least 1", (long long)fewest);
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_STRING, -1);
    if (rank != 1 && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, expected [C] or [N, C]", rank);
    const nc_dim *dims[3] = {x->dims[0], x->dims[rank - 1], NULL};
    NC_NEED(c->w, dims[rank] = nc_fresh(c, "tokens"));
    return nc_out(c, 0, NC_STRING, rank + 1, dims);
}

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"X", T_STRING}),
                                          OUT({"Y", T_STRING}),
                                          ATTR(A_INT_REQ("mark"), A_STR_REQ("pad_value"), A_STR_OPT("tokenexp"),
                                               A_STRINGS_OPT("separators"), A_INT_REQ("mincharnum"))},
                                         {0}};

const nc_card nc_card_tokenizer = {.name = "Tokenizer",
                                   .domain = NC_MICROSOFT,
                                   .doc = "Strings cut into tokens: at separators, by an expression, or by characters.",
                                   .versions = versions,
                                   .traits = NC_HOST_OBJECTS,
                                   .infer = tokenizer_infer,
                                   .zero_grad = true};
