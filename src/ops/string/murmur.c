/* ops/string/murmur.c: the card of MurmurHash3 (com.microsoft); the hash is in murmur_cpu.c. */
#include "ops/contrib.h"

static nc_code murmur_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int64_t positive = nc_attr_int(c->node, "positive");
    nc_dtype t = positive == 1 ? NC_UINT32 : NC_INT32;
    if (positive != 0 && positive != 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "positive is %lld, expected 0 or 1", (long long)positive);
    if (x == NULL || x->rank < 0) return nc_out_unknown(c, 0, t, -1);
    return nc_out(c, 0, t, x->rank, x->dims);
}

#define T_HERE                                                                                        \
    (NC_BIT(NC_UINT32) | NC_BIT(NC_INT32) | NC_BIT(NC_UINT64) | NC_BIT(NC_INT64) | NC_BIT(NC_FLOAT) | \
     NC_BIT(NC_DOUBLE) | T_STRING)
static const nc_op_version versions[] = {{.since = 1,
                                          IN({"X", T_HERE}),
                                          OUT({"Y", NC_BIT(NC_UINT32) | NC_BIT(NC_INT32)}),
                                          ATTR(A_INT("positive", 1), A_INT("seed", 0))},
                                         {0}};

const nc_card nc_card_murmur_hash3 = {.name = "MurmurHash3",
                                      .domain = NC_MICROSOFT,
                                      .doc = "A 32-bit hash of each element's bytes.",
                                      .versions = versions,
                                      .traits = NC_HOST_OBJECTS,
                                      .infer = murmur_infer,
                                      .zero_grad = true};
