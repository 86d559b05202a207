/* ops/nn/nchwc.c: cards of com.microsoft.nchwc, the ops that ONNX Runtime's optimizer writes where it lays channels out
 * in blocks. Such a value has the dims (N,C,H,W), C a multiple of the block c, and the bytes of (N,C/c,H,W,c): a plain
 * op that works element by element may stand between them. A file does not say c: it is that of the processor on which
 * it was written, and, as in ONNX Runtime, taken to be that of this one. The weights of a Conv are (O/c,I/c,h,w,c,c),
 * inputs before outputs, or (O/c,I,h,w,c) where the data is plain (fewer channels than a block) and where each channel
 * has a window of its own. Everything runs as plain ops between two changes of layout. */
#include <string.h>

#include "base/cpu.h"
#include "ops/contrib.h"
#include "ops/nn/conv.h"
#include "ops/pool/pool.h"

#define NCHWC "com.microsoft.nchwc"

enum { X, W, BIAS, SUM };

static int64_t block_size(void) {
    const nc_cpu *cpu = nc_cpu_get();
    return cpu->avx2_fma && !cpu->avx512 ? 8 : 16;
}

/* ---- words ---- */

static nc_value *size(nc_builder *b, int64_t v) { return nc_build_ints(b, &v, 1); }

static nc_value *reshape(nc_builder *b, nc_value *x, nc_value *const *sizes, int n) {
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    return nc_build1(b, "Reshape", 2, x, nc_build_attr1(b, "", "Concat", sizes, n, &axis, 1));
}

/* x (N,C,H,W), C = n_channels, in blocks of c as it is without them, or with `back` the other way round. */
static nc_value *relaid_as(nc_builder *b, nc_value *x, const nc_dim *n_channels, int64_t c, bool back) {
    static const int64_t to_plain[] = {0, 1, 4, 2, 3}, to_blocks[] = {0, 1, 3, 4, 2};
    int64_t channels;
    if (b->code != NC_OK) return NULL;
    if (!nc_dim_is_const(n_channels, &channels)) {
        b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the number of channels must be known");
        return NULL;
    }
    nc_value *n = nc_contrib_size(b, x, 0), *h = nc_contrib_size(b, x, 2), *w = nc_contrib_size(b, x, 3);
    nc_value *blocks = size(b, channels / c), *block = size(b, c);
    nc_value *blocked[] = {n, blocks, h, w, block}, *split[] = {n, blocks, block, h, w};
    nc_value *whole[] = {n, size(b, channels), h, w};
    nc_value *y = reshape(b, x, back ? split : blocked, 5);
    return reshape(b, nc_build_transpose(b, y, back ? to_blocks : to_plain, 5), whole, 4);
}

static nc_value *relaid(nc_builder *b, nc_value *x, int64_t c, bool back) {
    return b->code == NC_OK ? relaid_as(b, x, x->type->dims[1], c, back) : NULL;
}

static nc_code check_blocks(nc_infer *c, const nc_dim *d, const char *what) {
    int64_t n, block = block_size();
    if (d != NULL && nc_dim_is_const(d, &n) && n % block != 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED,
                "%s has %lld channels, expected a multiple of %lld: the file was written for another processor", what,
                (long long)n, (long long)block);
    return NC_OK;
}

static nc_code needs_rank(nc_builder *b, const nc_node *n) {
    if (n->in[X]->type == NULL || n->in[X]->type->rank < 0)
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "its pieces need a known rank");
    return NC_OK;
}

/* ---- in and out of the layout ---- */

static nc_code reorder_input_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    NC_TRY(nc_contrib_rank(c, X, 4));
    if (x == NULL || x->rank < 0) return x == NULL ? NC_OK : nc_out_unknown(c, 0, x->elem, 4);
    bool last = nc_attr_int(c->node, "channels_last") != 0;
    const nc_dim *block = nc_dim_const(c->dims, block_size());
    const nc_dim *blocks = nc_dim_ceildiv(c->dims, x->dims[last ? 3 : 1], block);
    const nc_dim *dims[4] = {x->dims[0], nc_dim_mul(c->dims, blocks, block), x->dims[last ? 1 : 2],
                             x->dims[last ? 2 : 3]};
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_code reorder_input_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t channels, c = block_size();
    NC_TRY(needs_rank(b, n));
    nc_value *x = nc_attr_int(n, "channels_last") ? nc_contrib_turn(b, n->in[X], false) : n->in[X];
    if (b->code == NC_OK && nc_dim_is_const(x->type->dims[1], &channels) && channels % c != 0) {
        int64_t pads[8] = {0, 0, 0, 0, 0, c - channels % c, 0, 0};
        x = nc_build1(b, "Pad", 2, x, nc_build_ints(b, pads, 8));
    }
    out[0] = relaid(b, x, c, true);
    return b->code;
}

static nc_code reorder_output_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    int64_t channels = nc_attr_int(c->node, "channels"), have;
    NC_TRY(nc_contrib_rank(c, X, 4));
    if (x == NULL || x->rank < 0) return x == NULL ? NC_OK : nc_out_unknown(c, 0, x->elem, 4);
    NC_TRY(check_blocks(c, x->dims[1], "X"));
    if (channels < 1 || (nc_dim_is_const(x->dims[1], &have) && channels > have))
        NC_FAIL(c->w, NC_E_SHAPE, "channels is %lld, expected 1 to those of X", (long long)channels);
    const nc_dim *n = nc_dim_const(c->dims, channels);
    bool last = nc_attr_int(c->node, "channels_last") != 0;
    const nc_dim *dims[4] = {x->dims[0], last ? x->dims[2] : n, last ? x->dims[3] : x->dims[2], last ? n : x->dims[3]};
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_code reorder_output_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t channels = nc_attr_int(n, "channels"), have;
    NC_TRY(needs_rank(b, n));
    nc_value *y = relaid(b, n->in[X], block_size(), false);
    if (b->code == NC_OK && nc_dim_is_const(y->type->dims[1], &have) && have != channels)
        y = nc_build1(b, "Slice", 4, y, size(b, 0), size(b, channels), size(b, 1));
    out[0] = nc_attr_int(n, "channels_last") ? nc_contrib_turn(b, y, true) : y;
    return b->code;
}

/* ---- convolution ---- */

/* The data of a Conv is plain where it has fewer channels than a block. */
static bool plain_data(const nc_type *x) {
    int64_t channels;
    return x != NULL && x->rank == 4 && nc_dim_is_const(x->dims[1], &channels) && channels < block_size();
}

static nc_code conv_infer(nc_infer *c) {
    const nc_attr *act = nc_node_attr(c->node, "activation"), *numbers = nc_node_attr(c->node, "activation_params");
    const nc_type *x = nc_in(c, X);
    int rank;
    if (act != NULL) NC_TRY(nc_contrib_check_activation(c, act->s.p, numbers != NULL ? numbers->n : 0));
    NC_TRY(nc_contrib_rank(c, X, 4));
    NC_TRY(nc_contrib_rank(c, W, 4));
    if (x == NULL) return NC_OK;
    if (!plain_data(x) && x->rank == 4) NC_TRY(check_blocks(c, x->dims[1], "X"));
    if (nc_in_rank(c, W, &rank)) NC_TRY(check_blocks(c, nc_in_dim(c, W, 0), "W"));
    NC_TRY(nc_contrib_vector(c, BIAS, nc_in_dim(c, W, 0)));
    NC_TRY(nc_conv_infer_as(c, x->elem));
    const nc_type *y = c->out[0].type;
    for (int i = 0; y != NULL && i < y->rank && nc_in_rank(c, SUM, &rank); i++) {
        NC_TRY(nc_contrib_rank(c, SUM, y->rank));
        NC_TRY(nc_in_expect(c, SUM, i, y->dims[i]));
    }
    return NC_OK;
}

/* W as Conv takes it. */
static nc_value *plain_weights(nc_builder *b, const nc_node *n, int64_t c) {
    static const int64_t both[] = {0, 5, 1, 4, 2, 3}, outputs[] = {0, 4, 1, 2, 3};
    nc_value *w = n->in[W];
    int64_t d[4];
    for (int i = 0; i < 4; i++)
        if (w->type == NULL || w->type->rank != 4 || !nc_dim_is_const(w->type->dims[i], &d[i])) {
            b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "the dims of W must be known");
            return NULL;
        }
    bool depthwise = nc_attr_int(n, "group") > 1 && d[1] == 1;
    if (depthwise || plain_data(n->in[X]->type)) {
        int64_t five[5] = {d[0] / c, d[1], d[2], d[3], c};
        w = nc_build_transpose(b, nc_build1(b, "Reshape", 2, w, nc_build_ints(b, five, 5)), outputs, 5);
    } else {
        int64_t six[6] = {d[0] / c, d[1] / c, d[2], d[3], c, c};
        if (d[1] % c != 0) {
            b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "W has %lld input channels, expected a multiple of %lld",
                              (long long)d[1], (long long)c);
            return NULL;
        }
        w = nc_build_transpose(b, nc_build1(b, "Reshape", 2, w, nc_build_ints(b, six, 6)), both, 6);
    }
    return nc_build1(b, "Reshape", 2, w, nc_build_ints(b, d, 4));
}

static nc_code conv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const char *const own[] = {"activation", "activation_params"};
    nc_attr attrs[16];
    int n_attrs = nc_contrib_attrs(n, own, 2, attrs);
    int64_t c = block_size();
    const nc_attr *act = nc_node_attr(n, "activation"), *numbers = nc_node_attr(n, "activation_params");
    NC_TRY(needs_rank(b, n));
    nc_value *w = plain_weights(b, n, c), *bias = nc_contrib_in(n, BIAS), *sum = nc_contrib_in(n, SUM);
    nc_value *x = plain_data(n->in[X]->type) ? n->in[X] : relaid(b, n->in[X], c, false);
    nc_value *y = nc_build_attr1(b, "", "Conv", (nc_value *[]){x, w, bias}, bias != NULL ? 3 : 2, attrs, n_attrs);
    if (sum != NULL) y = nc_contrib_add(b, y, relaid(b, sum, c, false));
    if (act != NULL) y = nc_contrib_activation(b, act->s.p, numbers != NULL ? numbers->floats : NULL, y);
    out[0] = relaid(b, y, c, true);
    return b->code;
}

/* ---- pools, sizes ---- */

static nc_code pool_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    NC_TRY(nc_contrib_rank(c, X, 4));
    if (x != NULL && x->rank == 4) NC_TRY(check_blocks(c, x->dims[1], "X"));
    return nc_pool_infer(c);
}

static nc_code global_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    NC_TRY(nc_contrib_rank(c, X, 4));
    if (x == NULL || x->rank < 0) return x == NULL ? NC_OK : nc_out_unknown(c, 0, x->elem, 4);
    NC_TRY(check_blocks(c, x->dims[1], "X"));
    const nc_dim *one = nc_dim_const(c->dims, 1);
    return nc_out(c, 0, x->elem, 4, (const nc_dim *[]){x->dims[0], x->dims[1], one, one});
}

/* The card's own: the plain op that does the same. */
static nc_code plain_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int64_t c = block_size();
    NC_TRY(needs_rank(b, n));
    nc_value *x = relaid(b, n->in[X], c, false);
    out[0] = relaid(b, nc_build_newest1(b, n->card->own, &x, 1, n->attrs, n->n_attrs), c, true);
    return b->code;
}

static nc_code read_scales(nc_work *w, const nc_node *n, const int64_t **scales) {
    int count = 0;
    *scales = nc_attr_ints(n, "scales", &count);
    if (*scales != NULL &&
        (count != 4 || (*scales)[0] != 1 || (*scales)[1] != 1 || (*scales)[2] < 1 || (*scales)[3] < 1))
        NC_FAIL(w, NC_E_BAD_GRAPH, "scales: expected 1, 1 and two whole numbers");
    return NC_OK;
}

static nc_code upsample_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, X);
    const int64_t *scales;
    NC_TRY(nc_contrib_rank(c, X, 4));
    NC_TRY(read_scales(c->w, c->node, &scales));
    if (x == NULL || x->rank < 0) return x == NULL ? NC_OK : nc_out_unknown(c, 0, x->elem, 4);
    NC_TRY(check_blocks(c, x->dims[1], "X"));
    const nc_dim *dims[4];
    for (int i = 0; i < 4; i++)
        dims[i] = scales == NULL ? x->dims[i] : nc_dim_mul(c->dims, x->dims[i], nc_dim_const(c->dims, scales[i]));
    return nc_out(c, 0, x->elem, 4, dims);
}

static nc_attr text(const char *name, const char *value) {
    return (nc_attr){.name = name, .kind = NC_A_STRING, .s = {(char *)(uintptr_t)value, strlen(value)}};
}

static nc_code upsample_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    static const char *const coordinates = "coordinate_transformation_mode";
    const int64_t *scales;
    int64_t c = block_size();
    NC_TRY(needs_rank(b, n));
    NC_TRY(read_scales(b->w, n, &scales));
    nc_attr attrs[3] = {text("mode", nc_attr_str(n, "mode")), text(coordinates, nc_attr_str(n, coordinates)),
                        text("nearest_mode", "floor")};
    nc_value *x = relaid(b, n->in[X], c, false);
    if (scales != NULL) {
        nc_value *in[3] = {x, NULL, nc_build_cast(b, nc_build_ints(b, scales, 4), NC_FLOAT)};
        x = nc_build_newest1(b, "Resize", in, 3, attrs, 3);
    }
    out[0] = relaid_as(b, x, n->in[X]->type->dims[1], c, true); /* what Resize makes is not known before the run */
    return b->code;
}

/* ---- cards ---- */

#define XY IN({"X", T_FLOAT_ALL}), OUT({"Y", SAME(0)})
#define WINDOW                                                                                               \
    A_STR("auto_pad", "NOTSET"), A_INTS_REQ("kernel_shape"), A_INTS_OPT("dilations"), A_INTS_OPT("strides"), \
        A_INTS_OPT("pads"), A_INT("ceil_mode", 0)
static const nc_op_version reorder_input_versions[] = {{.since = 1, XY, ATTR(A_INT("channels_last", 0))}, {0}};
static const nc_op_version reorder_output_versions[] = {
    {.since = 1, XY, ATTR(A_INT("channels", 0), A_INT("channels_last", 0))}, {0}};
static const nc_op_version conv_versions[] = {
    {.since = 1,
     IN({"X", T_FLOAT_ALL}, {"W", SAME(0)}, {"B", SAME(0), OPTIONAL}, {"Sum", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(NC_CONV_ATTRS, A_STR_OPT("activation"), A_FLOATS_OPT("activation_params"))},
    {0}};
static const nc_op_version max_pool_versions[] = {{.since = 1, XY, ATTR(WINDOW, A_INT("storage_order", 0))}, {0}};
static const nc_op_version average_pool_versions[] = {{.since = 1, XY, ATTR(WINDOW, A_INT("count_include_pad", 0))},
                                                      {0}};
static const nc_op_version global_versions[] = {{.since = 1, XY, NO_ATTR}, {0}};
static const nc_op_version upsample_versions[] = {
    {.since = 1,
     XY,
     ATTR(A_INTS_OPT("scales"), A_STR("mode", "nearest"), A_STR("coordinate_transformation_mode", "asymmetric"))},
    {0}};

const nc_card nc_card_reorder_input = {.name = "ReorderInput",
                                       .domain = NCHWC,
                                       .doc = "X with its channels in blocks, filled up with zeros.",
                                       .versions = reorder_input_versions,
                                       .infer = reorder_input_infer,
                                       .decompose = reorder_input_decompose};
const nc_card nc_card_reorder_output = {.name = "ReorderOutput",
                                        .domain = NCHWC,
                                        .doc = "The first channels of X, which has them in blocks, laid out plainly.",
                                        .versions = reorder_output_versions,
                                        .infer = reorder_output_infer,
                                        .decompose = reorder_output_decompose};
const nc_card nc_card_nchwc_conv = {.name = "Conv",
                                    .domain = NCHWC,
                                    .doc = "Conv plus Sum and an activation, channels in blocks.",
                                    .versions = conv_versions,
                                    .infer = conv_infer,
                                    .decompose = conv_decompose};
const nc_card nc_card_nchwc_max_pool = {.name = "MaxPool",
                                        .domain = NCHWC,
                                        .doc = "MaxPool with channels in blocks.",
                                        .versions = max_pool_versions,
                                        .own = "MaxPool",
                                        .infer = pool_infer,
                                        .decompose = plain_decompose};
const nc_card nc_card_nchwc_average_pool = {.name = "AveragePool",
                                            .domain = NCHWC,
                                            .doc = "AveragePool with channels in blocks.",
                                            .versions = average_pool_versions,
                                            .own = "AveragePool",
                                            .infer = pool_infer,
                                            .decompose = plain_decompose};
const nc_card nc_card_nchwc_global_max_pool = {.name = "GlobalMaxPool",
                                               .domain = NCHWC,
                                               .doc = "GlobalMaxPool with channels in blocks.",
                                               .versions = global_versions,
                                               .own = "GlobalMaxPool",
                                               .infer = global_infer,
                                               .decompose = plain_decompose};
const nc_card nc_card_nchwc_global_average_pool = {.name = "GlobalAveragePool",
                                                   .domain = NCHWC,
                                                   .doc = "GlobalAveragePool with channels in blocks.",
                                                   .versions = global_versions,
                                                   .own = "GlobalAveragePool",
                                                   .infer = global_infer,
                                                   .decompose = plain_decompose};
const nc_card nc_card_nchwc_upsample = {.name = "Upsample",
                                        .domain = NCHWC,
                                        .doc = "Resize by whole scales, channels in blocks.",
                                        .versions = upsample_versions,
                                        .infer = upsample_infer,
                                        .decompose = upsample_decompose};
