/* ops/vision/contrib.c: the card of CropAndResize (com.microsoft). It runs as GridSample over copies of the images, and
 * a choice between what that reads and a number outside of them. */
#include <string.h>

#include "ops/contrib.h"

static nc_value *ints(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

/* x (N,C,H,W), regions (R,4) top, left, bottom, right of 0 to 1, sizes (2) */

static nc_code crop_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *rois = nc_in(c, 1);
    const char *mode = nc_attr_str(c->node, "mode");
    int64_t sizes[2];
    int count;
    if (strcmp(mode, "bilinear") != 0 && strcmp(mode, "nearest") != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "mode is '%.60s', expected bilinear or nearest", mode);
    NC_TRY(nc_contrib_rank(c, 0, 4));
    NC_TRY(nc_contrib_rank(c, 1, 2));
    NC_TRY(nc_contrib_rank(c, 2, 1));
    NC_TRY(nc_contrib_vector(c, 3, nc_dim_const(c->dims, 2)));
    if (x == NULL) return NC_OK;
    bool known = nc_in_ints(c, 3, sizes, 2, &count) && count == 2;
    if (known && (sizes[0] < 1 || sizes[1] < 1))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "crop_size is %lld x %lld, expected at least 1", (long long)sizes[0],
                (long long)sizes[1]);
    const nc_dim *dims[4] = {rois != NULL && rois->rank == 2 ? rois->dims[0] : nc_fresh(c, "regions"),
                             x->rank == 4 ? x->dims[1] : nc_fresh(c, "channels")};
    for (int i = 0; i < 2; i++) dims[2 + i] = known ? nc_dim_const(c->dims, sizes[i]) : nc_fresh(c, "size");
    return nc_out(c, 0, x->elem, 4, dims);
}

/* What a side's places are made of, in pixels: (R, size) from the region's ends and the image's length. */
static nc_value *side(nc_builder *b, const nc_node *n, int i, nc_dtype t, nc_value **last) {
    nc_value *one = nc_build_scalar(b, t, 1), *zero = nc_build_scalar(b, t, 0);
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *from = nc_build_attr1(b, "", "Gather", (nc_value *[]){n->in[1], ints(b, i)}, 2, &axis, 1);
    nc_value *to = nc_build_attr1(b, "", "Gather", (nc_value *[]){n->in[1], ints(b, 2 + i)}, 2, &axis, 1);
    nc_value *length = nc_build_cast(b, nc_contrib_size(b, n->in[0], 2 + i), t);
    nc_attr first = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *size64 = nc_build_cast(
        b, nc_build_attr1(b, "", "Gather", (nc_value *[]){n->in[3], nc_build_int(b, i)}, 2, &first, 1), NC_INT64);
    nc_value *steps = nc_build1(b, "Sub", 2, nc_build_cast(b, size64, t), one);
    *last = nc_build1(b, "Sub", 2, length, one);
    nc_value *k = nc_build_cast(b, nc_build1(b, "Range", 3, nc_build_int(b, 0), size64, nc_build_int(b, 1)), t);
    nc_value *span = nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, to, from), *last);
    nc_value *step = nc_build1(b, "Div", 2, span, nc_build1(b, "Max", 2, steps, one));
    nc_value *spread = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, from, *last), nc_build1(b, "Mul", 2, k, step));
    nc_value *sum = nc_build1(b, "Mul", 2, nc_build1(b, "Add", 2, from, to), nc_build_scalar(b, t, 0.5));
    nc_value *middle = nc_build1(b, "Add", 2, nc_build1(b, "Mul", 2, sum, *last), nc_build1(b, "Mul", 2, k, zero));
    return nc_build1(b, "Where", 3, nc_build1(b, "Greater", 2, steps, zero), spread, middle);
}

/* Places (R,size) of a side as GridSample counts them, and whether they are inside, both with a dim for the other.
 * nearest: places between two pixels belong to the further one. */
static nc_value *coordinates(nc_builder *b, nc_value *at, nc_value *last, bool nearest, int64_t axis,
                             nc_value **inside) {
    if (b->code != NC_OK) return NULL;
    nc_dtype t = at->type->elem;
    nc_value *zero = nc_build_scalar(b, t, 0), *one = nc_build_scalar(b, t, 1);
    nc_value *is_in =
        nc_build1(b, "And", 2, nc_build1(b, "GreaterOrEqual", 2, at, zero), nc_build1(b, "LessOrEqual", 2, at, last));
    *inside = nc_build1(b, "Unsqueeze", 2, is_in, ints(b, axis));
    if (nearest) at = nc_build1(b, "Floor", 1, nc_build1(b, "Add", 2, at, nc_build_scalar(b, t, 0.5)));
    nc_value *part = nc_build1(b, "Div", 2, at, nc_build1(b, "Max", 2, last, one));
    nc_value *y = nc_build1(b, "Sub", 2, nc_build1(b, "Mul", 2, part, nc_build_scalar(b, t, 2)), one);
    return nc_build1(b, "Unsqueeze", 2, y, ints(b, axis));
}

static nc_code crop_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_attr attrs[3] = {{.name = "align_corners", .kind = NC_A_INT, .i = 1},
                        {.name = "padding_mode", .kind = NC_A_STRING, .s = {"border", 6}},
                        {.name = "mode", .kind = NC_A_STRING, .s = {"nearest", 7}}};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0}, end = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *last[2], *inside[2] = {NULL, NULL};
    bool nearest = strcmp(nc_attr_str(n, "mode"), "nearest") == 0;
    if (n->in[0]->type == NULL || n->in[0]->type->rank != 4)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    nc_dtype t = n->in[0]->type->elem;
    nc_value *y = side(b, n, 0, t, &last[0]), *x = side(b, n, 1, t, &last[1]);
    y = coordinates(b, y, last[0], nearest, 2, &inside[0]);
    x = coordinates(b, x, last[1], nearest, 1, &inside[1]);
    nc_value *both = nc_build1(b, "And", 2, inside[0], inside[1]);
    nc_value *shape = nc_build_shape(b, both);
    nc_value *grid[2] = {nc_build1(b, "Unsqueeze", 2, nc_build1(b, "Expand", 2, x, shape), ints(b, -1)),
                         nc_build1(b, "Unsqueeze", 2, nc_build1(b, "Expand", 2, y, shape), ints(b, -1))};
    nc_value *images = nc_build_attr1(b, "", "Gather", (nc_value *[]){n->in[0], n->in[2]}, 2, &axis, 1);
    nc_value *in[2] = {images, nc_build_attr1(b, "", "Concat", grid, 2, &end, 1)};
    nc_value *read = nc_build_newest1(b, "GridSample", in, 2, attrs, nearest ? 3 : 2);
    nc_value *fill = nc_build_scalar(b, t, nc_attr_float(n, "extrapolation_value"));
    out[0] = nc_build1(b, "Where", 3, nc_build1(b, "Unsqueeze", 2, both, ints(b, 1)), read, fill);
    return b->code;
}

static const nc_op_version crop_versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT}, {"rois", SAME(0)}, {"batch_indices", T_I32}, {"crop_size", T_I32}),
     OUT({"Y", SAME(0)}),
     ATTR(A_STR("mode", "bilinear"), A_FLOAT("extrapolation_value", 0.0f))},
    {0}};

const nc_card nc_card_crop_and_resize = {.name = "CropAndResize",
                                         .domain = NC_MICROSOFT,
                                         .doc = "Regions of images, each resized to one size.",
                                         .versions = crop_versions,
                                         .host_in = 8,
                                         .no_grad_in = 4 | 8,
                                         .infer = crop_infer,
                                         .decompose = crop_decompose};
