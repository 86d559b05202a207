/* ops/vision/grid_sample.c: cards of GridSample, of nacre.GridSampleAt, whose grid counts in pixels, and of
 * their gradient nacre.GridSampleGrad. */
#include "ops/vision/sample_parts.h"
#include "ops/vision/vision.h"

#include <string.h>

static nc_code grid_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *grid = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL) return NC_OK;
    if (x->rank < 0 && (grid == NULL || grid->rank < 0)) return nc_out_unknown(c, 0, x->elem, -1);
    int rank = x->rank >= 0 ? x->rank : grid->rank;
    if (rank < 3 || rank > 5) NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, expected 3 to 5", rank);
    if (grid != NULL && grid->rank >= 0 && grid->rank != rank)
        NC_FAIL(c->w, NC_E_SHAPE, "grid has %d dims, X has %d", grid->rank, rank);
    for (int k = 0; k < rank; k++) {
        const nc_type *from = k < 2 ? x : grid;
        bool known = from != NULL && from->rank >= 0;
        dims[k] = known ? from->dims[k < 2 ? k : k - 1] : nc_fresh(c, "d");
    }
    int64_t last;
    if (grid != NULL && grid->rank >= 0 && nc_dim_is_const(grid->dims[rank - 1], &last) && last != rank - 2)
        NC_FAIL(c->w, NC_E_SHAPE, "grid has %lld numbers per place, expected %d", (long long)last, rank - 2);
    return nc_out(c, 0, x->elem, rank, dims);
}

/* Cards that have the attribute say so. */
static const bool may_count_pixels = true;
static bool in_pixels(const nc_node *n) { return n->card->own != NULL && nc_attr_int(n, "pixels") != 0; }

static nc_code grid_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL || !(g->wants[0] || g->wants[1])) return NC_OK;
    nc_value *in[3] = {nc_grad_x(g, 0), nc_grad_x(g, 1), dy};
    const char *mode = nc_attr_str(g->node, "mode");
    nc_attr attrs[4] = {{.name = "mode", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)mode, strlen(mode)}},
                        {.name = "align_corners", .kind = NC_A_INT, .i = nc_attr_int(g->node, "align_corners")}};
    const char *padding = nc_attr_str(g->node, "padding_mode");
    attrs[2] =
        (nc_attr){.name = "padding_mode", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)padding, strlen(padding)}};
    attrs[3] = (nc_attr){.name = "pixels", .kind = NC_A_INT, .i = in_pixels(g->node)};
    nc_node *n = nc_build_wanted(g->b, "nacre", "GridSampleGrad", in, 3, g->wants, 2, attrs, 4);
    for (int i = 0; n != NULL && i < 2; i++)
        if (g->wants[i]) nc_grad_set(g, i, n->out[i]);
    return nc_grad_end(g);
}

nc_code nc_grid_sample_read(nc_work *w, const nc_node *n, nck_grid_sample *s) {
    const char *mode = nc_attr_str(n, "mode"), *padding = nc_attr_str(n, "padding_mode");
    *s = (nck_grid_sample){.align_corners = nc_attr_int(n, "align_corners") != 0, .in_pixels = in_pixels(n)};
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0)
        s->mode = NCK_SAMPLE_LINEAR;
    else if (strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0)
        s->mode = NCK_SAMPLE_CUBIC;
    else if (strcmp(mode, "nearest") == 0)
        s->mode = NCK_SAMPLE_NEAREST;
    else
        NC_FAIL(w, NC_E_UNSUPPORTED, "mode is '%s', expected linear, nearest or cubic", mode);
    if (strcmp(padding, "zeros") == 0)
        s->padding = NCK_SAMPLE_ZEROS;
    else if (strcmp(padding, "border") == 0)
        s->padding = NCK_SAMPLE_BORDER;
    else if (strcmp(padding, "reflection") == 0)
        s->padding = NCK_SAMPLE_REFLECTION;
    else
        NC_FAIL(w, NC_E_UNSUPPORTED, "padding_mode is '%s', expected zeros, border or reflection", padding);
    return NC_OK;
}

/* ---- nacre.GridSampleGrad ---- */

static nc_code back_infer(nc_infer *c) {
    NC_TRY(nc_out_like(c, 0, 0));
    return nc_out_like(c, 1, 1);
}

/* Coordinate k of the grid, in pixels, as (N, places). */
static nc_value *coordinate(nc_builder *b, const nck_grid_sample *s, nc_value *grid, int k, nc_value *size) {
    const int64_t flat[2] = {0, -1};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *in[2] = {grid, nc_build_int(b, k)}, *one = nc_build_scalar(b, grid->type->elem, 1);
    nc_value *g = nc_sample_reshaped(b, nc_build_attr1(b, "", "Gather", in, 2, &axis, 1), flat, 2);
    if (s->in_pixels) return g;
    nc_value *d = nc_build_cast(b, size, grid->type->elem), *half = nc_build_scalar(b, grid->type->elem, 0.5);
    g = nc_build1(b, "Add", 2, g, one);
    if (s->align_corners)
        return nc_build1(b, "Mul", 2, g, nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, d, one), half));
    return nc_build1(b, "Mul", 2, nc_build1(b, "Sub", 2, nc_build1(b, "Mul", 2, g, d), one), half);
}

static bool is_whole(nc_dtype t) { return nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U'; }

/* The halves compute in float, integers in double. */
static nc_code parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    nck_grid_sample s;
    nc_value *size[NCK_SAMPLE_MAX_DIMS], *at[NCK_SAMPLE_MAX_DIMS];
    const int64_t flat[3] = {0, 0, -1};
    NC_TRY(nc_grid_sample_read(b->w, n, &s));
    const nc_type *t = in[0]->type;
    if (t == NULL || t->rank < 3) NC_FAIL(b->w, NC_E_SHAPE, "the rank of X is not known");
    nc_dtype type = t->elem == NC_DOUBLE || is_whole(t->elem) ? NC_DOUBLE : NC_FLOAT;
    nc_value *x = nc_build_cast(b, in[0], type), *grid = nc_build_cast(b, in[1], type);
    NC_TRY(b->code);
    nc_sample_rule rule = {s.mode, s.padding, s.align_corners, t->rank - 2};
    for (int k = 0; k < rule.dims; k++) {
        size[k] = nc_sample_size(b, x, 2 + k);
        at[k] = coordinate(b, &s, grid, rule.dims - 1 - k, size[k]);
    }
    nc_value *rows = nc_build_swap_last(b, nc_sample_reshaped(b, x, flat, 3));
    nc_value *y = nc_build_swap_last(b, nc_sample_parts(b, &rule, rows, size, at));
    /* (N, C) and the places of the grid */
    const int64_t from[2] = {0, 1}, last = -1;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *front = nc_build1(b, "Gather", 2, nc_build_shape(b, x), nc_build_ints(b, from, 2)),
             *dims[2] = {front, NULL};
    dims[1] =
        nc_build1(b, "Slice", 3, nc_build_shape(b, grid), nc_build_ints(b, &from[1], 1), nc_build_ints(b, &last, 1));
    out[0] =
        nc_build_cast(b, nc_build1(b, "Reshape", 2, y, nc_build_attr1(b, "", "Concat", dims, 2, &axis, 1)), t->elem);
    return b->code;
}

static nc_code grid_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *x = n->in[0]->type;
    if (x == NULL || !(nc_dtype_is_float(x->elem) || is_whole(x->elem)))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for numbers");
    return parts(b, n, n->in, out);
}

static nc_code back_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_grad_op_by_parts(b, n, 2, 1, parts, out);
}

static nc_code back_grad(nc_grad *g) { return nc_grad_twice_by_parts(g, 2, 1, parts); }

#define MODE(mode) A_STR("mode", mode), A_STR("padding_mode", "zeros"), A_INT("align_corners", 0)
#define MODES(mode) ATTR(MODE(mode))
#define GRID(types, grids, mode) IN({"X", types}, {"grid", grids}), OUT({"Y", SAME(0)}), MODES(mode)
static const nc_op_version grid_versions[] = {{.since = 22, GRID(T_TENSOR_ALL, T_FLOAT_ALL, "linear")},
                                              {.since = 20, GRID(T_TENSOR, T_FLOAT, "linear")},
                                              {.since = 16, GRID(T_TENSOR, T_FLOAT, "bilinear")},
                                              {0}};
static const nc_op_version back_versions[] = {{.since = 1,
                                               IN({"X", T_FLOAT_ALL}, {"grid", T_FLOAT_ALL}, {"dY", SAME(0)}),
                                               OUT({"dX", SAME(0), OPTIONAL}, {"dgrid", SAME(1), OPTIONAL}),
                                               ATTR(MODE("linear"), A_INT("pixels", 0))},
                                              {0}};
static const nc_op_version at_versions[] = {{.since = 1,
                                             IN({"X", T_FLOAT_ALL}, {"grid", T_FLOAT_ALL}),
                                             OUT({"Y", SAME(0)}),
                                             ATTR(MODE("linear"), A_INT("pixels", 1))},
                                            {0}};

const nc_card nc_card_grid_sample = {.name = "GridSample",
                                     .doc = "X read at the places of a grid, between its pixels.",
                                     .versions = grid_versions,
                                     .infer = grid_infer,
                                     .decompose = grid_decompose,
                                     .grad = grid_grad};
const nc_card nc_card_grid_sample_at = {.name = "GridSampleAt",
                                        .domain = "nacre",
                                        .doc = "X read at places in pixels, between them.",
                                        .versions = at_versions,
                                        .own = &may_count_pixels,
                                        .infer = grid_infer,
                                        .decompose = grid_decompose,
                                        .grad = grid_grad};
const nc_card nc_card_grid_sample_grad = {.name = "GridSampleGrad",
                                          .domain = "nacre",
                                          .doc = "Gradients of GridSample by X and the grid.",
                                          .versions = back_versions,
                                          .own = &may_count_pixels,
                                          .infer = back_infer,
                                          .decompose = back_decompose,
                                          .grad = back_grad};
