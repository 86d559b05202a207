/* ops/math/broadcast.c: what versions before 7 of lanes with two inputs need: `broadcast` with `axis` puts B against
 * any neighbouring dims of A. Lowered and differentiated as today's op with dims of 1 behind B. */
#include "ops/build.h"
#include "ops/math/math.h"

/* Axes of 1 behind v's dims. */
static nc_value *behind(nc_builder *b, nc_value *v, int rank, int trailing, nc_value **axes) {
    int64_t at[NC_MAX_RANK];
    for (int i = 0; i < trailing && i < NC_MAX_RANK; i++) at[i] = rank + i;
    *axes = nc_build_ints(b, at, trailing);
    return nc_build1(b, "Unsqueeze", 2, v, *axes);
}

nc_code nc_math_decompose_old(nc_builder *b, const nc_node *n, nc_value **out) {
    int trailing = nc_lane_trailing(n);
    if (trailing <= 0) NC_FAIL(b->w, NC_E_UNSUPPORTED, "no kernel takes these inputs");
    nc_value *axes, *y = behind(b, n->in[1], n->in[1]->type->rank, trailing, &axes);
    nc_value *in[2] = {n->in[0], y};
    out[0] = nc_build_card1(b, n->card, in, 2, NULL, 0);
    return b->code;
}

nc_code nc_math_grad_binary(nc_grad *g) {
    int trailing = nc_lane_trailing(g->node), lane = g->node->card->lane - 1;
    nc_value *dy = nc_grad_dy(g, 0);
    if (trailing <= 0) return nc_lane_card_grad(g);
    if (dy == NULL) return NC_OK;
    nc_value *axes, *b = behind(g->b, nc_grad_x(g, 1), g->node->in[1]->type->rank, trailing, &axes);
    nc_value *in[2] = {nc_grad_x(g, 0), b}, *y = nc_grad_y(g, 0);
    if (g->wants[0]) nc_grad_set(g, 0, nc_lane_pull(g->b, lane, 0, dy, in, y, NULL));
    if (g->wants[1]) {
        nc_value *sum = nc_build_sum_to(g->b, nc_lane_pull(g->b, lane, 1, dy, in, y, NULL), b);
        nc_grad_set(g, 1, nc_build1(g->b, "Squeeze", 2, sum, axes));
    }
    return nc_grad_end(g);
}
