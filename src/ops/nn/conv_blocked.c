/* ops/nn/conv_blocked.c: nacre.ConvBlocked, the convolution on channels in blocks, and when a Conv takes that form. Its
 * weight is plain, of sizes known before the run. Input 0 is blocked, or with attribute `planes` in plain layout: then
 * only the output is blocked. Where one block holds all channels (CUDA), this is the layout with channels last, and the
 * weight is a constant. The subgraph `body`, if there is one, holds element formulas done to the result: its input 0 is
 * the convolution's sum, the others are the node's inputs from 3 on (plan/lower_epilogue.c). */
#include "kernels/cpu/conv/conv_blocked.h"
#include "ops/binding.h"
#include "ops/build.h"
#include "ops/card.h"
#include "ops/nn/conv.h"

enum { MAX_PLANES = 4 }; /* fewer channels leave a block nearly empty: x is taken as it is */

static bool dim_is(const nc_type *t, int axis, int64_t *v) { return nc_dim_is_const(t->dims[axis], v); }

/* Multiplications, sizes that are not known taken as 32. */
static double products(const nc_type *y, const int64_t *w) {
    double n = (double)w[1];
    for (int i = 2; i < y->rank; i++) n *= (double)w[i];
    for (int i = 0; i < y->rank; i++) {
        int64_t d;
        n *= dim_is(y, i, &d) ? (double)d : i == 0 ? 1 : 32;
    }
    return n;
}

/* Of a constant, or of what has sizes known before the run: the weights of a network that trains. */
static bool weight_dims(const nc_value *w, int rank, int64_t *dims) {
    bool known = w->type != NULL && w->type->rank == rank;
    for (int i = 0; known && i < rank; i++) known = nc_dim_is_const(w->type->dims[i], &dims[i]) && dims[i] > 0;
    return known;
}

static bool groups_fit(int64_t C, int64_t K, int64_t group, int64_t block) {
    if (block == NC_BLOCK_ALL || group == 1) return true;
    if (nck_conv_merges(C, K, group, block)) return true;
    return (C == group && K == group) || (C / group % block == 0 && K / group % block == 0);
}

/* What every run packs where the weight is no constant, in moves of an element. */
static double packing(const int64_t *w, int rank) {
    double n = 2;
    for (int i = 0; i < rank; i++) n *= (double)w[i];
    return n;
}

/* A multiplication in blocks saves a sixteenth of the move of an element; one of a convolution with one channel per
 * group, whose plain kernel is slow, saves as much as a move. */
bool nc_conv_blocks(const nc_node *n, nc_blocking *k) {
    const nc_type *x = n->in[0]->type, *y = n->out[0]->type;
    nc_pack pack = {0};
    bool constant = nc_pack_source(n->in[1], &pack) != NULL;
    int64_t group = nc_attr_int(n, "group"), C, w[5];
    k->why = "the input is not of a type that is kept in blocks, with known rank";
    if (x == NULL || y == NULL || !(k->types & NC_BIT(x->elem)) || x->rank < 0 || y->rank != x->rank) return false;
    bool all = k->block == NC_BLOCK_ALL;
    k->why = all ? "one or two spatial dims are supported" : "one to three spatial dims are supported";
    if (x->rank < 3 || x->rank > (all ? 4 : 5)) return false;
    k->why = "the weight's sizes are not known";
    if (!weight_dims(n->in[1], x->rank, w)) return false;
    k->why = "the weight is no constant";
    if (all && n->in[1]->origin != NC_FROM_CONST) return false;
    C = w[1] * group; /* the input's own dim may be known only in the run */
    k->why = "groups are neither whole blocks of channels nor parts of one";
    if (group < 1 || !groups_fit(C, w[0], group, k->block)) return false;
    k->why = "one channel per group is supported with one or two spatial dims";
    if (x->rank == 5 && group > 1 && group == C && group == w[0]) return false;
    k->why = "the number of channels is not known";
    if (all && !nc_dim_is_const(x->dims[1], &C)) return false;
    k->plain_data = !all && group == 1 && C <= MAX_PLANES;
    k->in = k->plain_data ? 0 : 1;
    k->gain = products(y, w) / (group == C && group > 1 ? 1 : 16);
    if (!constant) k->gain -= packing(w, x->rank);
    return true;
}

/* Where the input's channels are known only in the run, what puts them into blocks has them counted. */
static void expect_channels(nc_builder *b, const nc_node *n, const nc_value *x) {
    int64_t C;
    if (b->code != NC_OK || nc_dim_is_const(n->in[0]->type->dims[1], &C)) return;
    if (x == NULL || x->origin != NC_FROM_NODE || !(x->def->card->traits & NC_BLOCKS)) return;
    if (!nc_dim_is_const(n->in[1]->type->dims[1], &C)) return;
    const nc_attr channels = {.name = "channels", .kind = NC_A_INT, .i = C * nc_attr_int(n, "group")};
    if (nc_edit_set_attr(x->def, &channels) != NC_OK)
        b->code = nc_fail(b->w, NC_E_MEMORY, "out of memory");
    else
        b->code = b->infer(b->w, x->def);
}

nc_value *nc_conv_blocked(nc_builder *b, const nc_node *n, const nc_blocking *k, nc_value *const *in) {
    nc_attr attrs[16];
    if (!k->plain_data) expect_channels(b, n, in[0]);
    int n_attrs = 0;
    int64_t K = 0;
    (void)nc_dim_is_const(n->in[1]->type->dims[0], &K); /* nc_conv_blocks has seen that it is */
    for (int i = 0; i < n->n_attrs && n_attrs < 14; i++) attrs[n_attrs++] = n->attrs[i];
    attrs[n_attrs++] = (nc_attr){.name = "block", .kind = NC_A_INT, .i = nc_block_of(k, K)};
    if (k->plain_data) attrs[n_attrs++] = (nc_attr){.name = "planes", .kind = NC_A_INT, .i = 1};
    return nc_build_attr1(b, "nacre", "ConvBlocked", in, n->n_in, attrs, n_attrs);
}

static nc_code blocked_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    const nc_dim *dims[NC_MAX_RANK];
    nc_conv_attrs a;
    bool known, planes = nc_attr_int(c->node, "planes") != 0;
    int64_t B = nc_attr_int(c->node, "block");
    if (x == NULL) return NC_OK;
    if (B < 1) NC_FAIL(c->w, NC_E_BAD_GRAPH, "blocks of %lld channels", (long long)B);
    NC_TRY(nc_conv_spatial_dims(c, planes ? 0 : 1, &a, dims, &known));
    if (!known) NC_FAIL(c->w, NC_E_SHAPE, "the blocked form needs known ranks");
    const nc_dim *K = nc_in_dim(c, 1, 0), *block = nc_dim_const(c->dims, B);
    int rank = x->rank + (planes ? 1 : 0);
    dims[0] = nc_in_dim(c, 0, 0);
    dims[1] = nc_dim_ceildiv(c->dims, K, block);
    dims[rank - 1] = block;
    NC_TRY(nc_out(c, 0, x->elem, rank, dims));
    return nc_out_layout(c, 0, (nc_layout){.axis = 1, .block = (int)B, .logical = K});
}

static const nc_op_version versions[] = {
    {.since = 1,
     IN({"X", NC_BIT(NC_FLOAT) | NC_BIT(NC_FLOAT16) | NC_BIT(NC_BFLOAT16)}, {"W", SAME(0)}, {"B", SAME(0), OPTIONAL},
        {"more", SAME(0), .flags = NC_P_OPTIONAL | NC_P_VARIADIC}),
     OUT({"Y", SAME(0)}),
     ATTR(NC_CONV_ATTRS, A_INT_REQ("block"), A_INT("planes", 0), {.name = "body", .kind = NC_A_GRAPH})},
    {0}};

const nc_card nc_card_conv_blocked = {.name = "ConvBlocked",
                                      .no_grad = NC_LOWERED_NO_GRAD,
                                      .domain = "nacre",
                                      .doc = "Conv on channels in blocks, and element formulas done to its result.",
                                      .versions = versions,
                                      .infer = blocked_infer,
                                      .with_body = &nc_card_conv_blocked,
                                      .epilogue_in = 3,
                                      .cost = nc_conv_cost};
