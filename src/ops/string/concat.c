/* ops/string/concat.c: the card of StringConcat. Strings are bytes here; UTF-8 stays valid when it was. */
#include "ops/card.h"

static nc_code concat_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    int rank;
    NC_TRY(nc_broadcast_in(c, 0, 2, dims, &rank));
    return rank < 0 ? nc_out_unknown(c, 0, NC_STRING, -1) : nc_out(c, 0, NC_STRING, rank, dims);
}

static const nc_op_version versions[] = {
    {.since = 20, IN({"X", T_STRING}, {"Y", SAME(0)}), OUT({"Z", SAME(0)}), NO_ATTR}, {0}};

const nc_card nc_card_string_concat = {.name = "StringConcat",
                                       .doc = "X's strings with Y's behind, broadcast.",
                                       .versions = versions,
                                       .traits = NC_HOST_OBJECTS,
                                       .infer = concat_infer,
                                       .zero_grad = true};
