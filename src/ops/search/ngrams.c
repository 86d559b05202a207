/* ops/search/ngrams.c: card of com.microsoft's NGramRepeatBlock: tokens that would repeat an n-gram of their row score
 * minus infinity, even NaN. Runs as comparisons of the row with its end, shifted, and a scatter of what they found. */
#include <math.h>

#include "ops/contrib.h"

static nc_code infer(nc_infer *c) {
    if (nc_attr_int(c->node, "ngram_size") < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "ngram_size is %lld, expected at least 1",
                (long long)nc_attr_int(c->node, "ngram_size"));
    NC_TRY(nc_contrib_rank(c, 0, 2));
    NC_TRY(nc_contrib_rank(c, 1, 2));
    NC_TRY(nc_in_expect(c, 0, 0, nc_in_dim(c, 1, 0)));
    return nc_out_like(c, 0, 1);
}

/* Column `first` of every n-gram of ids: as many as there are n-grams; with `end` of the one that is to come. */
static nc_value *columns(nc_builder *b, nc_value *ids, nc_value *grams, int64_t first, bool end) {
    int64_t axis = 1, one = 1;
    nc_value *from = nc_build_ints(b, &first, 1);
    if (end) from = nc_build1(b, "Add", 2, grams, from);
    nc_value *to = nc_build1(b, "Add", 2, from, end ? nc_build_ints(b, &one, 1) : grams);
    return nc_build1(b, "Slice", 4, ids, from, to, nc_build_ints(b, &axis, 1));
}

static nc_code decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t size = nc_attr_int(n, "ngram_size"), shorter = size - 1, zero = 0;
    if (size > 64) NC_FAIL(b->w, NC_E_LIMIT, "ngram_size is %lld, expected at most 64", (long long)size);
    nc_value *ids = n->in[0], *length = nc_contrib_size(b, ids, 1);
    nc_value *grams = nc_build1(b, "Max", 2, nc_build1(b, "Sub", 2, length, nc_build_ints(b, &shorter, 1)),
                                nc_build_ints(b, &zero, 1));
    nc_value *next = columns(b, ids, grams, size - 1, false), *again = NULL;
    for (int64_t k = 0; k + 1 < size; k++) {
        nc_value *same = nc_build1(b, "Equal", 2, columns(b, ids, grams, k, false), columns(b, ids, grams, k, true));
        again = again != NULL ? nc_build1(b, "And", 2, again, same) : same;
    }
    nc_value *none = nc_build_scalar(b, NC_FLOAT, 0), *yes = nc_build_scalar(b, NC_FLOAT, 1);
    nc_value *found = again != NULL ? nc_build1(b, "Where", 3, again, yes, none) : nc_build_expand_like(b, yes, next);
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = 1},
                        {.name = "reduction", .kind = NC_A_STRING, .s = {(char *)(uintptr_t) "max", 3}}};
    nc_value *in[3] = {nc_build_expand_like(b, none, n->in[1]), next, found};
    nc_value *hit = nc_build1(b, "Greater", 2, nc_build_newest1(b, "ScatterElements", in, 3, attrs, 2), none);
    out[0] = nc_build1(b, "Where", 3, hit, nc_build_scalar(b, NC_FLOAT, -INFINITY), n->in[1]);
    return b->code;
}

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"input_ids", T_I64}, {"scores", T_F32}),
                                          OUT({"scores_out", SAME(1)}),
                                          ATTR(A_INT_REQ("ngram_size"))},
                                         {0}};
const nc_card nc_card_ngram_repeat_block = {.name = "NGramRepeatBlock",
                                            .domain = NC_MICROSOFT,
                                            .doc = "Scores, minus infinity for tokens that would repeat an n-gram.",
                                            .versions = versions,
                                            .no_grad = "it chooses tokens",
                                            .infer = infer,
                                            .decompose = decompose};
