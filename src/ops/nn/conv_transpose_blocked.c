/* ops/nn/conv_transpose_blocked.c: nacre.ConvTransposeBlocked, the transposed convolution on channels in blocks, and
 * when a ConvTranspose takes that form: f32, group 1, one or two spatial dims, a constant weight, pads that no size
 * decides. X and Y are blocked, the weight and the bias plain. */
#include "base/intmath.h"
#include "ops/binding.h"
#include "ops/blocked.h"
#include "ops/build.h"
#include "ops/card.h"
#include "ops/nn/conv.h"

#include <string.h>

enum { MOST_WASTE = 2 };

/* Multiplications, and how many times as many the blocked form has: it counts those with what is outside of X too, and
 * with channels that fill up the last block of Y. Sizes that are not known are taken as 32. */
static double products(const nc_node *n, int64_t block, double *waste) {
    const nc_type *x = n->in[0]->type, *w = n->in[1]->type, *y = n->out[0]->type;
    int64_t d, out, size = 0;
    int n_strides = 0;
    const int64_t *strides = nc_attr_ints(n, "strides", &n_strides);
    double all = 1;
    for (int i = 0; i < w->rank; i++) all *= nc_dim_is_const(w->dims[i], &size) ? (double)size : 1;
    *waste = nc_dim_is_const(w->dims[1], &size) ? (double)nc_round_up(size, block) / (double)size : 1;
    for (int i = 2; i < x->rank; i++) {
        bool known = nc_dim_is_const(x->dims[i], &d) && nc_dim_is_const(y->dims[i], &out);
        int64_t stride = i - 2 < n_strides ? strides[i - 2] : 1;
        if (known && d > 0 && stride > 0) *waste *= (double)out / (double)(d * stride);
        all *= known ? (double)d : 32;
    }
    return all;
}

bool nc_conv_transpose_blocks(const nc_node *n, nc_blocking *k) {
    const nc_type *x = n->in[0]->type, *w = n->in[1]->type;
    double waste;
    k->why = "one block holds all channels";
    if (k->block == NC_BLOCK_ALL) return false;
    if (!nc_blocks_input(n, 0, k)) return false;
    k->why = "f32, one or two spatial dims, one group and a constant weight are supported";
    if (x->elem != NC_FLOAT || x->rank > 4 || !w || w->rank != x->rank || nc_attr_int(n, "group") != 1) return false;
    if (!nc_pack_source(n->in[1], &(nc_pack){0})) return false;
    k->why = "its pads follow from sizes";
    if (nc_attr_has(n, "output_shape") || strncmp(nc_attr_str(n, "auto_pad"), "SAME", 4) == 0) return false;
    k->why = "windows reach far out of so small an input, or few channels fill no block";
    k->gain = products(n, k->block, &waste) / 8;
    return waste <= MOST_WASTE;
}

nc_value *nc_conv_transpose_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    (void)k;
    return nc_build_attr1(b, "nacre", "ConvTransposeBlocked", in, n->n_in, n->attrs, n->n_attrs);
}

static nc_code blocked_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0), *w = nc_in(c, 1);
    const nc_dim *dims[NC_MAX_RANK];
    nc_conv_transpose a;
    int64_t B = 0;
    if (!x || !w) return NC_OK;
    if (w->rank < 3 || x->rank != w->rank + 1)
        NC_FAIL(c->w, NC_E_SHAPE, "X has %d dims, the weight %d", x->rank, w->rank);
    const nc_dim *block = x->dims[w->rank], *M = nc_in_dim(c, 1, 1);
    if (!nc_dim_is_const(block, &B) || B < 1) NC_FAIL(c->w, NC_E_SHAPE, "the blocks of X have no known size");
    NC_TRY(nc_in_expect(c, 0, 1, nc_dim_ceildiv(c->dims, nc_in_dim(c, 1, 0), block)));
    NC_TRY(nc_conv_transpose_read(c->w, c->node, w->rank - 2, &a));
    dims[0] = x->dims[0];
    dims[1] = nc_dim_ceildiv(c->dims, M, block);
    for (int i = 2; i < w->rank; i++)
        dims[i] = nc_conv_transpose_dim(c->dims, &a, i - 2, x->dims[i], nc_in_dim(c, 1, i));
    dims[w->rank] = block;
    NC_TRY(nc_out(c, 0, x->elem, x->rank, dims));
    return nc_out_layout(c, 0, (nc_layout){.axis = 1, .block = (int)B, .logical = M});
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"X", NC_BIT(NC_FLOAT)}, {"W", SAME(0)}, {"B", SAME(0), OPTIONAL}),
     OUT({"Y", SAME(0)}),
     ATTR(NC_CONV_ATTRS, A_INTS_OPT("output_padding"), A_INTS_OPT("output_shape"))},
    {0}};

const nc_card nc_card_conv_transpose_blocked = {.name = "ConvTransposeBlocked",
                                                .domain = "nacre",
                                                .no_grad = NC_LOWERED_NO_GRAD,
                                                .doc = "ConvTranspose on channels in blocks.",
                                                .versions = versions,
                                                .infer = blocked_infer};
