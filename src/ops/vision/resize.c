/* ops/vision/resize.c: cards of Resize, of its gradient nacre.ResizeGrad, and of Upsample, its first name. Lengths come
 * from scales (floats) or sizes; scales keep a symbolic dim where they or their inverse are whole. */
#include "ops/vision/vision.h"

#include "ops/blocked.h"

#include <math.h>
#include <string.h>

typedef enum resize_kind { RESIZE, UPSAMPLE, GRADIENT } resize_kind; /* the own of the cards here */

nc_resize_inputs nc_resize_inputs_of(const nc_node *n) {
    switch (*(const resize_kind *)n->card->own) {
    case UPSAMPLE: return (nc_resize_inputs){-1, n->version->since >= 9 ? 1 : -1, -1};
    case GRADIENT: return (nc_resize_inputs){2, 3, 4};
    case RESIZE: break;
    }
    return n->version->since == 10 ? (nc_resize_inputs){-1, 1, -1} : (nc_resize_inputs){1, 2, 3};
}

bool nc_resize_is_old(const nc_node *n) { return nc_resize_inputs_of(n).sizes < 0; }

bool nc_resize_is_whole(const nc_node *n) {
    const char *maker = n->graph->model->producer_name;
    return maker && strcmp(maker, "pytorch") == 0;
}

const char *nc_resize_note(const nc_node *n) {
    nc_resize_inputs at = nc_resize_inputs_of(n);
    if (at.sizes < 0 || (at.sizes < n->n_in && n->in[at.sizes])) return NULL;
    if (strcmp(nc_attr_str(n, "coordinate_transformation_mode"), "align_corners") != 0) return NULL;
    return nc_resize_is_whole(n) ? "corners are those of the rounded length, as the file's producer, pytorch, means it"
                                 : "corners are those of the length before it is rounded, as ONNX's text says";
}

nc_code nc_resize_keep(nc_work *w, const nc_node *n, int *keep) {
    *keep = 0;
    if (!nc_attr_has(n, "keep_aspect_ratio_policy")) return NC_OK;
    const char *s = nc_attr_str(n, "keep_aspect_ratio_policy");
    if (strcmp(s, "stretch") == 0) return NC_OK;
    *keep = strcmp(s, "not_larger") == 0 ? -1 : strcmp(s, "not_smaller") == 0 ? 1 : 0;
    if (*keep == 0)
        NC_FAIL(w, NC_E_BAD_GRAPH, "keep_aspect_ratio_policy is '%s', expected stretch, not_larger or not_smaller", s);
    return NC_OK;
}

void nc_resize_fit(int keep, int n, const int64_t *size, const int64_t *want, double *scale, int64_t *out) {
    double one = 0;
    for (int k = 0; k < n; k++) {
        scale[k] = size[k] > 0 ? (double)want[k] / (double)size[k] : 1;
        out[k] = want[k];
        if (k == 0 || (keep < 0 ? scale[k] < one : scale[k] > one)) one = scale[k];
    }
    for (int k = 0; keep != 0 && k < n; k++) {
        scale[k] = one;
        out[k] = (int64_t)(one * (double)size[k] + 0.5);
    }
}

/* d scaled: a constant, or an expression; else a fresh symbol. */
static const nc_dim *scaled(nc_infer *c, const nc_dim *d, double s) {
    int64_t size;
    if (s == 1) return d;
    if (nc_dim_is_const(d, &size)) return nc_dim_const(c->dims, (int64_t)floor((double)size * s));
    if (s > 0 && s < 4096 && s == floor(s)) return nc_dim_mul(c->dims, d, nc_dim_const(c->dims, (int64_t)s));
    if (s > 0 && s < 1 && 1 / s == floor(1 / s))
        return nc_dim_floordiv(c->dims, d, nc_dim_const(c->dims, (int64_t)(1 / s)));
    return nc_fresh(c, "d");
}

/* Known scales, from the input or the attributes of old versions; *n 0: absent, -1: not known yet. */
static void read_scales(nc_infer *c, int i, float *v, int *n) {
    const nc_attr *a = nc_node_attr(c->node, "scales");
    *n = 0;
    if (a != NULL) {
        *n = a->n < NC_MAX_RANK ? a->n : NC_MAX_RANK;
        memcpy(v, a->floats, (size_t)*n * sizeof *v);
    } else if (nc_attr_has(c->node, "height_scale")) {
        v[0] = v[1] = 1;
        v[2] = (float)nc_attr_float(c->node, "height_scale");
        v[3] = (float)nc_attr_float(c->node, "width_scale");
        *n = 4;
    } else if (i >= 0 && i < c->node->n_in && c->in[i].present) {
        const nc_literal *l = c->in[i].lit;
        int64_t count = -1;
        const nc_dim *d = nc_in_dim(c, i, 0);
        if (d != NULL && nc_dim_is_const(d, &count) && count == 0) return;
        *n =
            l != NULL && l->dtype == NC_FLOAT && l->n <= NC_MAX_RANK && (l->data != NULL || l->n == 0) ? (int)l->n : -1;
        if (*n > 0) memcpy(v, l->data, (size_t)*n * sizeof *v);
    }
}

static nc_code read_axes(nc_infer *c, int rank, int *axes, int *n) {
    int count;
    const int64_t *v = nc_attr_ints(c->node, "axes", &count);
    *n = v != NULL ? count : rank;
    if (*n > rank) NC_FAIL(c->w, NC_E_SHAPE, "axes has %d elements, the input %d dims", *n, rank);
    for (int k = 0; k < *n; k++) NC_TRY(nc_axis(c, v != NULL ? v[k] : k, rank, &axes[k]));
    return NC_OK;
}

static nc_code by_sizes(nc_infer *c, int i, const nc_type *x, const int *axes, int n_axes, const nc_dim **dims) {
    int n, keep;
    int64_t size[NC_MAX_RANK], want[NC_MAX_RANK], got[NC_MAX_RANK];
    double scale[NC_MAX_RANK];
    NC_TRY(nc_resize_keep(c->w, c->node, &keep));
    const nc_dim *const *elems = nc_in_elems(c, i, &n);
    bool fixed = true;
    if (elems != NULL && n != n_axes) NC_FAIL(c->w, NC_E_SHAPE, "sizes has %d elements, expected %d", n, n_axes);
    for (int k = 0; k < n_axes; k++) {
        fixed = fixed && elems != NULL && elems[k] != NULL && nc_dim_is_const(elems[k], &want[k]) &&
                nc_dim_is_const(x->dims[axes[k]], &size[k]);
        dims[axes[k]] = keep == 0 && elems != NULL && elems[k] != NULL ? elems[k] : nc_fresh(c, "d");
    }
    if (!fixed || keep == 0) return NC_OK;
    nc_resize_fit(keep, n_axes, size, want, scale, got);
    for (int k = 0; k < n_axes; k++) dims[axes[k]] = nc_dim_const(c->dims, got[k]);
    return NC_OK;
}

static nc_code resize_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    nc_resize_inputs in = nc_resize_inputs_of(c->node);
    float scales[NC_MAX_RANK];
    int axes[NC_MAX_RANK], n_axes, n;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    NC_TRY(read_axes(c, x->rank, axes, &n_axes));
    read_scales(c, in.scales, scales, &n);
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    bool by_size = in.sizes > 0 && in.sizes < c->node->n_in && c->in[in.sizes].present;
    if (by_size && n <= 0) {
        NC_TRY(by_sizes(c, in.sizes, x, axes, n_axes, dims));
    } else {
        if (n >= 0 && n != n_axes) NC_FAIL(c->w, NC_E_SHAPE, "scales has %d elements, expected %d", n, n_axes);
        for (int k = 0; k < n_axes; k++)
            dims[axes[k]] = n >= 0 ? scaled(c, x->dims[axes[k]], (double)scales[k]) : nc_fresh(c, "d");
    }
    return nc_out(c, 0, x->elem, x->rank, dims);
}

/* ---- gradient ---- */

static const char *const names[] = {"antialias",
                                    "axes",
                                    "cubic_coeff_a",
                                    "exclude_outside",
                                    "keep_aspect_ratio_policy",
                                    "mode",
                                    "nearest_mode",
                                    "coordinate_transformation_mode",
                                    "extrapolation_value"};
enum { N_NAMES = sizeof names / sizeof names[0] };

static nc_attr text_attr(const char *name, const char *value) {
    return (nc_attr){.name = name, .kind = NC_A_STRING, .s = {(char *)(uintptr_t)value, strlen(value)}};
}

/* The attributes as version 19 writes them. */
static int copy_attrs(const nc_node *n, nc_attr *attrs) {
    int count = 0;
    for (int k = 0; k < N_NAMES; k++) {
        const nc_attr *a = nc_node_attr(n, names[k]);
        if (a != NULL) attrs[count++] = *a;
    }
    if (!nc_resize_is_old(n)) return count;
    count = 0;
    const char *mode = nc_attr_str(n, "mode");
    attrs[count++] = text_attr("mode", strcmp(mode, "bilinear") == 0 ? "linear" : mode);
    attrs[count++] = text_attr("nearest_mode", "floor");
    attrs[count++] = text_attr("coordinate_transformation_mode", "asymmetric");
    return count;
}

static nc_value *old_scales(nc_grad *g) {
    const nc_attr *a = nc_node_attr(g->node, "scales");
    float v[4] = {1, 1};
    if (a == NULL) {
        v[2] = (float)nc_attr_float(g->node, "height_scale");
        v[3] = (float)nc_attr_float(g->node, "width_scale");
    }
    int64_t n = a != NULL ? a->n : 4;
    const nc_literal *l = nc_edit_literal(g->b->graph->model, NC_FLOAT, 1, &n, a != NULL ? a->floats : v);
    nc_attr value = {.name = "value", .kind = NC_A_TENSOR, .tensor = l};
    return l != NULL ? nc_build_attr1(g->b, "", "Constant", NULL, 0, &value, 1) : NULL;
}

static nc_value *argument(nc_grad *g, int i) {
    return i >= 0 && i < g->node->n_in && g->node->in[i] != NULL ? nc_grad_x(g, i) : NULL;
}

static nc_code resize_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_attr attrs[N_NAMES + 3];
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_resize_inputs at = nc_resize_inputs_of(g->node);
    bool by_attr = nc_resize_is_old(g->node) && at.scales < 0;
    nc_value *in[5] = {dy, nc_build_shape(g->b, nc_grad_like(g, 0)), argument(g, at.roi),
                       by_attr ? old_scales(g) : argument(g, at.scales), argument(g, at.sizes)};
    int n = copy_attrs(g->node, attrs);
    nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "ResizeGrad", in, in[4] != NULL ? 5 : 4, attrs, n));
    return nc_grad_end(g);
}

/* ---- channels in blocks ---- */

/* Whole constants, one per dim. */
static bool has_all(const nc_node *n, int i, nc_dtype type, int rank) {
    const nc_value *v = i >= 0 && i < n->n_in ? n->in[i] : NULL;
    return v != NULL && v->lit != NULL && v->lit->dtype == type && v->lit->n == rank && v->lit->data != NULL;
}

static bool is_given(const nc_node *n, int i) {
    const nc_value *v = i >= 0 && i < n->n_in ? n->in[i] : NULL;
    return v != NULL && (v->lit == NULL || v->lit->n > 0);
}

/* Sizes or scales of all axes, which leave images and channels as they are. */
static bool resize_blocks(const nc_node *n, nc_blocking *k) {
    nc_resize_inputs at = nc_resize_inputs_of(n);
    float scales[NC_MAX_RANK];
    if (!nc_blocks_input(n, 0, k)) return false;
    int rank = n->in[0]->type->rank;
    bool plain =
        nc_resize_is_old(n) || strcmp(nc_attr_str(n, "coordinate_transformation_mode"), "tf_crop_and_resize") != 0;
    k->why = "a region, axes or an aspect ratio are given";
    if (!plain || nc_attr_has(n, "axes") || nc_attr_has(n, "keep_aspect_ratio_policy")) return false;
    k->why = "sizes or scales are not constants, or resize channels";
    if (n->in[0]->type->dims[1] != n->out[0]->type->dims[1]) return false;
    if (is_given(n, at.sizes)) return has_all(n, at.sizes, NC_INT64, rank) && !is_given(n, at.scales);
    if (!has_all(n, at.scales, NC_FLOAT, rank)) return false;
    memcpy(scales, n->in[at.scales]->lit->data, (size_t)rank * sizeof *scales);
    return scales[0] == 1 && scales[1] == 1;
}

/* The builder makes the newest Resize, whatever the node's own form and name. */
static nc_value *resize_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    nc_resize_inputs at = nc_resize_inputs_of(n);
    nc_value *args[4] = {in[0]}; /* roi, scales, sizes */
    nc_attr attrs[N_NAMES + 3];
    int64_t sizes[NC_MAX_RANK], count, rank = n->in[0]->type->rank, more = rank + 1;
    float scales[NC_MAX_RANK];
    if (is_given(n, at.sizes)) {
        if (!nc_literal_ints(n->in[at.sizes]->lit, sizes, NC_MAX_RANK, &count)) return NULL;
        int64_t block = nc_block_of(k, sizes[1]);
        sizes[1] = (sizes[1] + block - 1) / block;
        sizes[rank] = block;
        args[3] = nc_build_ints(b, sizes, (int)more);
    } else {
        memcpy(scales, n->in[at.scales]->lit->data, (size_t)rank * sizeof *scales);
        scales[rank] = 1;
        const nc_literal *l = nc_edit_literal(b->graph->model, NC_FLOAT, 1, &more, scales);
        args[2] = l != NULL ? nc_edit_const(b->graph, NULL, l) : NULL;
        if (args[2] == NULL) b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    }
    if (b->code != NC_OK) return NULL;
    return nc_build_attr1(b, "", "Resize", args, args[3] ? 4 : 3, attrs, copy_attrs(n, attrs));
}

/* Of integers by linear or cubic: in floats, then rounded. What lies outside of a crop is cut, not rounded. */
static nc_code resize_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[0]->type;
    nc_value *in[4] = {NULL};
    nc_attr attrs[N_NAMES + 8];
    if (t == NULL || (nc_dtype_class(t->elem) != 'I' && nc_dtype_class(t->elem) != 'U') || n->n_in > 4 ||
        n->n_attrs > N_NAMES + 8)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces are for integers");
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i];
    for (int i = 0; i < n->n_attrs; i++) {
        attrs[i] = n->attrs[i];
        if (strcmp(attrs[i].name, "extrapolation_value") == 0) attrs[i].f = truncf(attrs[i].f);
    }
    in[0] = nc_build_cast(b, in[0], nc_dtype_bytes(t->elem) < 4 ? NC_FLOAT : NC_DOUBLE);
    const char *op = *(const resize_kind *)n->card->own == UPSAMPLE ? "Upsample" : "Resize";
    nc_value *y = nc_build_attr1(b, "", op, in, n->n_in, attrs, n->n_attrs);
    out[0] = nc_build_cast(b, nc_build1(b, "Round", 1, y), t->elem);
    return b->code;
}

#define PLACES                                                                                               \
    A_STR("mode", "nearest"), A_STR("nearest_mode", "round_prefer_floor"), A_FLOAT("cubic_coeff_a", -0.75f), \
        A_INT("exclude_outside", 0), A_FLOAT("extrapolation_value", 0),                                      \
        A_STR("coordinate_transformation_mode", "half_pixel")
#define NEWER PLACES, A_INT("antialias", 0), A_INTS_OPT("axes"), A_STR("keep_aspect_ratio_policy", "stretch")
#define ARGUMENTS \
    {"roi", T_FLOAT, OPTIONAL}, {"scales", NC_BIT(NC_FLOAT), OPTIONAL}, { "sizes", T_I64, OPTIONAL }
static const nc_op_version resize_versions[] = {
    {.since = 19, IN({"X", T_TENSOR_ALL}, ARGUMENTS), OUT({"Y", SAME(0)}), ATTR(NEWER)},
    {.since = 18, IN({"X", T_TENSOR_ALL}, ARGUMENTS), OUT({"Y", SAME(0)}), ATTR(NEWER)},
    {.since = 13, IN({"X", T_TENSOR_ALL}, ARGUMENTS), OUT({"Y", SAME(0)}), ATTR(PLACES)},
    {.since = 11,
     IN({"X", T_TENSOR}, {"roi", T_FLOAT}, {"scales", NC_BIT(NC_FLOAT)}, {"sizes", T_I64, OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(PLACES)},
    {.since = 10,
     IN({"X", T_TENSOR}, {"scales", NC_BIT(NC_FLOAT)}),
     OUT({"Y", SAME(0)}),
     ATTR(A_STR("mode", "nearest"))},
    {0}};

const nc_card nc_card_resize = {.name = "Resize",
                                .doc = "Its input at another size, by nearest, linear or cubic interpolation.",
                                .versions = resize_versions,
                                .own = &(const resize_kind){RESIZE},
                                .host_in = 0xe,
                                .no_grad_in = 0xe,
                                .infer = resize_infer,
                                .decompose = resize_decompose,
                                .grad = resize_grad,
                                .blocks = resize_blocks,
                                .blocked = resize_blocked};

#define UPSAMPLED OUT({"Y", SAME(0)})
static const nc_op_version upsample_versions[] = {
    {.since = 10,
     IN({"X", T_TENSOR}, {"scales", NC_BIT(NC_FLOAT)}),
     UPSAMPLED,
     ATTR(A_STR("mode", "nearest")),
     .removed = true},
    {.since = 9, IN({"X", T_TENSOR}, {"scales", NC_BIT(NC_FLOAT)}), UPSAMPLED, ATTR(A_STR("mode", "nearest"))},
    {.since = 7,
     IN({"X", T_TENSOR}),
     UPSAMPLED,
     ATTR(A_STR("mode", "nearest"), {.name = "scales", .kind = NC_A_FLOATS, .flags = NC_ATTR_REQUIRED})},
    {.since = 1,
     IN({"X", T_FLOAT | T_BOOL | NC_BIT(NC_INT32) | NC_BIT(NC_INT64)}),
     UPSAMPLED,
     ATTR(A_STR("mode", "nearest"), {.name = "height_scale", .kind = NC_A_FLOAT, .flags = NC_ATTR_REQUIRED},
          {.name = "width_scale", .kind = NC_A_FLOAT, .flags = NC_ATTR_REQUIRED})},
    {0}};

const nc_card nc_card_upsample = {.name = "Upsample",
                                  .doc = "Resize under its first name.",
                                  .versions = upsample_versions,
                                  .own = &(const resize_kind){UPSAMPLE},
                                  .host_in = 2,
                                  .no_grad_in = 2,
                                  .infer = resize_infer,
                                  .decompose = resize_decompose,
                                  .grad = resize_grad,
                                  .blocks = resize_blocks,
                                  .blocked = resize_blocked};

/* ---- nacre.ResizeGrad ---- */

static nc_code back_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 0);
    return dy != NULL ? nc_out_of_shape(c, dy->elem, 1, dy->rank) : NC_OK;
}

static nc_code back_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_attr attrs[N_NAMES + 3];
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[4] = {dy, argument(g, 2), argument(g, 3), argument(g, 4)};
    int n = 0;
    for (int k = 0; k < N_NAMES - 1; k++) { /* what lies outside of a crop adds nothing */
        const nc_attr *a = nc_node_attr(g->node, names[k]);
        if (a != NULL) attrs[n++] = *a;
    }
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "Resize", in, in[3] != NULL ? 4 : 3, attrs, n));
    return nc_grad_end(g);
}

static const nc_op_version back_versions[] = {
    {.since = 1, IN({"dY", T_FLOAT_ALL}, {"shape", T_I64}, ARGUMENTS), OUT({"dX", SAME(0)}), ATTR(NEWER)}, {0}};

const nc_card nc_card_resize_grad = {.name = "ResizeGrad",
                                     .domain = "nacre",
                                     .doc = "Gradient of Resize: dY's elements shared out as they were weighed.",
                                     .versions = back_versions,
                                     .own = &(const resize_kind){GRADIENT},
                                     .host_in = 0x1e,
                                     .no_grad_in = 0x1e,
                                     .infer = back_infer,
                                     .grad = back_grad};
