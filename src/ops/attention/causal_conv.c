/* ops/attention/causal_conv.c: the card of CausalConvWithState: a depthwise convolution along the last dim that
 * looks back only, over a past of its window's length. Its gradient is that of Concat, Conv and Slice; the kernel is
 * in causal_conv_cpu.c. */
#include "ops/attention/attention.h"
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

static nc_code causal_conv_infer(nc_infer *c) {
    static const char *const names[] = {"input", "weight", "bias", "past_state"};
    static const int ranks[] = {3, 3, 1, 3};
    const nc_type *x = nc_in(c, 0);
    const char *act = nc_attr_str(c->node, "activation");
    int rank;
    if (strcmp(act, "none") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "activation is '%s', expected none, silu or swish", act);
    for (int i = 0; i < 4; i++)
        if (nc_in_rank(c, i, &rank) && rank != ranks[i])
            NC_FAIL(c->w, NC_E_SHAPE, "%s has %d dims, expected %d", names[i], rank, ranks[i]);
    if (x == NULL) return NC_OK;
    NC_TRY(nc_out_like(c, 0, 0));
    const nc_dim *k = nc_in_dim(c, 1, 2);
    if (k == NULL || nc_in_dim(c, 0, 0) == NULL) return nc_out_unknown(c, 1, x->elem, 3);
    const nc_dim *dims[3] = {nc_in_dim(c, 0, 0), nc_in_dim(c, 0, 1), nc_dim_sub(c->dims, k, nc_dim_const(c->dims, 1))};
    return nc_out(c, 1, x->elem, 3, dims);
}

static nc_code causal_conv_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    nc_value *x = n->in[0], *w = n->in[1], *past = n->n_in > 3 ? n->in[3] : NULL;
    nc_dtype t = x->type->elem;
    int64_t C, far = INT64_MAX, one = 1, axis = 2;
    if (!nc_dim_is_const(x->type->dims[1], &C))
        NC_FAIL(b->w, NC_E_UNSUPPORTED, "the number of channels is not known before the run");
    nc_value *window = nc_build1(b, "Sub", 2, nc_attn_dims(b, w, 2, 3), nc_build_ints(b, &one, 1));
    if (past == NULL) {
        nc_value *shape[2] = {nc_attn_dims(b, x, 0, 2), window};
        past = nc_build1(b, "Expand", 2, nc_build_scalar(b, t, 0), nc_attn_join(b, shape, 2, 0));
    }
    nc_value *all = nc_attn_join(b, (nc_value *[]){past, x}, 2, 2);
    nc_value *in[3] = {all, w, n->n_in > 2 ? n->in[2] : NULL};
    nc_attr group = {.name = "group", .kind = NC_A_INT, .i = C};
    nc_value *y = nc_build_attr1(b, "", "Conv", in, in[2] != NULL ? 3 : 2, &group, 1);
    if (strcmp(nc_attr_str(n, "activation"), "none") != 0) y = nc_build1(b, "Mul", 2, y, nc_build1(b, "Sigmoid", 1, y));
    out[0] = y;
    nc_value *first = nc_attn_dims(b, x, 2, 3); /* what precedes the last window-1 of all */
    if (n->n_out > 1)
        out[1] = nc_build1(b, "Slice", 4, all, first, nc_build_ints(b, &far, 1), nc_build_ints(b, &axis, 1));
    return b->code;
}

#define T_NARROW (NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16))
static const nc_op_version versions[] = {
    {.since = 27,
     IN({"input", T_NARROW}, {"weight", SAME(0)}, {"bias", SAME(0), OPTIONAL}, {"past_state", SAME(0), OPTIONAL}),
     OUT({"output", SAME(0)}, {"present_state", SAME(0)}),
     ATTR(A_STR("activation", "none"))},
    {0}};

const nc_card nc_card_causal_conv_with_state = {.name = "CausalConvWithState",
                                                .doc = "A depthwise convolution that looks back over a kept past.",
                                                .versions = versions,
                                                .infer = causal_conv_infer,
                                                .decompose = causal_conv_decompose};
