/* ops/nn/conv_grad_blocked.c: nacre.ConvGradBlocked, the gradients of a convolution on channels in blocks, and when a
 * ConvGrad takes that form: f32, group 1, one or two spatial dims. dY, X and dX are blocked; weights, dW and dB plain.
 */
#include "ops/blocked.h"
#include "ops/build.h"
#include "ops/card.h"
#include "ops/nn/conv.h"

enum { MIN_CHANNELS = 8 }; /* fewer leave blocks nearly empty, and are cheap to move */

/* Both operands and dX are laid into blocks by the plain kernel in any case. */
bool nc_conv_grad_blocks(const nc_node *n, nc_blocking *k) {
    const nc_type *dy = n->in[0]->type, *x = n->in[1]->type;
    int64_t C = 0, K = 0;
    k->why = "one block holds all channels";
    if (k->block == NC_BLOCK_ALL) return false;
    k->why = "f32, one or two spatial dims and one group are supported";
    if (!dy || !x || x->elem != NC_FLOAT || (x->rank != 3 && x->rank != 4) || nc_attr_int(n, "group") != 1)
        return false;
    if (!nc_blocks_input(n, 0, k) || !nc_blocks_input(n, 1, k)) return false;
    k->why = "there are too few channels";
    if (!nc_dim_is_const(dy->dims[1], &K) || !nc_dim_is_const(x->dims[1], &C) || C < MIN_CHANNELS || K < MIN_CHANNELS)
        return false;
    k->rest_plain = true;
    return true;
}

nc_value *nc_conv_grad_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    bool wanted[3] = {false};
    (void)k;
    for (int i = 0; i < n->n_out && i < 3; i++) wanted[i] = n->out[i] != NULL;
    nc_node *made = nc_build_wanted(b, "nacre", "ConvGradBlocked", in, n->n_in, wanted, n->n_out, n->attrs, n->n_attrs);
    return made != NULL ? made->out[0] : NULL;
}

/* Blocks of input i against channels that the weight has along its dim. */
static nc_code check_blocks(nc_infer *c, int i, int dim) {
    const nc_type *t = nc_in(c, i);
    const nc_dim *channels = nc_in_dim(c, 2, dim);
    if (!t || !channels) return NC_OK;
    return nc_in_expect(c, i, 1, nc_dim_ceildiv(c->dims, channels, t->dims[t->rank - 1]));
}

static nc_code blocked_infer(nc_infer *c) {
    const nc_type *dy = nc_in(c, 0), *x = nc_in(c, 1), *w = nc_in(c, 2);
    if (!dy || !x || !w) return NC_OK;
    if (dy->rank != x->rank || w->rank < 0 || x->rank != w->rank + 1)
        NC_FAIL(c->w, NC_E_SHAPE, "dY has %d dims, X %d, the weight %d", dy->rank, x->rank, w->rank);
    NC_TRY(nc_in_expect(c, 0, 0, x->dims[0]));
    NC_TRY(nc_in_expect(c, 0, dy->rank - 1, x->dims[x->rank - 1]));
    NC_TRY(check_blocks(c, 0, 0));
    NC_TRY(check_blocks(c, 1, 1));
    NC_TRY(nc_out_like(c, 0, 1));
    NC_TRY(nc_out_like(c, 1, 2));
    return nc_out(c, 2, w->elem, 1, &w->dims[0]);
}

static const nc_op_version versions[] = {{.since = 1,
                                          IN({"dY", NC_BIT(NC_FLOAT)}, {"X", SAME(0)}, {"W", SAME(0)}),
                                          OUT({"dX", SAME(0)}, {"dW", SAME(0), OPTIONAL}, {"dB", SAME(0), OPTIONAL}),
                                          ATTR(NC_CONV_ATTRS)},
                                         {0}};

const nc_card nc_card_conv_grad_blocked = {.name = "ConvGradBlocked",
                                           .domain = "nacre",
                                           .no_grad = NC_LOWERED_NO_GRAD,
                                           .doc = "Gradients of Conv on channels in blocks.",
                                           .versions = versions,
                                           .infer = blocked_infer};
