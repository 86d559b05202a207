/* ops/window_parts.c: what windows do, transposed, in ONNX's own ops: for models with gradients that others run. */
#include "ops/build.h"
#include "ops/window.h"

bool nc_window_known_pads(const nc_window *a, const nc_value *x, const int64_t *k, int64_t *begin, int64_t *end) {
    bool by_size = a->auto_pad == NC_PAD_SAME_UPPER || a->auto_pad == NC_PAD_SAME_LOWER;
    for (int i = 0; i < a->n_spatial; i++) {
        int64_t in = 1;
        if (by_size && (!x->type || x->type->rank < 0 || !nc_dim_is_const(x->type->dims[i + 2], &in))) return false;
        nc_window_pads(a, i, in, k[i], &begin[i], &end[i]);
    }
    return true;
}

/* Without pads the transposed convolution reaches from the first tap of the first window to the last of the last one.
 * X lies behind `begin` of that, and may reach further than the last tap: so zeros are added, as many as X is long. */
nc_value *nc_window_spread(nc_builder *b, const nc_window *a, nc_value *dy, nc_value *w, nc_value *x,
                           const int64_t *begin) {
    int n = a->n_spatial;
    int64_t axes[NC_MAX_RANK], starts[NC_MAX_RANK], first = 2, last = n + 2, none = 0;
    nc_attr attrs[3] = {{.name = "strides", .kind = NC_A_INTS, .n = n, .ints = a->strides},
                        {.name = "dilations", .kind = NC_A_INTS, .n = n, .ints = a->dilations},
                        {.name = "group", .kind = NC_A_INT, .i = a->group}};
    nc_value *in[2] = {dy, w}, *wide = nc_build_attr1(b, "", "ConvTranspose", in, 2, attrs, 3);
    for (int i = 0; i < n; i++) axes[i] = i + 2, starts[i] = begin[i];
    nc_value *sizes =
        nc_build1(b, "Slice", 3, nc_build_shape(b, x), nc_build_ints(b, &first, 1), nc_build_ints(b, &last, 1));
    nc_value *from = nc_build_ints(b, starts, n), *over = nc_build_ints(b, axes, n);
    int64_t zeros[NC_MAX_RANK + 2] = {0};
    nc_value *pads[2] = {nc_build_ints(b, zeros, n + 4), sizes};
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = none};
    nc_value *more = nc_build1(b, "Pad", 2, wide, nc_build_attr1(b, "", "Concat", pads, 2, &axis, 1));
    return nc_build1(b, "Slice", 4, more, from, nc_build1(b, "Add", 2, sizes, from), over);
}
