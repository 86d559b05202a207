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

static const nc_op_version versions[] = {{.since = 18,
                                          IN({"input", T_TENSOR_ALL}, {"image_shape", T_I64}, {"block_shape", T_I64}),
                                          OUT({"output", SAME(0)}),
                                          ATTR(A_INTS_OPT("dilations"), A_INTS_OPT("pads"), A_INTS_OPT("strides"))},
                                         {0}};

const nc_card nc_card_col2im = {.name = "Col2Im",
                                .doc = "Adds the columns that a sliding window saw up into the image they came from.",
                                .versions = versions,
                                .infer = col2im_infer,
                                .no_grad_in = 2 | 4,
                                .host_in = 2 | 4};
