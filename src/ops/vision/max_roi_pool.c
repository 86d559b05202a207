/* ops/vision/max_roi_pool.c: cards of MaxRoiPool and of nacre.MaxRoiPlaces, where the largest pixel of each bin lies.
 * MaxRoiPool reads x at those places; its gradient goes there. */
#include "ops/contrib.h"

static nc_code roi_pool_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *rois = nc_in(c, 1);
    const nc_dim *dims[4];
    int n = 0;
    const int64_t *sizes = nc_attr_ints(c->node, "pooled_shape", &n);
    if (n != 2 || sizes[0] < 1 || sizes[1] < 1)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "pooled_shape: expected two numbers from 1 on");
    NC_TRY(nc_contrib_rank(c, 0, 4));
    NC_TRY(nc_contrib_rank(c, 1, 2));
    if (rois != NULL && rois->rank == 2) NC_TRY(nc_in_expect(c, 1, 1, nc_dim_const(c->dims, 5)));
    if (x == NULL) return NC_OK;
    dims[0] = rois != NULL && rois->rank == 2 ? rois->dims[0] : nc_fresh(c, "regions");
    dims[1] = x->rank == 4 ? x->dims[1] : nc_fresh(c, "channels");
    for (int i = 0; i < 2; i++) dims[2 + i] = nc_dim_const(c->dims, sizes[i]);
    bool places = c->node->card->own != NULL;
    return nc_out(c, 0, places ? NC_INT64 : x->elem, 4, dims);
}

static nc_code roi_pool_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *x = n->in[0], *in[2] = {nc_contrib_wide(b, x), nc_contrib_wide(b, n->in[1])}, *zero = nc_build_int(b, 0);
    if (x->type == NULL) NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known type");
    nc_value *at = nc_build_attr1(b, "nacre", "MaxRoiPlaces", in, 2, n->attrs, n->n_attrs);
    nc_value *flat = nc_build1(b, "Reshape", 2, x, nc_build_ints(b, (int64_t[]){-1}, 1));
    nc_value *inside = nc_build1(b, "Max", 2, at, zero);
    nc_value *y = nc_build_attr1(b, "", "Gather", (nc_value *[]){flat, inside}, 2, &axis, 1);
    out[0] = nc_build1(b, "Where", 3, nc_build1(b, "Less", 2, at, zero), nc_build_scalar(b, x->type->elem, 0), y);
    return b->code;
}

#define ROIS(types, y) \
    IN({"X", types}, {"rois", SAME(0)}), OUT(y), ATTR(A_INTS_REQ("pooled_shape"), A_FLOAT("spatial_scale", 1.0f))
#define SAME_Y \
    { "Y", SAME(0) }
#define PLACES \
    { "Y", T_I64 }
static const nc_op_version pool_versions[] = {
    {.since = 22, ROIS(T_FLOAT_ALL, SAME_Y)}, {.since = 1, ROIS(T_FLOAT, SAME_Y)}, {0}};
static const nc_op_version places_versions[] = {{.since = 1, ROIS(NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE), PLACES)}, {0}};

const nc_card nc_card_max_roi_pool = {.name = "MaxRoiPool",
                                      .doc = "The largest pixel of each bin of regions of X, 0 where a bin has none.",
                                      .versions = pool_versions,
                                      .no_grad_in = 2,
                                      .infer = roi_pool_infer,
                                      .decompose = roi_pool_decompose};
const nc_card nc_card_max_roi_places = {
    .name = "MaxRoiPlaces",
    .domain = "nacre",
    .doc = "Where in X the largest pixel of each bin of its regions lies; -1: nowhere.",
    .versions = places_versions,
    .own = "places",
    .zero_grad = true,
    .infer = roi_pool_infer};
