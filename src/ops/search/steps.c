/* ops/search/steps.c: cards of what a search is made of: its state at the beginning, a step, and the choice at the end.
 * Only search_parts.c makes them. The kernels are in search_cpu.c, what changes scores in scores.c. */
#include "ops/search/search.h"

/* The one number of input i; absent: `none`. *known is false when only the run tells. */
static nc_code number(nc_infer *c, int i, int64_t none, int64_t *v, bool *known) {
    *v = none, *known = true;
    return nc_contrib_in(c->node, i) != NULL ? nc_in_number(c, i, v, known) : NC_OK;
}

/* ---- SearchBegin ---- */

enum { BEGIN_IDS, BEGIN_MAX, BEGIN_BEAMS, BEGIN_RETURNS };

static nc_code check_length(nc_infer *c, int64_t most) {
    const nc_dim *tokens = nc_in_dim(c, BEGIN_IDS, 1);
    int64_t have;
    if (most > INT32_MAX - 1 || most < 1) NC_FAIL(c->w, NC_E_DATA, "max_length is %lld", (long long)most);
    if (tokens != NULL && nc_dim_is_const(tokens, &have) && most <= have)
        NC_FAIL(c->w, NC_E_DATA, "max_length is %lld, expected more than the %lld tokens there are", (long long)most,
                (long long)have);
    return NC_OK;
}

static nc_code begin_infer(nc_infer *c) {
    int64_t most, beams, returns;
    bool known[3];
    NC_TRY(number(c, BEGIN_MAX, 0, &most, &known[0]));
    NC_TRY(number(c, BEGIN_BEAMS, 1, &beams, &known[1]));
    NC_TRY(number(c, BEGIN_RETURNS, 1, &returns, &known[2]));
    if (known[0]) NC_TRY(check_length(c, most));
    if (known[1] && (beams < 1 || beams > 128))
        NC_FAIL(c->w, NC_E_DATA, "num_beams is %lld, expected 1 to 128", (long long)beams);
    if (known[1] && known[2] && (returns < 1 || returns > beams))
        NC_FAIL(c->w, NC_E_DATA, "num_return_sequences is %lld, expected 1 to num_beams, %lld", (long long)returns,
                (long long)beams);
    const nc_dim *texts = nc_in_dim(c, BEGIN_IDS, 0);
    const nc_dim *k = known[1] ? nc_dim_const(c->dims, beams) : nc_fresh(c, "beams");
    const nc_dim *length = known[0] ? nc_dim_const(c->dims, most) : nc_fresh(c, "length");
    const nc_dim *one = nc_dim_const(c->dims, 1);
    if (!texts || !k || !length || !one) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    const nc_dim *rows = known[1] ? nc_dim_mul(c->dims, texts, k) : nc_fresh(c, "rows");
    const nc_dim *wide = known[0] ? nc_dim_add(c->dims, length, one) : nc_fresh(c, "wide");
    if (!rows || !wide) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    const nc_dim *sequences[2] = {rows, length}, *found[3] = {texts, k, wide};
    NC_TRY(nc_out(c, NC_SEARCH_SEQUENCES, NC_INT32, 2, sequences));
    NC_TRY(nc_out(c, NC_SEARCH_DONE, NC_BOOL, 1, &texts));
    NC_TRY(nc_out(c, NC_SEARCH_LENGTH, NC_INT64, 0, NULL));
    NC_TRY(nc_out(c, NC_SEARCH_SCORES, NC_FLOAT, 1, &rows));
    NC_TRY(nc_out(c, NC_SEARCH_FOUND, NC_INT32, 3, found));
    NC_TRY(nc_out(c, NC_SEARCH_FOUND_SCORES, NC_FLOAT, 2, found));
    return nc_out(c, NC_SEARCH_N_STATE, NC_INT64, 1, &rows);
}

#define OPT(name, types) \
    { name, types, OPTIONAL }
#define WHY "searches have no gradient"
static const nc_op_version begin_versions[] = {
    {.since = 1,
     IN({"ids", T_I32}, {"max_length", T_I32}, OPT("num_beams", T_I32), OPT("num_return_sequences", T_I32)),
     OUT({"sequences", T_I32}, {"done", T_BOOL}, {"length", T_I64}, {"scores", T_F32}, {"found", T_I32},
         {"found_scores", T_F32}, {"text_of", T_I64}),
     ATTR(A_INT_REQ("pad"))},
    {0}};
const nc_card nc_card_search_begin = {.name = "SearchBegin",
                                      .domain = "nacre",
                                      .doc = "The state of a search before its first step, and which text each row is.",
                                      .versions = begin_versions,
                                      .host_in = 0xe,
                                      .infer = begin_infer,
                                      .no_grad = WHY};

/* ---- steps ---- */

static nc_code step_rows(nc_infer *c, const nc_dim **rows, const nc_dim **vocabulary) {
    const nc_dim *one = nc_dim_const(c->dims, 1);
    *rows = nc_in_dim(c, NC_STEP_SEQUENCES, 0);
    *vocabulary = nc_in_dim(c, NC_STEP_LOGITS, 2);
    NC_TRY(nc_contrib_rank(c, NC_STEP_LOGITS, 3));
    NC_TRY(nc_in_expect(c, NC_STEP_LOGITS, 0, *rows));
    if (nc_contrib_in(c->node, NC_STEP_VOCAB)) NC_TRY(nc_contrib_vector(c, NC_STEP_VOCAB, *vocabulary));
    if (nc_contrib_in(c->node, NC_STEP_PREFIX)) {
        NC_TRY(nc_contrib_rank(c, NC_STEP_PREFIX, 2));
        NC_TRY(nc_in_expect(c, NC_STEP_PREFIX, 1, *vocabulary));
    }
    if (!one || !*rows || !*vocabulary) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    const nc_dim *next[2] = {*rows, one};
    NC_TRY(nc_out_like(c, NC_SEARCH_SEQUENCES, NC_STEP_SEQUENCES));
    NC_TRY(nc_out_like(c, NC_SEARCH_DONE, NC_STEP_DONE));
    NC_TRY(nc_out_like(c, NC_SEARCH_LENGTH, NC_STEP_LENGTH));
    NC_TRY(nc_out(c, NC_STEP_OUT_NEXT, NC_INT32, 2, next));
    return nc_out(c, NC_STEP_OUT_GO, NC_BOOL, 0, NULL);
}

static nc_code greedy_infer(nc_infer *c) {
    const nc_dim *dims[2];
    NC_TRY(step_rows(c, &dims[0], &dims[1]));
    if (nc_contrib_in(c->node, NC_GREEDY_PRESENCE)) {
        NC_TRY(nc_contrib_rank(c, NC_GREEDY_PRESENCE, 2));
        NC_TRY(nc_in_expect(c, NC_GREEDY_PRESENCE, 0, dims[0]));
        NC_TRY(nc_in_expect(c, NC_GREEDY_PRESENCE, 1, dims[1]));
    }
    return nc_contrib_wants(c->node, NC_GREEDY_OUT_LOGITS) ? nc_out(c, NC_GREEDY_OUT_LOGITS, NC_FLOAT, 2, dims) : NC_OK;
}

static nc_code beam_infer(nc_infer *c) {
    const nc_dim *dims[2];
    NC_TRY(step_rows(c, &dims[0], &dims[1]));
    if (nc_contrib_in(c->node, NC_BEAM_FORCED)) {
        NC_TRY(nc_contrib_rank(c, NC_BEAM_FORCED, 2));
        NC_TRY(nc_in_expect(c, NC_BEAM_FORCED, 0, nc_in_dim(c, NC_BEAM_FOUND, 0)));
    }
    NC_TRY(nc_out_like(c, NC_BEAM_OUT_SCORES, NC_BEAM_SCORES));
    NC_TRY(nc_out_like(c, NC_BEAM_OUT_FOUND, NC_BEAM_FOUND));
    NC_TRY(nc_out_like(c, NC_BEAM_OUT_FOUND_SCORES, NC_BEAM_FOUND_SCORES));
    NC_TRY(nc_out(c, NC_BEAM_OUT_FROM, NC_INT64, 1, dims));
    return nc_contrib_wants(c->node, NC_BEAM_OUT_ALL) ? nc_out(c, NC_BEAM_OUT_ALL, NC_FLOAT, 2, dims) : NC_OK;
}

#define STEP_IN                                                                                     \
    {"logits", T_F32}, {"sequences", T_I32}, {"done", T_BOOL}, {"length", T_I64}, {"start", T_I64}, \
        OPT("min_length", T_I32), OPT("repetition_penalty", T_F32), OPT("vocab_mask", T_I32),       \
        OPT("prefix_vocab_mask", T_I32)
#define STEP_OUT \
    {"sequences", T_I32}, {"done", T_BOOL}, {"length", T_I64}, {"next", T_I32}, { "go", T_BOOL }
#define STEP_ATTR A_INT_REQ("eos"), A_INT_REQ("pad"), A_INT_REQ("ngram")

static const nc_op_version greedy_versions[] = {
    {.since = 1,
     IN(STEP_IN, OPT("presence_mask", T_I32), OPT("seed", T_I32)),
     OUT(STEP_OUT, OPT("logits", T_F32)),
     ATTR(STEP_ATTR, A_INT("samples", 0), A_FLOAT("temperature", 1), A_FLOAT("top_p", 0), A_FLOAT("filter_value", 0),
          A_INT("min_tokens_to_keep", 0), A_FLOAT("presence_penalty", 0), A_INT("custom", 0))},
    {0}};
const nc_card nc_card_greedy_step = {.name = "GreedyStep",
                                     .domain = "nacre",
                                     .doc = "The likeliest token of each row, or one drawn, behind its sequence.",
                                     .versions = greedy_versions,
                                     .infer = greedy_infer,
                                     .no_grad = WHY};

static const nc_op_version beam_versions[] = {
    {.since = 1,
     IN(STEP_IN, OPT("length_penalty", T_F32), {"scores", T_F32}, {"found", T_I32}, {"found_scores", T_F32},
        OPT("temperature", T_F32), OPT("logits_processor", T_I32), OPT("extra_decoding_ids", T_I32)),
     OUT(STEP_OUT, {"scores", T_F32}, {"found", T_I32}, {"found_scores", T_F32}, {"from", T_I64},
         OPT("all_scores", T_F32)),
     ATTR(STEP_ATTR, A_INT_REQ("early_stopping"), A_INTS_OPT("times"))},
    {0}};
const nc_card nc_card_beam_step = {.name = "BeamStep",
                                   .domain = "nacre",
                                   .doc = "The likeliest ways on from all beams of a text, and those that ended.",
                                   .versions = beam_versions,
                                   .infer = beam_infer,
                                   .no_grad = WHY};

/* ---- BeamEnd: state, num_return_sequences, length_penalty ---- */

static nc_code end_infer(nc_infer *c) {
    int64_t returns;
    bool known;
    NC_TRY(number(c, NC_SEARCH_N_STATE, 1, &returns, &known));
    const nc_dim *dims[3] = {nc_in_dim(c, NC_SEARCH_FOUND, 0),
                             known ? nc_dim_const(c->dims, returns) : nc_fresh(c, "returns"),
                             nc_in_dim(c, NC_SEARCH_SEQUENCES, 1)};
    if (!dims[0] || !dims[1] || !dims[2]) NC_FAIL(c->w, NC_E_MEMORY, "out of memory");
    NC_TRY(nc_out(c, 0, NC_INT32, 3, dims));
    return nc_out(c, 1, NC_FLOAT, 2, dims);
}

static const nc_op_version end_versions[] = {
    {.since = 1,
     IN({"sequences", T_I32}, {"done", T_BOOL}, {"length", T_I64}, {"scores", T_F32}, {"found", T_I32},
        {"found_scores", T_F32}, {"num_return_sequences", T_I32}, OPT("length_penalty", T_F32)),
     OUT({"sequences", T_I32}, {"sequences_scores", T_F32}),
     ATTR(A_INT_REQ("pad"))},
    {0}};
const nc_card nc_card_beam_end = {.name = "BeamEnd",
                                  .domain = "nacre",
                                  .doc = "The best sequences of a beam search, best first, and their scores.",
                                  .versions = end_versions,
                                  .host_in = 1u << NC_SEARCH_N_STATE,
                                  .infer = end_infer,
                                  .no_grad = WHY};
