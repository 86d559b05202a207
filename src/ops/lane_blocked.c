/* ops/lane_blocked.c: element formulas on the channel-blocked layout: the node itself, over blocked operands. */
#include "ops/lane.h"

static bool is_one(const nc_type *t) {
    int64_t d;
    for (int i = 0; i < t->rank; i++)
        if (!nc_dim_is_const(t->dims[i], &d) || d != 1) return false;
    return true;
}

/* Operands that have the channels are taken in blocks; one number for all stays as it is. Constants may lack dims in
 * front: they are laid out when the session is made. */
static bool operand_blocks(const nc_value *v, const nc_type *y, int i, nc_blocking *k) {
    const nc_type *t = v != NULL ? v->type : NULL;
    int missing = t != NULL && v->origin == NC_FROM_CONST && v->lit != NULL && t->rank == y->rank - 1 ? 1 : 0;
    k->why = "an operand is not of the result's type and of known rank";
    if (t == NULL || t->elem != y->elem || t->rank < 0) return false;
    if (is_one(t)) return true;
    k->why = "an operand does not have the channels along axis 1";
    if (t->rank + missing != y->rank || t->dims[1 - missing] != y->dims[1]) return false;
    k->in |= 1u << i;
    return true;
}

bool nc_lane_blocks(const nc_node *n, nc_blocking *k) {
    const nc_type *y = n->out[0]->type;
    int64_t C;
    k->why = "the result is not of a type that is kept in blocks, with known rank and channels";
    if (n->n_out != 1 || y == NULL || !(k->types & NC_BIT(y->elem)) || y->rank < 3 || y->rank + 1 > NC_MAX_RANK)
        return false;
    if (!nc_dim_is_const(y->dims[1], &C) || C == 0 || nc_lane_trailing(n) != 0) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!operand_blocks(n->in[i], y, i, k)) return false;
    return k->in != 0;
}
