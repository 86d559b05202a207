/* ops/vision/roi_align.c: cards of RoiAlign, of its gradient nacre.RoiAlignGrad, and of nacre.RoiAlignAlong, how it
 * changes when X moves in a direction: each of the two is the other's gradient. How often a bin is sampled jumps with
 * its size and has no gradient. */
#include "ops/vision/vision.h"

#include <string.h>

static nc_code roi_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *rois = nc_in(c, 1);
    const nc_dim *dims[4];
    if (x == NULL) return NC_OK;
    if (x->rank >= 0 && x->rank != 4) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected 4", x->rank);
    if (rois != NULL && rois->rank >= 0 && rois->rank != 2)
        NC_FAIL(c->w, NC_E_SHAPE, "rois has %d dims, expected 2", rois->rank);
    dims[0] = rois != NULL && rois->rank == 2 ? rois->dims[0] : nc_fresh(c, "n");
    dims[1] = x->rank == 4 ? x->dims[1] : nc_fresh(c, "c");
    dims[2] = nc_dim_const(c->dims, nc_attr_int(c->node, "output_height"));
    dims[3] = nc_dim_const(c->dims, nc_attr_int(c->node, "output_width"));
    return nc_out(c, 0, x->elem, 4, dims);
}

/* The attributes as version 16 writes them. */
static int copy_attrs(const nc_node *n, nc_attr *attrs) {
    static const char *const names[] = {"mode",           "output_height", "output_width",
                                        "sampling_ratio", "spatial_scale", "coordinate_transformation_mode"};
    const char *places = nc_roi_align_is_half_pixel(n) ? "half_pixel" : "output_half_pixel";
    int count = 0;
    for (size_t k = 0; k < sizeof names / sizeof names[0] - 1; k++)
        if (nc_node_attr(n, names[k]) != NULL) attrs[count++] = *nc_node_attr(n, names[k]);
    attrs[count++] = (nc_attr){.name = names[sizeof names / sizeof names[0] - 1],
                               .kind = NC_A_STRING,
                               .s = {(char *)(uintptr_t)places, strlen(places)}};
    return count;
}

/* Version 10 has no such attribute. */
bool nc_roi_align_is_half_pixel(const nc_node *n) {
    const char *name = "coordinate_transformation_mode";
    for (const nc_attr_spec *a = n->version->attr; a->name != NULL; a++)
        if (strcmp(a->name, name) == 0) return strcmp(nc_attr_str(n, name), "half_pixel") == 0;
    return false;
}

static nc_node *back(nc_grad *g, nc_value *dy, const bool *wanted) {
    nc_attr attrs[6];
    nc_value *in[4] = {nc_grad_x(g, 0), nc_grad_x(g, 1), nc_grad_x(g, 2), dy};
    return nc_build_wanted(g->b, "nacre", "RoiAlignGrad", in, 4, wanted, 2, attrs, copy_attrs(g->node, attrs));
}

static nc_code roi_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !(g->wants[0] || g->wants[1])) return NC_OK;
    nc_node *n = back(g, dy, g->wants);
    for (int i = 0; n != NULL && i < 2; i++)
        if (g->wants[i]) nc_grad_set(g, i, n->out[i]);
    return nc_grad_end(g);
}

/* ---- nacre.RoiAlignGrad, nacre.RoiAlignAlong ---- */

static nc_code back_infer(nc_infer *c) {
    NC_TRY(nc_out_like(c, 0, 0));
    return nc_out_like(c, 1, 1);
}

static nc_code no_regions(nc_grad *g) {
    NC_FAIL(g->b->w, NC_E_UNSUPPORTED, "second derivatives of RoiAlign by rois are not supported, only by X");
}

static nc_code back_grad(nc_grad *g) {
    nc_value *u = nc_grad_dy(g, 0);
    nc_attr attrs[6];
    if (nc_grad_dy(g, 1) != NULL || (u != NULL && g->wants[1])) return no_regions(g);
    if (u == NULL || !g->wants[3]) return NC_OK;
    nc_value *in[4] = {nc_grad_x(g, 0), nc_grad_x(g, 1), nc_grad_x(g, 2), u};
    nc_grad_set(g, 3, nc_build_attr1(g->b, "nacre", "RoiAlignAlong", in, 4, attrs, copy_attrs(g->node, attrs)));
    return nc_grad_end(g);
}

static nc_code along_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    if (g->wants[1]) return no_regions(g);
    nc_node *n = g->wants[3] ? back(g, dy, (const bool[]){true, false}) : NULL;
    if (n != NULL) nc_grad_set(g, 3, n->out[0]);
    return nc_grad_end(g);
}

#define OPERANDS(types) \
    {"X", types}, {"rois", SAME(0)}, { "batch_indices", T_I64 }
#define ROI(types) IN(OPERANDS(types)), OUT({"Y", SAME(0)})
#define BINS                                                                                               \
    A_STR("mode", "avg"), A_INT("output_height", 1), A_INT("output_width", 1), A_INT("sampling_ratio", 0), \
        A_FLOAT("spatial_scale", 1)
#define HALF A_STR("coordinate_transformation_mode", "half_pixel")
static const nc_op_version roi_versions[] = {{.since = 22, ROI(T_FLOAT_ALL), ATTR(BINS, HALF)},
                                             {.since = 16, ROI(T_FLOAT), ATTR(BINS, HALF)},
                                             {.since = 10, ROI(T_FLOAT), ATTR(BINS)},
                                             {0}};
static const nc_op_version back_versions[] = {{.since = 1,
                                               IN(OPERANDS(T_FLOAT_ALL), {"dY", SAME(0)}),
                                               OUT({"dX", SAME(0), OPTIONAL}, {"drois", SAME(0), OPTIONAL}),
                                               ATTR(BINS, HALF)},
                                              {0}};
static const nc_op_version along_versions[] = {
    {.since = 1, IN(OPERANDS(T_FLOAT_ALL), {"U", SAME(0)}), OUT({"Y", SAME(0)}), ATTR(BINS, HALF)}, {0}};

const nc_card nc_card_roi_align = {.name = "RoiAlign",
                                   .doc = "Regions of X, each pooled to one size.",
                                   .versions = roi_versions,
                                   .no_grad_in = 1u << 2,
                                   .infer = roi_infer,
                                   .grad = roi_grad};
const nc_card nc_card_roi_align_grad = {.name = "RoiAlignGrad",
                                        .domain = "nacre",
                                        .doc = "Gradients of RoiAlign by X and the regions.",
                                        .versions = back_versions,
                                        .no_grad_in = 1u << 2,
                                        .infer = back_infer,
                                        .grad = back_grad};
const nc_card nc_card_roi_align_along = {.name = "RoiAlignAlong",
                                         .domain = "nacre",
                                         .doc = "How RoiAlign changes when X moves by U.",
                                         .versions = along_versions,
                                         .no_grad_in = 1u << 2,
                                         .infer = roi_infer,
                                         .grad = along_grad};
