/* ops/nn/deform.c: the card of DeformConv. Its kernel is in deform_cpu.c. */
#include "ops/card.h"
#include "ops/window.h"

static nc_code deform_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *w = nc_in(c, 1), *offset = nc_in(c, 2);
    const nc_dim *dims[4];
    nc_window a;
    if (x == NULL) return NC_OK;
    for (int i = 0; i < 3; i++) {
        int rank;
        if (nc_in_rank(c, i, &rank) && rank != 4)
            NC_FAIL(c->w, NC_E_SHAPE, "input %d has %d dims, expected 4: two spatial dims are supported", i, rank);
    }
    NC_TRY(nc_window_read(c->w, c->node, 2, &a));
    dims[0] = x->rank == 4 ? x->dims[0] : nc_fresh(c, "n");
    dims[1] = w != NULL && w->rank == 4 ? w->dims[0] : nc_fresh(c, "m");
    for (int k = 0; k < 2; k++) {
        if (x->rank == 4 && w != NULL && w->rank == 4)
            dims[k + 2] = nc_window_out(c->dims, &a, k, x->dims[k + 2], w->dims[k + 2]);
        else
            dims[k + 2] = offset != NULL && offset->rank == 4 ? offset->dims[k + 2] : nc_fresh(c, "d");
        NC_NEED(c->w, dims[k + 2]);
    }
    return nc_out(c, 0, x->elem, 4, dims);
}

#define DEFORM(types)                                                                                             \
    IN({"X", types}, {"W", SAME(0)}, {"offset", SAME(0)}, {"B", SAME(0), OPTIONAL}, {"mask", SAME(0), OPTIONAL}), \
        OUT({"Y", SAME(0)}),                                                                                      \
        ATTR(A_INTS_OPT("strides"), A_INTS_OPT("pads"), A_INT("offset_group", 1), A_INTS_OPT("kernel_shape"),     \
             A_INT("group", 1), A_INTS_OPT("dilations"))
static const nc_op_version versions[] = {{.since = 22, DEFORM(T_FLOAT_ALL)}, {.since = 19, DEFORM(T_FLOAT)}, {0}};

const nc_card nc_card_deform_conv = {.name = "DeformConv",
                                     .doc = "Convolution whose taps are moved by offsets and weighed by a mask.",
                                     .versions = versions,
                                     .infer = deform_infer};
