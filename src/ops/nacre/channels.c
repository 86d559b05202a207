/* ops/nacre/channels.c: nacre.PackChannels and nacre.UnpackChannels: between [N, C, spatial...], or with attribute
 * `last` [N, spatial..., C], and the channel-blocked layout [N, ceil(C/B), spatial..., B], with as many channels B in a
 * block as attribute `block` or the input's layout says. `channels` is how many there must be, where only the run can
 * tell: behind it a part of a block that is missing cannot be told from zeros. Lowering puts them where the layout
 * begins and ends (plan/lower_layout.c). */
#include "ops/card.h"

static nc_code pack_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    if (x->rank < 2 || x->rank >= NC_MAX_RANK)
        NC_FAIL(c->w, NC_E_SHAPE, "%d dims, 2 to %d are expected", x->rank, NC_MAX_RANK - 1);
    int64_t B = nc_attr_int(c->node, "block");
    if (B < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "blocks of %lld channels", (long long)B);
    bool last = nc_attr_int(c->node, "last") != 0;
    int64_t wanted = nc_attr_int(c->node, "channels");
    if (wanted > 0) NC_TRY(nc_in_expect(c, 0, last ? x->rank - 1 : 1, nc_dim_const(c->dims, wanted)));
    const nc_dim *block = nc_dim_const(c->dims, B), *C = x->dims[last ? x->rank - 1 : 1];
    dims[0] = x->dims[0];
    dims[1] = nc_dim_ceildiv(c->dims, C, block);
    for (int i = 2; i < x->rank; i++) dims[i] = x->dims[last ? i - 1 : i];
    dims[x->rank] = block;
    NC_TRY(nc_out(c, 0, x->elem, x->rank + 1, dims));
    return nc_out_layout(c, 0, (nc_layout){.axis = 1, .block = (int)B, .logical = C});
}

/* Types made while running carry no layout: the number of channels is then the graph's. */
static const nc_dim *channels(nc_infer *c, const nc_type *x) {
    int64_t n;
    const nc_type *planned = c->node->in[0]->type;
    if (x->layout.block != 0) return x->layout.logical;
    if (planned == NULL || planned->layout.block == 0 || !nc_dim_is_const(planned->layout.logical, &n)) return NULL;
    return nc_dim_const(c->dims, n);
}

static nc_code unpack_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    const nc_dim *C = channels(c, x);
    if (x->rank < 3 || C == NULL) NC_FAIL(c->w, NC_E_BAD_GRAPH, "the input is not in blocks of channels");
    bool last = nc_attr_int(c->node, "last") != 0;
    dims[0] = x->dims[0];
    dims[last ? x->rank - 2 : 1] = C;
    for (int i = 2; i < x->rank - 1; i++) dims[last ? i - 1 : i] = x->dims[i];
    return nc_out(c, 0, x->elem, x->rank - 1, dims);
}

#define KEPT NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16)
static const nc_op_version pack_versions[] = {{.since = 1,
                                               IN({"X", KEPT}),
                                               OUT({"Y", SAME(0)}),
                                               ATTR(A_INT_REQ("block"), A_INT("last", 0), A_INT("channels", 0))},
                                              {0}};
static const nc_op_version unpack_versions[] = {
    {.since = 1, IN({"X", KEPT}), OUT({"Y", SAME(0)}), ATTR(A_INT("last", 0))}, {0}};

const nc_card nc_card_pack_channels = {.name = "PackChannels",
                                       .domain = "nacre",
                                       .no_grad = NC_LOWERED_NO_GRAD,
                                       .doc = "X with its channels in blocks.",
                                       .versions = pack_versions,
                                       .traits = NC_BLOCKS,
                                       .infer = pack_infer};
const nc_card nc_card_unpack_channels = {.name = "UnpackChannels",
                                         .domain = "nacre",
                                         .no_grad = NC_LOWERED_NO_GRAD,
                                         .doc = "X with its blocked channels in one dim.",
                                         .versions = unpack_versions,
                                         .traits = NC_UNBLOCKS,
                                         .infer = unpack_infer};
