/* ops/lane_prog.c: a node's lane, or the body of nacre.Chain, as a tile program: registers, compute type, refusals. A
 * variadic op folds its binary lane over the inputs from the left. Values inside a chain keep the compute type: they
 * are not rounded to a narrower float in between, and integers that would have to wrap there are refused. */
#include "ops/lane_prog.h"

#include "ops/lane.h"

#include <string.h>

static bool refuse(nc_lane_prog *p, const char *why) {
    p->why = why;
    return false;
}

/* Floats win over integers, double over float, signed over unsigned. */
static int weight(nc_dtype compute) {
    return compute == NC_DOUBLE ? 4 : compute == NC_FLOAT ? 3 : compute == NC_INT64 ? 2 : 1;
}

static bool join_compute(nc_lane_prog *p, const nc_value *v, nc_dtype *joined) {
    if (v == NULL) return refuse(p, "an absent input");
    if (v->type == NULL || v->type->kind != NC_T_TENSOR) return refuse(p, "an operand is not a tensor of known type");
    nc_dtype c = nck_tile_compute(v->type->elem);
    if (c == NC_UNDEFINED) return refuse(p, nc_dtype_name(v->type->elem));
    if (v->type->elem != NC_BOOL && (*joined == NC_UNDEFINED || weight(c) > weight(*joined))) *joined = c;
    return true;
}

/* A single node may mix types: Where has a bool, Pow any exponent. An integer base under a float exponent takes double;
 * tiles clamp it to 64 bits, so one of 32 is left to Pow's parts. */
static bool compute_of_node(nc_lane_prog *p, const nc_node *n) {
    nc_dtype joined = NC_UNDEFINED;
    for (int i = 0; i < n->n_in; i++)
        if (!join_compute(p, n->in[i], &joined)) return false;
    nc_dtype out = NC_UNDEFINED;
    if (!join_compute(p, n->out[0], &out)) return false;
    if (n->out[0]->type->elem == NC_INT32 && (joined == NC_FLOAT || joined == NC_DOUBLE))
        return refuse(p, "an int32 base under a float exponent");
    if (joined == NC_FLOAT && (out == NC_INT64 || out == NC_UINT64)) joined = NC_DOUBLE;
    p->compute = joined != NC_UNDEFINED ? joined : NC_INT64;
    return true;
}

static bool add_op(nc_lane_prog *p, int lane, int dst, const uint16_t *src, int n_src, const double *params) {
    if (p->n_op == NC_LANE_PROG_MAX_OPS) return refuse(p, "too many formulas in one chain");
    nck_tile_op *op = &p->op[p->n_op++];
    *op = (nck_tile_op){.lane = (uint16_t)lane, .dst = (uint16_t)dst};
    memcpy(op->src, src, (size_t)n_src * sizeof *src);
    memcpy(op->param, params, sizeof op->param);
    if (dst >= p->n_reg) p->n_reg = dst + 1;
    return true;
}

/* The lane of node n on the registers src, into dst. */
static bool add_node(nc_lane_prog *p, const nc_node *n, int dst, const uint16_t *src) {
    const nck_lane_info *lane = n->card->lane > 0 ? nck_lane_get(n->card->lane - 1) : NULL;
    if (lane == NULL) return refuse(p, "not an element formula");
    double params[2];
    nc_lane_params(n, params);
    int number = n->card->lane - 1;
    if (lane->n_in == n->n_in) return add_op(p, number, dst, src, n->n_in, params);
    if (lane->n_in != 2 || n->n_in < 1) return refuse(p, "the formula takes another number of inputs");
    if (n->n_in == 1) return add_op(p, NCK_LANE_identity, dst, src, 1, params);
    uint16_t pair[2] = {src[0], 0};
    for (int i = 1; i < n->n_in; i++, pair[0] = (uint16_t)dst) {
        pair[1] = src[i];
        if (!add_op(p, number, dst, pair, 2, params)) return false;
    }
    return true;
}

static bool node_program(nc_lane_prog *p, const nc_node *n) {
    uint16_t src[NCK_TILE_MAX_REG];
    if (n->n_in >= NCK_TILE_MAX_REG) return refuse(p, "too many inputs for one pass");
    if (nc_lane_trailing(n) != 0) return refuse(p, "broadcast along an axis in the middle");
    if (n->n_out != 1 || !compute_of_node(p, n)) return p->why != NULL ? false : refuse(p, "one output is expected");
    for (int i = 0; i < n->n_in; i++) src[i] = (uint16_t)i;
    p->n_in = p->n_reg = n->n_in;
    p->n_out = 1;
    p->out_reg[0] = (uint16_t)n->n_in;
    return add_node(p, n, n->n_in, src);
}

/* ---- chains ---- */

typedef struct slot {
    const nc_value *value; /* NULL: the register is free */
    int uses_left;
} slot;

static int reg_of(const slot *slots, const nc_value *v) {
    for (int i = 0; i < NCK_TILE_MAX_REG; i++)
        if (v != NULL && slots[i].value == v) return i;
    return -1;
}

/* Registers of inputs are the inputs' own memory, never written. */
static int free_reg(const slot *slots, int n_in) {
    for (int i = n_in; i < NCK_TILE_MAX_REG; i++)
        if (slots[i].value == NULL) return i;
    return -1;
}

static bool chain_value(nc_lane_prog *p, const nc_value *v, bool inside) {
    nc_dtype c = NC_UNDEFINED;
    if (!join_compute(p, v, &c)) return false;
    if (c == NC_UNDEFINED) return true;
    if (p->compute != NC_UNDEFINED && p->compute != c) return refuse(p, "the chain mixes compute types");
    p->compute = c;
    if (inside && !nc_dtype_is_float(v->type->elem) && nc_dtype_bytes(v->type->elem) < 8)
        return refuse(p, "narrow integers inside a chain would have to wrap");
    return true;
}

static bool chain_node(nc_lane_prog *p, slot *slots, const nc_node *n) {
    uint16_t src[NCK_TILE_MAX_REG];
    if (n->n_in > NCK_TILE_MAX_REG || n->n_out != 1) return refuse(p, "not an element formula");
    for (int i = 0; i < n->n_in; i++) {
        int r = reg_of(slots, n->in[i]);
        if (r < 0) return refuse(p, "a chain's values come from its inputs only");
        src[i] = (uint16_t)r;
    }
    int dst = free_reg(slots, p->n_in);
    if (dst < 0) return refuse(p, "too many values alive at once");
    const nc_value *y = n->out[0];
    if (!chain_value(p, y, y->uses.n > 0) || !add_node(p, n, dst, src)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (--slots[src[i]].uses_left == 0 && src[i] >= p->n_in) slots[src[i]].value = NULL;
    slots[dst] = (slot){.value = y, .uses_left = y->uses.n + y->n_outputs};
    return true;
}

static bool same_shape(const nc_type *a, const nc_type *b) {
    if (a == NULL || b == NULL || a->rank != b->rank || a->rank < 0) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static bool chain_program(nc_lane_prog *p, const nc_node *n) {
    const nc_graph *body = n->subs[0].graph;
    slot slots[NCK_TILE_MAX_REG] = {{0}};
    if (body->inputs.n != n->n_in || body->captures.n > 0 || body->consts.n > 0)
        return refuse(p, "a chain's values come from its inputs only");
    if (n->n_in >= NCK_TILE_MAX_REG) return refuse(p, "too many inputs for one pass");
    if (n->n_out > NCK_TILE_MAX_OUT || n->n_out != body->outputs.n) return refuse(p, "too many outputs for one pass");
    p->n_in = p->n_reg = n->n_in;
    p->n_out = n->n_out;
    for (int i = 0; i < n->n_in; i++) {
        slots[i].value = body->inputs.v[i];
        if (!chain_value(p, n->in[i], false)) return false;
    }
    for (const nc_node *k = body->first; k != NULL; k = k->next)
        if (!chain_node(p, slots, k)) return false;
    for (int i = 0; i < n->n_out; i++) {
        int r = reg_of(slots, body->outputs.v[i]);
        if (r < 0 || n->out[i] == NULL) return refuse(p, "an output is absent");
        if (i > 0 && !same_shape(n->out[0]->type, n->out[i]->type)) return refuse(p, "outputs differ in shape");
        p->out_reg[i] = (uint16_t)r;
    }
    if (p->compute == NC_UNDEFINED) p->compute = NC_INT64;
    return true;
}

nck_tile_prog nc_lane_prog_tile(const nc_lane_prog *p) {
    return (nck_tile_prog){.compute = p->compute,
                           .n_in = p->n_in,
                           .n_out = p->n_out,
                           .n_reg = p->n_reg,
                           .n_op = p->n_op,
                           .op = p->op,
                           .out_reg = p->out_reg};
}

bool nc_lane_prog_make(nc_lane_prog *p, const nc_node *n) {
    *p = (nc_lane_prog){0};
    if (!(n->card->lane > 0 ? node_program(p, n)
          : n->n_subs == 1  ? chain_program(p, n)
                            : refuse(p, "not an element formula")))
        return false;
    nck_tile_prog prog = nc_lane_prog_tile(p);
    return nck_tile_check(&prog) ? true : refuse(p, "the formula is for floats only");
}

nc_dtype nc_lane_compute(const nc_node *n) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->type->elem != NC_BOOL) return nck_tile_compute(n->in[i]->type->elem);
    return nck_tile_compute(NC_BOOL);
}
