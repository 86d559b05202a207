/* ops/signal/dft.c: cards of DFT and STFT. The last dim holds a real number or a complex one as two. DFT has a kernel,
 * and is made of products with the matrix of cosines and sines; its gradient is in dft_grad.c. STFT gathers frames,
 * weights them and is a DFT of each. */
#include "ops/build.h"
#include "ops/signal/dft_parts.h"
#include "ops/signal/signal.h"

bool nc_dft_axis(const nc_node *n, int64_t *axis) {
    *axis = n->version->since >= 20 ? -2 : nc_attr_int(n, "axis");
    if (n->version->since < 20 || n->n_in < 3 || n->in[2] == NULL) return true;
    int64_t count;
    return n->in[2]->lit != NULL && nc_literal_ints(n->in[2]->lit, axis, 1, &count) && count == 1;
}

static nc_code dft_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    int rank, n;
    int64_t axis;
    bool inverse = nc_attr_int(c->node, "inverse") != 0, onesided = nc_attr_int(c->node, "onesided") != 0;
    if (x == NULL) return NC_OK;
    if (!nc_in_rank(c, 0, &rank)) return nc_out_unknown(c, 0, x->elem, -1);
    if (rank < 2) NC_FAIL(c->w, NC_E_SHAPE, "the input has %d dims, at least 2 are needed", rank);
    bool known = nc_dft_axis(c->node, &axis) || (nc_in_ints(c, 2, &axis, 1, &n) && n == 1);
    if (!known) return nc_out_unknown(c, 0, x->elem, rank);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank - 1)
        NC_FAIL(c->w, NC_E_SHAPE, "the axis is %lld, expected one before the last of %d dims", (long long)axis, rank);
    const nc_dim *dims[NC_MAX_RANK], *one = nc_dim_const(c->dims, 1), *two = nc_dim_const(c->dims, 2);
    NC_NEED(c->w, one);
    NC_NEED(c->w, two);
    for (int i = 0; i < rank; i++) dims[i] = x->dims[i];
    const nc_dim *length = x->dims[axis];
    bool onesided_known = onesided && !inverse;
    if (inverse && onesided) length = nc_dim_mul(c->dims, two, nc_dim_sub(c->dims, length, one));
    if (c->node->n_in > 1 && c->in[1].present) {
        const nc_dim *const *given = nc_in_elems(c, 1, &n);
        bool told = given != NULL && n == 1;
        length = told ? given[0] : nc_fresh(c, "length"); /* of the result: a size binds a symbol, no expression */
        onesided_known &= told;
    }
    if (length != NULL && onesided_known) length = nc_dim_add(c->dims, nc_dim_floordiv(c->dims, length, two), one);
    NC_NEED(c->w, length);
    dims[axis] = length;
    dims[rank - 1] = inverse && onesided ? one : two;
    return nc_out(c, 0, x->elem, rank, dims);
}

/* ---- the matrix ---- */

static nc_value *part_of(nc_builder *b, nc_value *x, int64_t i, int64_t axis) {
    nc_attr at = {.name = "axis", .kind = NC_A_INT, .i = axis};
    nc_value *in[2] = {x, nc_build_int(b, i)};
    return nc_build_attr1(b, "", "Gather", in, 2, &at, 1);
}

/* cos and sin of 2 pi j k / length, rows j < rows, columns k < columns; j*k is reduced first, so that large products
 * keep their digits. */
static void waves(nc_builder *b, nc_dtype t, nc_value *length, nc_value *rows, nc_value *columns, nc_value **cosine,
                  nc_value **sine) {
    static const int64_t behind = 1;
    nc_value *j = nc_build1(b, "Unsqueeze", 2, nc_dft_range(b, rows), nc_build_ints(b, &behind, 1));
    nc_value *jk = nc_build1(b, "Mod", 2, nc_build1(b, "Mul", 2, j, nc_dft_range(b, columns)), length);
    nc_value *turn = nc_build_scalar(b, NC_DOUBLE, 6.283185307179586);
    nc_value *angle = nc_build1(b, "Div", 2, nc_build1(b, "Mul", 2, turn, nc_build_cast(b, jk, NC_DOUBLE)),
                                nc_build_cast(b, length, NC_DOUBLE));
    *cosine = nc_build_cast(b, nc_build1(b, "Cos", 1, angle), t);
    *sine = nc_build_cast(b, nc_build1(b, "Sin", 1, angle), t);
}

static nc_value *stacked(nc_builder *b, nc_value *re, nc_value *im) {
    static const int64_t last = -1;
    nc_attr at = {.name = "axis", .kind = NC_A_INT, .i = -1};
    nc_value *axes = nc_build_ints(b, &last, 1);
    nc_value *in[2] = {nc_build1(b, "Unsqueeze", 2, re, axes), nc_build1(b, "Unsqueeze", 2, im, axes)};
    return nc_build_attr1(b, "", "Concat", in, 2, &at, 1);
}

/* What the matrix is of: the signal with the axis last, rows of cosines and sines for its elements, one per result. */
typedef struct dft_pieces {
    nc_value *length, *re, *im, *cosine, *sine; /* im: NULL of a real signal */
    int64_t perm[NC_MAX_RANK];
    int rank;
} dft_pieces;

static void dft_take(nc_builder *b, const nc_node *n, nc_value *x, int64_t axis, bool is_complex, dft_pieces *d) {
    bool inverse = nc_attr_int(n, "inverse") != 0, onesided = nc_attr_int(n, "onesided") != 0;
    nc_dtype t = x->type->elem;
    d->rank = x->type->rank - 1;
    d->length = nc_dft_length(b, n, n->n_in > 1 ? n->in[1] : NULL, nc_dft_dim(b, x, axis));
    nc_value *half = onesided ? nc_dft_half(b, d->length) : d->length;
    x = nc_dft_cut(b, x, inverse ? half : d->length, axis);
    nc_value *used = nc_dft_dim(b, x, axis);
    waves(b, t, d->length, used, inverse ? d->length : half, &d->cosine, &d->sine);
    if (!inverse) d->sine = nc_build1(b, "Neg", 1, d->sine);
    if (inverse && onesided) {
        nc_value *times = nc_dft_times(b, t, d->length, used, 1);
        d->cosine = nc_build1(b, "Mul", 2, d->cosine, times), d->sine = nc_build1(b, "Mul", 2, d->sine, times);
    }
    for (int i = 0; i < d->rank; i++) d->perm[i] = i == axis ? d->rank - 1 : i == d->rank - 1 ? axis : i;
    d->re = nc_build_transpose(b, part_of(b, x, 0, d->rank), d->perm, d->rank);
    if (is_complex) d->im = nc_build_transpose(b, part_of(b, x, 1, d->rank), d->perm, d->rank);
}

/* n of x, along an axis of it that is known. */
static nc_value *transformed(nc_builder *b, const nc_node *n, nc_value *x, int64_t axis, bool is_complex) {
    static const int64_t last = -1;
    dft_pieces d = {0};
    if (b->code != NC_OK) return NULL;
    bool inverse = nc_attr_int(n, "inverse") != 0, real = inverse && nc_attr_int(n, "onesided") != 0;
    dft_take(b, n, x, axis, is_complex, &d);
    nc_value *up = nc_build1(b, "MatMul", 2, d.re, d.cosine), *y;
    if (d.im != NULL) up = nc_build1(b, "Sub", 2, up, nc_build1(b, "MatMul", 2, d.im, d.sine));
    up = nc_build_transpose(b, up, d.perm, d.rank);
    if (real) {
        y = nc_build1(b, "Unsqueeze", 2, up, nc_build_ints(b, &last, 1));
    } else {
        nc_value *side = nc_build1(b, "MatMul", 2, d.re, d.sine);
        if (d.im != NULL) side = nc_build1(b, "Add", 2, side, nc_build1(b, "MatMul", 2, d.im, d.cosine));
        y = stacked(b, up, nc_build_transpose(b, side, d.perm, d.rank));
    }
    return inverse ? nc_build1(b, "Div", 2, y, nc_build_cast(b, d.length, n->in[0]->type->elem)) : y;
}

/* An axis that is known only in the run. */
static nc_code along_input(nc_builder *b, const nc_node *n, int64_t parts, nc_value **out) {
    nc_value *before, *behind;
    nc_value *x = nc_dft_flat(b, n->in[0], n->in[2], parts, &before, &behind);
    nc_value *y = transformed(b, n, x, 1, parts == 2);
    if (b->code != NC_OK) return b->code;
    nc_value *shape = nc_build_shape(b, y);
    nc_value *whole[4] = {before, nc_build1(b, "Gather", 2, shape, nc_build_ints(b, (int64_t[]){1}, 1)), behind,
                          nc_build1(b, "Gather", 2, shape, nc_build_ints(b, (int64_t[]){3}, 1))};
    out[0] = nc_build1(b, "Reshape", 2, y, nc_dft_joined(b, whole, 4));
    return b->code;
}

static nc_code dft_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    const nc_type *t = n->in[0]->type;
    int64_t axis, parts;
    if (t == NULL || t->rank < 2 || !nc_dim_is_const(t->dims[t->rank - 1], &parts))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank and last dim");
    if (!nc_dft_axis(n, &axis)) return along_input(b, n, parts, out);
    out[0] = transformed(b, n, n->in[0], axis < 0 ? axis + t->rank : axis, parts == 2);
    return b->code;
}

#define X_AND_LENGTH \
    {"input", T_FLOAT_ALL}, { "dft_length", T_INDEX, OPTIONAL }
#define WAY A_INT("inverse", 0), A_INT("onesided", 0)
static const nc_op_version dft_versions[] = {
    {.since = 20, IN(X_AND_LENGTH, {"axis", T_I64, OPTIONAL}), OUT({"output", SAME(0)}), ATTR(WAY)},
    {.since = 17, IN(X_AND_LENGTH), OUT({"output", SAME(0)}), ATTR(WAY, A_INT("axis", 1))},
    {0}};

const nc_card nc_card_dft = {.name = "DFT",
                             .doc = "The discrete Fourier transform along an axis, or its inverse.",
                             .versions = dft_versions,
                             .infer = dft_infer,
                             .host_in = 3u << 1,
                             .no_grad_in = 3u << 1,
                             .grad = nc_dft_grad,
                             .decompose = dft_decompose};

/* ---- STFT ---- */

/* Frames are counted here only where all sizes are constants; a symbol stands for them otherwise. PyTorch's exporter
 * writes real signals without their last dim, of size 1, and onnxruntime takes them. */
static nc_code stft_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *window = nc_in(c, 2);
    int64_t step, length = 0, total;
    int n;
    if (x == NULL) return NC_OK;
    if (x->rank >= 0 && x->rank != 2 && x->rank != 3)
        NC_FAIL(c->w, NC_E_SHAPE, "the signal has %d dims, expected 3, or 2 without that of the parts", x->rank);
    if (x->rank == 2) c->assumes = NC_ASSUME_SIGNAL;
    bool has_length = c->node->n_in > 3 && c->in[3].present;
    if (!has_length && (window == NULL || window->rank != 1))
        NC_FAIL(c->w, NC_E_SHAPE, "a frame_length or a window of one dim is needed");
    const nc_dim *const *given = has_length ? nc_in_elems(c, 3, &n) : NULL;
    bool told = !has_length || (given != NULL && n == 1);
    const nc_dim *frame = !told ? nc_fresh(c, "length") : has_length ? given[0] : window->dims[0];
    const nc_dim *one = nc_dim_const(c->dims, 1), *two = nc_dim_const(c->dims, 2);
    NC_NEED(c->w, frame);
    NC_NEED(c->w, one);
    NC_NEED(c->w, two);
    const nc_dim *dims[4] = {x->rank >= 2 ? x->dims[0] : nc_fresh(c, "batch"), nc_fresh(c, "frames"), frame, two};
    bool known = nc_dim_is_const(frame, &length) && x->rank >= 2 && nc_dim_is_const(x->dims[1], &total);
    if (known && nc_in_ints(c, 1, &step, 1, &n) && n == 1) {
        if (step < 1 || length < 1) NC_FAIL(c->w, NC_E_DATA, "frame_step and frame_length must be positive");
        dims[1] = nc_dim_const(c->dims, total < length ? 0 : 1 + (total - length) / step);
    }
    if (told && nc_attr_int(c->node, "onesided") != 0)
        dims[2] = nc_dim_add(c->dims, nc_dim_floordiv(c->dims, frame, two), one);
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_value *scalar_int(nc_builder *b, nc_value *v) {
    return nc_build1(b, "Reshape", 2, nc_build_cast(b, v, NC_INT64), nc_build_ints(b, NULL, 0));
}

static nc_code stft_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const int64_t behind = 1;
    nc_value *x = n->in[0], *step = scalar_int(b, n->in[1]), *window = n->n_in > 2 ? n->in[2] : NULL;
    nc_value *length = n->n_in > 3 && n->in[3] != NULL ? scalar_int(b, n->in[3]) : nc_dft_dim(b, window, 0);
    if (x->type->rank == 2) x = nc_build1(b, "Unsqueeze", 2, x, nc_build_ints(b, (int64_t[]){2}, 1));
    nc_value *room = nc_build1(b, "Sub", 2, nc_dft_dim(b, x, 1), length);
    nc_value *frames = nc_build1(b, "Div", 2, nc_build1(b, "Add", 2, room, step), step);
    nc_value *axes = nc_build_ints(b, &behind, 1);
    nc_value *first = nc_build1(b, "Unsqueeze", 2, nc_build1(b, "Mul", 2, nc_dft_range(b, frames), step), axes);
    nc_value *at[2] = {x, nc_build1(b, "Add", 2, first, nc_dft_range(b, length))};
    nc_attr along = {.name = "axis", .kind = NC_A_INT, .i = 1};
    nc_value *y = nc_build_attr1(b, "", "Gather", at, 2, &along, 1); /* [batch, frame, place, part] */
    if (window != NULL) y = nc_build1(b, "Mul", 2, y, nc_build1(b, "Unsqueeze", 2, window, axes));
    bool by_input = nc_model_opset(b->graph->model, "") >= 20;
    nc_attr attrs[2] = {{.name = "onesided", .kind = NC_A_INT, .i = nc_attr_int(n, "onesided")},
                        {.name = "axis", .kind = NC_A_INT, .i = 2}};
    nc_value *in[3] = {y, NULL, by_input ? nc_build_int(b, 2) : NULL};
    out[0] = nc_build_attr1(b, "", "DFT", in, by_input ? 3 : 1, attrs, by_input ? 1 : 2);
    return b->code;
}

static const nc_op_version stft_versions[] = {{.since = 17,
                                               IN({"signal", T_FLOAT_ALL}, {"frame_step", T_INDEX},
                                                  {"window", 0, 0, OPTIONAL}, {"frame_length", SAME(1), OPTIONAL}),
                                               OUT({"output", SAME(0)}),
                                               ATTR(A_INT("onesided", 1))},
                                              {0}};

const nc_card nc_card_stft = {.name = "STFT",
                              .doc = "The Fourier transforms of frames of a signal.",
                              .versions = stft_versions,
                              .infer = stft_infer,
                              .host_in = 1u << 1 | 1u << 3,
                              .no_grad_in = 1u << 1 | 1u << 3,
                              .decompose = stft_decompose};
