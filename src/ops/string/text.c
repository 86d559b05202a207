/* ops/string/text.c: cards of StringSplit, StringNormalizer, RegexFullMatch and TfIdfVectorizer. Their kernels are in
 * string_cpu.c, text_cpu.c and tfidf_cpu.c, the last one in pieces in tfidf_parts.c. */
#include "ops/string/tfidf.h"

/* ---- StringSplit ---- */

static nc_code split_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL || x->rank < 0) {
        NC_TRY(nc_out_unknown(c, 0, NC_STRING, -1));
        return nc_out_unknown(c, 1, NC_INT64, -1);
    }
    if (x->rank >= NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "output 0 has %d dims, at most %d are supported", x->rank + 1, NC_MAX_RANK);
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    NC_NEED(c->w, dims[x->rank] = nc_fresh(c, "parts"));
    NC_TRY(nc_out(c, 0, NC_STRING, x->rank + 1, dims));
    return nc_out(c, 1, NC_INT64, x->rank, dims);
}

static const nc_op_version split_versions[] = {{.since = 20,
                                                IN({"X", T_STRING}),
                                                OUT({"Y", T_STRING}, {"Z", T_I64}),
                                                ATTR(A_STR_OPT("delimiter"), A_INT_OPT("maxsplit"))},
                                               {0}};
const nc_card nc_card_string_split = {.name = "StringSplit",
                                      .doc =
                                          "Strings cut at a delimiter or at white space, and how many parts each has.",
                                      .versions = split_versions,
                                      .traits = NC_HOST_OBJECTS,
                                      .infer = split_infer,
                                      .zero_grad = true};

/* ---- StringNormalizer ---- */

static nc_code normalizer_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_STRING, -1);
    if (rank != 1 && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, expected [C] or [1, C]", rank);
    const nc_dim *dims[2] = {x->dims[0], NULL};
    NC_NEED(c->w, dims[rank - 1] = nc_fresh(c, "kept"));
    return nc_out(c, 0, NC_STRING, rank, dims);
}

static const nc_op_version normalizer_versions[] = {
    {.since = 10,
     IN({"X", T_STRING}),
     OUT({"Y", T_STRING}),
     ATTR(A_STRINGS_OPT("stopwords"), A_STR_OPT("locale"), A_INT("is_case_sensitive", 0),
          A_STR("case_change_action", "NONE"))},
    {0}};
const nc_card nc_card_string_normalizer = {.name = "StringNormalizer",
                                           .doc = "Strings without the stop words, in another case if asked.",
                                           .versions = normalizer_versions,
                                           .traits = NC_HOST_OBJECTS,
                                           .infer = normalizer_infer,
                                           .zero_grad = true};

/* ---- RegexFullMatch ---- */

static nc_code match_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x == NULL || x->rank < 0) return nc_out_unknown(c, 0, NC_BOOL, -1);
    return nc_out(c, 0, NC_BOOL, x->rank, x->dims);
}

static const nc_op_version match_versions[] = {
    {.since = 20, IN({"X", T_STRING}), OUT({"Y", T_BOOL}), ATTR(A_STR_OPT("pattern"))}, {0}};
const nc_card nc_card_regex_full_match = {.name = "RegexFullMatch",
                                          .doc = "Which strings match a regular expression as a whole.",
                                          .versions = match_versions,
                                          .traits = NC_HOST_OBJECTS,
                                          .infer = match_infer,
                                          .zero_grad = true};

/* ---- TfIdfVectorizer ---- */

static nc_code tfidf_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank, n;
    const int64_t *index = nc_attr_ints(c->node, "ngram_indexes", &n);
    int64_t most = -1;
    for (int i = 0; index != NULL && i < n; i++) {
        if (index[i] < 0) NC_FAIL(c->w, NC_E_BAD_GRAPH, "ngram_indexes has %lld", (long long)index[i]);
        if (index[i] > most) most = index[i];
    }
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, NC_FLOAT, -1);
    if (rank != 1 && rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, expected [C] or [N, C]", rank);
    const nc_dim *dims[2] = {x->dims[0], NULL};
    NC_NEED(c->w, dims[rank - 1] = nc_dim_const(c->dims, most + 1));
    return nc_out(c, 0, NC_FLOAT, rank, dims);
}

#define A_INTS_POOL A_INTS_OPT("pool_int64s"), A_STRINGS_OPT("pool_strings"), A_FLOATS_OPT("weights")
static const nc_op_version tfidf_versions[] = {
    {.since = 9,
     IN({"X", T_STRING | T_INDEX}),
     OUT({"Y", NC_BIT(NC_FLOAT)}),
     ATTR(A_STR_REQ("mode"), A_INTS_REQ("ngram_indexes"), A_INTS_POOL, A_INTS_REQ("ngram_counts"),
          A_INT_REQ("max_skip_count"), A_INT_REQ("min_gram_length"), A_INT_REQ("max_gram_length"))},
    {0}};
const nc_card nc_card_tfidf_vectorizer = {.name = "TfIdfVectorizer",
                                          .doc = "How often n-grams of a pool occur in sequences, weighted if asked.",
                                          .versions = tfidf_versions,
                                          .infer = tfidf_infer,
                                          .zero_grad = true,
                                          .decompose = nc_tfidf_decompose};
