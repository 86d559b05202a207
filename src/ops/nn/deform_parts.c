/* ops/nn/deform_parts.c: DeformConv in simple ops: the taps' places from the window and the offsets, the image read
 * there (nacre.GridSampleAt), and a product with the weights. Sizes may be known only in the run. */
#include "ops/nn/deform_parts.h"

#include "ops/vision/sample_parts.h"
#include "ops/window.h"

typedef struct deformed {
    nc_builder *b;
    nc_window window;
    int64_t offset_group;
    nc_dtype type;
    nc_value *kernel[2], *out[2], *taps, *places; /* numbers of int64 */
} deformed;

static nc_value *op2(const deformed *d, const char *op, nc_value *x, nc_value *y) {
    return nc_build1(d->b, op, 2, x, y);
}

/* A shape of n numbers, each a constant or, where that is 0, the next of `given`. */
static nc_value *shape(const deformed *d, const int64_t *dims, int n, nc_value *const *given) {
    nc_value *parts[8];
    const int64_t first = 0;
    for (int i = 0; i < n; i++)
        parts[i] = dims[i] != 0 ? nc_build_ints(d->b, &dims[i], 1)
                                : op2(d, "Unsqueeze", *given++, nc_build_ints(d->b, &first, 1));
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build_attr1(d->b, "", "Concat", parts, n, &axis, 1);
}

/* first + step * (0, 1, ..., count - 1), of int64 */
static nc_value *steps(const deformed *d, nc_value *count, int64_t step, int64_t first) {
    nc_builder *b = d->b;
    nc_value *v = nc_build1(b, "Range", 3, nc_build_int(b, 0), count, nc_build_int(b, 1));
    return op2(d, "Add", op2(d, "Mul", v, nc_build_int(b, step)), nc_build_int(b, first));
}

/* Where the taps stand along spatial dim i, without offsets: (taps, places) */
static nc_value *grid(const deformed *d, int i) {
    nc_builder *b = d->b;
    const nc_window *w = &d->window;
    const int64_t all[4] = {0, 0, 0, 0}, down[4] = {-1, 1, 1, 1}, across[4] = {1, -1, 1, 1},
                  down_out[4] = {1, 1, -1, 1}, across_out[4] = {1, 1, 1, -1};
    nc_value *taps = steps(d, d->kernel[i], w->dilations[i], 0);
    nc_value *places = steps(d, d->out[i], w->strides[i], -w->pads[i]);
    taps = nc_sample_reshaped(b, taps, i == 0 ? down : across, 4);
    places = nc_sample_reshaped(b, places, i == 0 ? down_out : across_out, 4);
    nc_value *sizes[4] = {d->kernel[0], d->kernel[1], d->out[0], d->out[1]}, *both[2] = {d->taps, d->places};
    nc_value *sum = op2(d, "Expand", op2(d, "Add", taps, places), shape(d, all, 4, sizes));
    return nc_build_cast(b, op2(d, "Reshape", sum, shape(d, all, 2, both)), d->type);
}

/* The taps' places, x before y: (N * offset_group, taps, places, 2) */
static nc_value *places_of(const deformed *d, nc_value *offset) {
    nc_builder *b = d->b;
    const int64_t apart[4] = {-1, 0, 2, 0};
    nc_value *both[2] = {d->taps, d->places}, *axis[2];
    nc_attr along = {.name = "axis", .kind = NC_A_INT, .i = 2}, last = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *moves = op2(d, "Reshape", offset, shape(d, apart, 4, both));
    for (int i = 0; i < 2; i++) {
        nc_value *in[2] = {moves, nc_build_int(b, 1 - i)};
        nc_value *at = op2(d, "Add", nc_build_attr1(b, "", "Gather", in, 2, &along, 1), grid(d, 1 - i));
        axis[i] = op2(d, "Unsqueeze", at, nc_build_ints(b, &last.i, 1));
    }
    return nc_build_attr1(b, "", "Concat", axis, 2, &last, 1);
}

/* The columns that a convolution would see: (N, group, C / group * taps, places) */
static nc_value *columns(const deformed *d, nc_value *x, nc_value *offset, nc_value *mask) {
    nc_builder *b = d->b;
    nc_value *size[2] = {nc_sample_size(b, x, 2), nc_sample_size(b, x, 3)}, *C = nc_sample_size(b, x, 1);
    nc_value *per = op2(d, "Div", C, nc_build_int(b, d->offset_group));
    const int64_t image[4] = {-1, 0, 0, 0}, weighed[4] = {-1, 1, 0, 0}, grouped[4] = {-1, d->window.group, 0, 0};
    nc_value *planes = op2(d, "Reshape", x, shape(d, image, 4, (nc_value *[]){per, size[0], size[1]}));
    nc_value *in[2] = {planes, places_of(d, offset)}, *both[2] = {d->taps, d->places};
    nc_value *seen = nc_build_attr1(b, "nacre", "GridSampleAt", in, 2, NULL, 0);
    if (mask != NULL) seen = op2(d, "Mul", seen, op2(d, "Reshape", mask, shape(d, weighed, 4, both)));
    nc_value *depth = op2(d, "Mul", op2(d, "Div", C, nc_build_int(b, d->window.group)), d->taps);
    return op2(d, "Reshape", seen, shape(d, grouped, 4, (nc_value *[]){depth, d->places}));
}

nc_code nc_deform_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    const nc_dtype elem = in[0]->type->elem;
    deformed d = {.b = b, .type = elem == NC_DOUBLE ? NC_DOUBLE : NC_FLOAT};
    nc_value *v[5];
    NC_TRY(nc_window_read(b->w, n, 2, &d.window));
    d.offset_group = nc_attr_int(n, "offset_group");
    for (int i = 0; i < 5; i++) v[i] = in[i] != NULL ? nc_build_cast(b, in[i], d.type) : NULL;
    for (int i = 0; i < 2; i++) {
        d.kernel[i] = nc_sample_size(b, v[1], 2 + i);
        d.out[i] = nc_sample_size(b, v[2], 2 + i);
    }
    d.taps = op2(&d, "Mul", d.kernel[0], d.kernel[1]);
    d.places = op2(&d, "Mul", d.out[0], d.out[1]);
    nc_value *M = nc_sample_size(b, v[1], 0), *per = op2(&d, "Div", M, nc_build_int(b, d.window.group));
    const int64_t weights[3] = {d.window.group, 0, -1}, image[4] = {-1, 0, 0, 0}, channel[3] = {-1, 1, 1};
    nc_value *w = op2(&d, "Reshape", v[1], shape(&d, weights, 3, &per));
    nc_value *y = op2(&d, "MatMul", w, columns(&d, v[0], v[2], v[4]));
    y = op2(&d, "Reshape", y, shape(&d, image, 4, (nc_value *[]){M, d.out[0], d.out[1]}));
    if (v[3] != NULL) y = op2(&d, "Add", y, nc_sample_reshaped(b, v[3], channel, 3));
    out[0] = nc_build_cast(b, y, elem);
    return b->code;
}
