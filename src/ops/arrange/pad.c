/* ops/arrange/pad.c: cards of Pad and of its gradient nacre.PadGrad. A constant border's gradient is a crop: Pad with
 * pads below 0. The other modes add what was repeated: PadGrad, whose gradient is Pad again. Versions 1 and 2 have
 * pads as an attribute. */
#include "ops/blocked.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

/* Which axes the pads are for: attribute-free before 18. *n is -1 when not known. */
static nc_code pad_axes(nc_infer *c, int i_axes, int rank, int64_t *axes, int *n) {
    if (i_axes >= c->node->n_in || !c->in[i_axes].present) {
        for (int k = 0; k < rank; k++) axes[k] = k;
        *n = rank;
        return NC_OK;
    }
    if (!nc_in_ints(c, i_axes, axes, NC_MAX_RANK, n)) {
        *n = -1;
        return NC_OK;
    }
    for (int k = 0; k < *n; k++) {
        int axis;
        NC_TRY(nc_axis(c, axes[k], rank, &axis));
        axes[k] = axis;
    }
    return NC_OK;
}

static nc_code pad_elems(nc_infer *c, const nc_dim **pads, int *n) {
    const char *name = nc_attr_has(c->node, "pads") ? "pads" : nc_attr_has(c->node, "paddings") ? "paddings" : NULL;
    *n = -1;
    if (name == NULL) {
        const nc_dim *const *elems = nc_in_elems(c, 1, n);
        if (elems == NULL || *n > 2 * NC_MAX_RANK) *n = -1;
        for (int k = 0; k < *n; k++)
            if ((pads[k] = elems[k]) == NULL) *n = -1;
        return NC_OK;
    }
    const int64_t *v = nc_attr_ints(c->node, name, n);
    if (*n > 2 * NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "%s has %d elements", name, *n);
    for (int k = 0; k < *n; k++) pads[k] = nc_dim_const(c->dims, v[k]);
    return NC_OK;
}

static nc_code pad_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *pads[2 * NC_MAX_RANK], *dims[NC_MAX_RANK];
    int64_t axes[NC_MAX_RANK];
    int n, n_axes;
    if (x == NULL) return NC_OK;
    if (x->rank < 0) return nc_out_unknown(c, 0, x->elem, -1);
    NC_TRY(pad_elems(c, pads, &n));
    NC_TRY(pad_axes(c, 3, x->rank, axes, &n_axes));
    if (n < 0 || n_axes < 0) return nc_out_unknown(c, 0, x->elem, x->rank);
    if (n != 2 * n_axes) NC_FAIL(c->w, NC_E_SHAPE, "pads has %d elements, expected 2 for each of %d axes", n, n_axes);
    for (int k = 0; k < x->rank; k++) dims[k] = x->dims[k];
    for (int k = 0; k < n_axes; k++)
        dims[axes[k]] = nc_dim_add(c->dims, nc_dim_add(c->dims, x->dims[axes[k]], pads[k]), pads[n_axes + k]);
    return nc_out(c, 0, x->elem, x->rank, dims);
}

static const char *mode_of(const nc_node *n) { return nc_attr_str(n, "mode"); }

/* pads and axes as inputs of a node made at a new opset. */
static nc_value *pads_value(nc_grad *g) {
    const nc_node *n = g->node;
    int count;
    const char *name = nc_attr_has(n, "pads") ? "pads" : nc_attr_has(n, "paddings") ? "paddings" : NULL;
    if (name == NULL) return nc_grad_x(g, 1);
    const int64_t *v = nc_attr_ints(n, name, &count);
    return nc_build_ints(g->b, v, count);
}

static nc_value *axes_value(nc_grad *g, int i) {
    return g->node->n_in > i && g->node->in[i] != NULL ? nc_grad_x(g, i) : NULL;
}

static nc_value *sum_all(nc_builder *b, nc_value *x) {
    nc_attr flat = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(b, "", "ReduceSum", &x, 1, &flat, 1);
}

static nc_code pad_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    nc_attr mode = {
        .name = "mode", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)mode_of(g->node), strlen(mode_of(g->node))}};
    bool constant = strcmp(mode_of(g->node), "constant") == 0;
    bool wants_value = g->node->n_in > 2 && g->node->in[2] != NULL && g->wants[2];
    nc_value *axes = axes_value(g, 3), *pads = pads_value(g);
    if (!constant) {
        nc_value *in[4] = {dy, nc_build_shape(g->b, nc_grad_like(g, 0)), pads, axes};
        if (g->wants[0])
            nc_grad_set(g, 0, nc_build_attr1(g->b, "nacre", "PadGrad", in, axes != NULL ? 4 : 3, &mode, 1));
        return nc_grad_end(g);
    }
    nc_value *in[4] = {dy, nc_build1(g->b, "Neg", 1, pads), NULL, axes};
    nc_value *dx = nc_build_attr1(g->b, "", "Pad", in, axes != NULL ? 4 : 2, NULL, 0);
    if (g->wants[0]) nc_grad_set(g, 0, dx);
    if (wants_value) nc_grad_set(g, 2, nc_build1(g->b, "Sub", 2, sum_all(g->b, dy), sum_all(g->b, dx)));
    return nc_grad_end(g);
}

/* Pads that are all 0; pads of 2 and -2 keep the size too. */
static bool pad_is_identity(const nc_node *n) {
    const char *name = nc_attr_has(n, "pads") ? "pads" : nc_attr_has(n, "paddings") ? "paddings" : NULL;
    int64_t given[2 * NC_MAX_RANK], count = 0;
    const int64_t *pads = given;
    if (name != NULL) {
        int n_pads;
        pads = nc_attr_ints(n, name, &n_pads);
        count = n_pads;
    } else if (n->n_in < 2 || n->in[1] == NULL || n->in[1]->lit == NULL ||
               !nc_literal_ints(n->in[1]->lit, given, 2 * NC_MAX_RANK, &count)) {
        return false;
    }
    for (int64_t k = 0; k < count; k++)
        if (pads[k] != 0) return false;
    return true;
}

/* ---- channels in blocks ---- */

/* All pads, where they are constants and no axes are named; how many, 0 where not. */
static int known_pads(const nc_node *n, int64_t pads[2 * NC_MAX_RANK]) {
    int64_t count = 0;
    if (n->version->since < 11 || (n->n_in > 3 && n->in[3] != NULL)) return 0;
    if (n->n_in < 2 || n->in[1] == NULL || n->in[1]->lit == NULL) return 0;
    return nc_literal_ints(n->in[1]->lit, pads, 2 * NC_MAX_RANK, &count) ? (int)count : 0;
}

static bool pad_blocks(const nc_node *n, nc_blocking *k) {
    int64_t pads[2 * NC_MAX_RANK];
    if (!nc_blocks_input(n, 0, k)) return false;
    int rank = n->in[0]->type->rank;
    k->why = "pads are not constants of all axes, or pad channels";
    return known_pads(n, pads) == 2 * rank && pads[1] == 0 && pads[rank + 1] == 0;
}

static nc_value *pad_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    int64_t pads[2 * NC_MAX_RANK], longer[2 * NC_MAX_RANK] = {0};
    int rank = known_pads(n, pads) / 2;
    nc_value *args[4] = {in[0], NULL, n->n_in > 2 ? in[2] : NULL};
    (void)k;
    for (int i = 0; i < 2 * rank; i++) longer[i / rank * (rank + 1) + i % rank] = pads[i];
    args[1] = nc_build_ints(b, longer, 2 * (rank + 1));
    return nc_build_card1(b, n->card, args, n->n_in > 2 ? 3 : 2, n->attrs, n->n_attrs);
}

#define PADS \
    {"pads", T_I64}, { "constant_value", SAME(0), SINGLE_OPTIONAL }
#define MODE ATTR(A_STR("mode", "constant"))
#define NEW IN({"data", T_TENSOR_ALL}, PADS, {"axes", T_INDEX, OPTIONAL}), OUT({"output", SAME(0)}), MODE
static const nc_op_version pad_versions[] = {
    {.since = 25, NEW},
    {.since = 24, NEW},
    {.since = 23, NEW},
    {.since = 21, NEW},
    {.since = 19, NEW},
    {.since = 18, NEW},
    {.since = 13, IN({"data", T_TENSOR_ALL}, PADS), OUT({"output", SAME(0)}), MODE},
    {.since = 11, IN({"data", T_NUMBER}, PADS), OUT({"output", SAME(0)}), MODE},
    {.since = 2,
     IN({"data", T_FLOAT}),
     OUT({"output", SAME(0)}),
     ATTR(A_STR("mode", "constant"), A_INTS_REQ("pads"), A_FLOAT("value", 0))},
    {.since = 1,
     IN({"data", T_FLOAT}),
     OUT({"output", SAME(0)}),
     ATTR(A_STR("mode", "constant"), A_INTS_REQ("paddings"), A_FLOAT("value", 0))},
    {0}};

const nc_card nc_card_pad = {.name = "Pad",
                             .doc = "Its input with borders: a constant, reflected, the edge, or wrapped around.",
                             .versions = pad_versions,
                             .host_in = 1u << 1 | 1u << 3,
                             .no_grad_in = 1u << 1 | 1u << 3,
                             .infer = pad_infer,
                             .grad = pad_grad,
                             .blocks = pad_blocks,
                             .blocked = pad_blocked,
                             .is_identity = pad_is_identity};

/* ---- nacre.PadGrad ---- */

static nc_code pad_grad_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 0);
    return dy != NULL ? nc_out_of_shape(c, dy->elem, 1, dy->rank) : NC_OK;
}

static nc_code pad_grad_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0), *axes = axes_value(g, 3);
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_value *in[4] = {dy, nc_grad_x(g, 2), NULL, axes};
    nc_attr mode = {
        .name = "mode", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)mode_of(g->node), strlen(mode_of(g->node))}};
    nc_grad_set(g, 0, nc_build_attr1(g->b, "", "Pad", in, axes != NULL ? 4 : 2, &mode, 1));
    return nc_grad_end(g);
}

static nc_value *flat(nc_builder *b, nc_value *x) {
    return nc_build1(b, "Reshape", 2, x, nc_build_ints(b, &(int64_t){-1}, 1));
}

/* In ONNX's ops, for models that others run: the numbers of X's places are padded as X was, and say where each element
 * of dY is added. */
static nc_code pad_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *dy = n->in[0], *shape = n->in[1], *axes = n->n_in > 3 ? n->in[3] : NULL;
    const char *mode = mode_of(n);
    const nc_attr how = {.name = "mode", .kind = NC_A_STRING, .s = {(char *)(uintptr_t)mode, strlen(mode)}};
    const nc_attr single = {.name = "keepdims", .kind = NC_A_INT, .i = 0};
    const nc_attr add[] = {{.name = "axis", .kind = NC_A_INT, .i = 0},
                           {.name = "reduction", .kind = NC_A_STRING, .s = {"add", 3}}};
    nc_value *count = nc_build_attr1(b, "", "ReduceProd", &shape, 1, &single, 1);
    nc_value *places = nc_build1(b, "Range", 3, nc_build_int(b, 0), count, nc_build_int(b, 1));
    nc_value *in[4] = {nc_build1(b, "Reshape", 2, places, shape), n->in[2], NULL, axes};
    nc_value *at = nc_build_attr1(b, "", "Pad", in, axes != NULL ? 4 : 2, &how, 1);
    nc_value *zero = nc_build_scalar(b, dy->type != NULL ? dy->type->elem : NC_FLOAT, 0);
    nc_value *into[3] = {nc_build1(b, "Expand", 2, zero, nc_build1(b, "Shape", 1, places)), flat(b, at), flat(b, dy)};
    nc_value *sums = nc_build_attr1(b, "", "ScatterElements", into, 3, add, 2);
    out[0] = nc_build1(b, "Reshape", 2, sums, shape);
    return b->code;
}

static const nc_op_version pad_grad_versions[] = {
    {.since = 1,
     IN({"dY", T_FLOAT_ALL}, {"shape", T_I64}, {"pads", T_I64}, {"axes", T_INDEX, OPTIONAL}),
     OUT({"dX", SAME(0)}),
     MODE},
    {0}};

const nc_card nc_card_pad_grad = {.name = "PadGrad",
                                  .domain = "nacre",
                                  .doc = "Every element of dY added to what Pad made it from.",
                                  .versions = pad_grad_versions,
                                  .host_in = 0xe,
                                  .no_grad_in = 0xe,
                                  .infer = pad_grad_infer,
                                  .grad = pad_grad_grad,
                                  .decompose = pad_grad_decompose};
