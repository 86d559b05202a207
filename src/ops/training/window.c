/* ops/training/window.c: gradients of convolutions and pools as ONNX Runtime writes them. A pool's gradient does not
 * have X: its shape is that of the pool behind the indices where they come from one, else what the model declares of
 * the output. The first dim is dY's. */
#include "ops/training/training.h"

extern const nc_card nc_card_max_pool;

static const nc_type *x_of_pool(const nc_node *n) {
    const nc_value *at = n->n_in > 1 ? n->in[1] : NULL;
    const nc_node *pool = at != NULL && at->origin == NC_FROM_NODE ? at->def : NULL;
    return pool != NULL && pool->card == &nc_card_max_pool ? pool->in[0]->type : NULL;
}

static nc_code pool_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 0), *x = x_of_pool(c->node), *declared = c->node->out[0]->type;
    const nc_dim *dims[NC_MAX_RANK];
    if (x == NULL || x->rank < 0) x = declared;
    if (dy == NULL) return NC_OK;
    if (x == NULL || x->kind != NC_T_TENSOR || x->rank < 0)
        NC_FAIL(c->w, NC_E_UNSUPPORTED, "the shape of dX is not told: expected the model to declare it");
    if (dy->rank >= 0 && dy->rank != x->rank)
        NC_FAIL(c->w, NC_E_SHAPE, "dY has %d dims, dX %d: expected as many", dy->rank, x->rank);
    for (int i = 0; i < x->rank; i++) dims[i] = i == 0 && dy->rank > 0 ? dy->dims[0] : x->dims[i];
    return nc_out(c, 0, dy->elem, x->rank, dims);
}

/* A tensor of dX's dims; its elements are not read. */
static nc_value *like_dx(nc_builder *b, const nc_node *n) {
    const nc_type *t = n->out[0]->type;
    nc_value *pieces[NC_MAX_RANK];
    if (x_of_pool(n) != NULL) return n->in[1]->def->in[0];
    for (int i = 0; i < t->rank; i++) {
        int64_t size;
        if (i > 0 && !nc_dim_is_const(t->dims[i], &size)) {
            b->code = nc_fail(b->w, NC_E_UNSUPPORTED, "dim %d of dX is not known: expected the model to declare it", i);
            return NULL;
        }
        pieces[i] = i > 0 ? nc_build_ints(b, &size, 1) : nc_contrib_size(b, n->in[0], 0);
    }
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *shape = nc_build_attr1(b, "", "Concat", pieces, t->rank, &axis, 1);
    return nc_build1(b, "Expand", 2, nc_build_scalar(b, t->elem, 0), shape);
}

static nc_code max_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[3] = {n->in[0], n->in[1], like_dx(b, n)};
    return nc_training_as(b, n, "MaxPoolGrad", in, 3, NULL, 0, out);
}

static nc_code average_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *in[2] = {n->in[0], like_dx(b, n)};
    return nc_training_as(b, n, "AveragePoolGrad", in, 2, n->attrs, n->n_attrs, out);
}

/* ---- convolutions ---- */

/* Which dim of W counts the channels of Y is the card's own; ConvTranspose has them per group. */
typedef struct conv_own {
    const char *op;
    int channels;
} conv_own;

static nc_code conv_infer(nc_infer *c) {
    const conv_own *own = c->node->card->own;
    const nc_type *w = nc_in(c, 2);
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    if (w == NULL) return NC_OK;
    const nc_dim *K = nc_in_dim(c, 2, own->channels);
    if (K == NULL) return nc_out_unknown(c, 2, w->elem, 1);
    if (own->channels == 1) K = nc_dim_mul(c->dims, K, nc_dim_const(c->dims, nc_attr_int(c->node, "group")));
    return nc_out(c, 2, w->elem, 1, &K);
}

static nc_code conv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    return nc_training_as(b, n, ((const conv_own *)n->card->own)->op, n->in, 3, n->attrs, n->n_attrs, out);
}

#define WINDOW                                                                                            \
    A_STR("auto_pad", "NOTSET"), A_INTS_OPT("dilations"), A_INTS_OPT("kernel_shape"), A_INTS_OPT("pads"), \
        A_INTS_OPT("strides")
#define POOL WINDOW, A_INT("ceil_mode", 0)
#define GRADS OUT({"dX", SAME(0), OPTIONAL}, {"dW", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL})
#define DY_X_W IN({"dY", T_FLOAT_ALL}, {"X", SAME(0)}, {"W", SAME(0)}), GRADS
static const nc_op_version max_versions[] = {{.since = 9,
                                              .foreign = true,
                                              IN({"dY", T_FLOAT_ALL}, {"Indices", T_I64}),
                                              OUT({"dX", SAME(0)}),
                                              ATTR(POOL, A_INT("storage_order", 0))},
                                             {0}};
static const nc_op_version average_versions[] = {{.since = 9,
                                                  .foreign = true,
                                                  IN({"dY", T_FLOAT_ALL}),
                                                  OUT({"dX", SAME(0)}),
                                                  ATTR(POOL, A_INT("count_include_pad", 0))},
                                                 {0}};
static const nc_op_version conv_versions[] = {{.since = 1, DY_X_W, ATTR(WINDOW, A_INT("group", 1))}, {0}};
static const nc_op_version transpose_versions[] = {
    {.since = 1, DY_X_W, ATTR(WINDOW, A_INT("group", 1), A_INTS_OPT("output_padding"), A_INTS_OPT("output_shape"))},
    {0}};

const nc_card nc_card_training_max_pool_grad = {.name = "MaxPoolGrad",
                                                .doc = "dY added up where the maxima of a pool were.",
                                                .versions = max_versions,
                                                .no_grad_in = 2,
                                                .infer = pool_infer,
                                                .decompose = max_decompose};
const nc_card nc_card_training_average_pool_grad = {.name = "AveragePoolGrad",
                                                    .doc = "dY shared out over the windows of an average.",
                                                    .versions = average_versions,
                                                    .infer = pool_infer,
                                                    .decompose = average_decompose};
NC_TRAINING_CARD(conv_grad, "ConvGrad", "Gradients of Conv by X, W and B.", conv_versions,
                 .own = (&(const conv_own){"ConvGrad", 0}), .infer = conv_infer, .decompose = conv_decompose);
NC_TRAINING_CARD(conv_transpose_grad, "ConvTransposeGrad", "Gradients of ConvTranspose by X, W and B.",
                 transpose_versions, .own = (&(const conv_own){"ConvTransposeGrad", 1}), .infer = conv_infer,
                 .decompose = conv_decompose);
