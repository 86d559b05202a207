/* ops/nn/col2im.c: the card of Col2Im: columns (N, C * block, places) added up into images (N, C, image_shape). Its
 * kernel is in col2im_cpu.c. */
#include "ops/build.h"
#include "ops/card.h"
#include "ops/window.h"

static nc_code col2im_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    int64_t block[NC_MAX_RANK];
    int n, n_block;
    if (x == NULL) return NC_OK;
    if (x->rank >= 0 && x->rank != 3) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, 3 are expected", x->rank);
    const nc_dim *const *image = nc_in_elems(c, 1, &n);
    int64_t rank;
    if (image == NULL || x->rank < 0) {
        bool known = nc_dim_is_const(nc_in_dim(c, 1, 0), &rank);
        return nc_out_unknown(c, 0, x->elem, known && rank < NC_MAX_RANK - 2 ? (int)rank + 2 : -1);
    }
    if (n < 1 || n > NC_WINDOW_MAX_SPATIAL) NC_FAIL(c->w, NC_E_SHAPE, "image_shape has %d numbers", n);
    dims[0] = x->dims[0];
    dims[1] = nc_fresh(c, "channels");
    if (nc_in_ints(c, 2, block, NC_MAX_RANK, &n_block)) {
        if (n_block != n) NC_FAIL(c->w, NC_E_SHAPE, "block_shape has %d numbers, %d are expected", n_block, n);
        const nc_dim *taps = nc_dim_const(c->dims, 1);
        for (int i = 0; i < n; i++) {
            if (block[i] < 1) NC_FAIL(c->w, NC_E_SHAPE, "block_shape holds %lld", (long long)block[i]);
            taps = nc_dim_mul(c->dims, taps, nc_dim_const(c->dims, block[i]));
        }
        dims[1] = nc_dim_floordiv(c->dims, x->dims[1], taps);
    }
    for (int i = 0; i < n; i++) dims[i + 2] = image[i];
    return nc_out(c, 0, x->elem, n + 2, dims);
}

/* Each column is what a window saw of the image: a Conv of every channel for itself, whose weights are the rows of an
 * identity matrix, one per tap. */
static nc_value *taps(nc_grad *g, nc_value *block) {
    nc_builder *b = g->b;
    nc_attr along = {.name = "axis", .kind = NC_A_INT, .i = 0}, keep = {.name = "keepdims", .kind = NC_A_INT, .i = 1};
    const int64_t one = 1;
    nc_value *count = nc_build_attr1(b, "", "ReduceProd", &block, 1, &keep, 1);
    nc_value *square = nc_build_attr1(b, "", "Concat", (nc_value *[]){count, count}, 2, &along, 1);
    nc_value *ones = nc_build1(b, "Expand", 2, nc_build_scalar(b, nc_grad_dy(g, 0)->type->elem, 1), square);
    nc_value *shape[3] = {count, nc_build_ints(b, &one, 1), block};
    return nc_build1(b, "Reshape", 2, nc_build1(b, "EyeLike", 1, ones),
                     nc_build_attr1(b, "", "Concat", shape, 3, &along, 1));
}

static nc_code col2im_grad(nc_grad *g) {
    nc_value *dy = nc_grad_dy(g, 0);
    nc_builder *b = g->b;
    const int64_t two = 2, far = NC_MAX_RANK, apart[2] = {-1, 1}, zero = 0;
    if (dy == NULL || !g->wants[0]) return NC_OK;
    nc_attr along = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *image = nc_build1(b, "Slice", 4, nc_build_shape(b, dy), nc_build_ints(b, &two, 1),
                                nc_build_ints(b, &far, 1), nc_build_ints(b, &zero, 1));
    nc_value *shape[2] = {nc_build_ints(b, apart, 2), image};
    nc_value *in[2] = {nc_build1(b, "Reshape", 2, dy, nc_build_attr1(b, "", "Concat", shape, 2, &along, 1)),
                       taps(g, nc_grad_x(g, 2))};
    nc_value *seen = nc_build_attr1(b, "", "Conv", in, 2, g->node->attrs, g->node->n_attrs);
    nc_grad_set(g, 0, nc_build_reshape_like(b, seen, nc_grad_like(g, 0)));
    return nc_grad_end(g);
}

static const nc_op_version versions[] = {{.since = 18,
                                          IN({"input", T_TENSOR_ALL}, {"image_shape", T_I64}, {"block_shape", T_I64}),
                                          OUT({"output", SAME(0)}),
                                          ATTR(A_INTS_OPT("dilations"), A_INTS_OPT("pads"), A_INTS_OPT("strides"))},
                                         {0}};

const nc_card nc_card_col2im = {.name = "Col2Im",
                                .doc = "Adds the columns that a sliding window saw up into the image they came from.",
                                .versions = versions,
                                .infer = col2im_infer,
                                .grad = col2im_grad,
                                .no_grad_in = 2 | 4,
                                .host_in = 2 | 4};
