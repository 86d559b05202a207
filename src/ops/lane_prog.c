/* ops/lane_prog.c: a node's lane, or the body of nacre.Chain, as a tile program: registers, compute type, refusals. A
 * variadic op folds its binary lane over the inputs from the left. Values inside a chain keep the compute type: they
 * are not rounded to a narrower float in between, and integers that would have to wrap there are refused. */
#include "ops/lane_prog.h"

#include "ops/lane.h"

#include <string.h>

static bool lane_prog_refuse(nc_lane_prog *p, const char *why) {
    p->why = why;
    return false;
}

/* Floats win over integers, double over float, signed over unsigned. */
static int weight(nc_dtype compute) {
    return compute == NC_DOUBLE ? 4 : compute == NC_FLOAT ? 3 : compute == NC_INT64 ? 2 : 1;
}

static bool join_compute(nc_lane_prog *p, const nc_value *v, nc_dtype *joined) {
    if (v == NULL) return lane_prog_refuse(p, "an absent input");
    if (v->type == NULL || v->type->kind != NC_T_TENSOR)
        return lane_prog_refuse(p, "an operand is not a tensor of known type");
    nc_dtype c = nck_tile_compute(v->type->elem);
    if (c == NC_UNDEFINED) return lane_prog_refuse(p, nc_dtype_name(v->type->elem));
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
        return lane_prog_refuse(p, "an int32 base under a float exponent");
    if (joined == NC_FLOAT && (out == NC_INT64 || out == NC_UINT64)) joined = NC_DOUBLE;
    p->compute = joined != NC_UNDEFINED ? joined : NC_INT64;
    return true;
}

static bool add_op(nc_lane_prog *p, int lane, int dst, const uint16_t *src, int n_src, const double *params) {
    if (p->n_op == NC_LANE_PROG_MAX_OPS) return lane_prog_refuse(p, "too many formulas in one chain");
    nck_tile_op *op = &p->op[p->n_op++];
    *op = (nck_tile_op){.lane = (uint16_t)lane, .dst = (uint16_t)dst};
    memcpy(op->src, src, (size_t)n_src * sizeof *src);
    memcpy(op->param, params, sizeof op->param);
    if (dst >= p->n_reg) p->n_reg = dst + 1;
    return true;
}

/* The lane of node n on the registers src, into dst. */
static bool add_node(nc_lane_prog *p, const nc_node *n, int dst, const uint16_t *src) {
    int number = nc_lane_number(n);
    const nck_lane_info *lane = number >= 0 ? nck_lane_get(number) : NULL;
    if (lane == NULL) return lane_prog_refuse(p, "not an element formula");
    double params[2];
    nc_lane_params(n, params);
    if (lane->n_in == n->n_in) return add_op(p, number, dst, src, n->n_in, params);
    if (lane->n_in != 2 || n->n_in < 1) return lane_prog_refuse(p, "the formula takes another number of inputs");
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
    if (n->n_in >= NCK_TILE_MAX_REG) return lane_prog_refuse(p, "too many inputs for one pass");
    if (nc_lane_trailing(n) != 0) return lane_prog_refuse(p, "broadcast along an axis in the middle");
    if (n->n_out != 1 || !compute_of_node(p, n))
        return p->why != NULL ? false : lane_prog_refuse(p, "one output is expected");
    for (int i = 0; i < n->n_in; i++) src[i] = (uint16_t)i;
    p->n_in = p->n_reg = n->n_in;
    p->n_out = 1;
    p->out_reg[0] = (uint16_t)n->n_in;
    return add_node(p, n, n->n_in, src);
}

/* ---- chains ---- */

/* Nodes that run as one program, the values that reach them and those that leave. */
typedef struct part {
    const nc_value *in[NCK_TILE_MAX_REG];
    const nc_node *nodes[NC_LANE_PROG_MAX_OPS];
    const nc_value *out[NCK_TILE_MAX_OUT];
    int n_in, n_nodes, n_out;
} part;

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

static int uses_inside(const part *c, const nc_value *v) {
    int n = 0;
    for (int k = 0; k < c->n_nodes; k++)
        for (int i = 0; i < c->nodes[k]->n_in; i++) n += c->nodes[k]->in[i] == v;
    return n;
}

static bool leaves(const part *c, const nc_value *v) {
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i] == v) return true;
    return false;
}

static bool chain_value(nc_lane_prog *p, const nc_value *v, bool inside) {
    nc_dtype c = NC_UNDEFINED;
    if (!join_compute(p, v, &c)) return false;
    if (c == NC_UNDEFINED) return true;
    if (p->compute != NC_UNDEFINED && p->compute != c) return lane_prog_refuse(p, "the chain mixes compute types");
    p->compute = c;
    if (inside && !nc_dtype_is_float(v->type->elem) && nc_dtype_bytes(v->type->elem) < 8)
        return lane_prog_refuse(p, "narrow integers inside a chain would have to wrap");
    return true;
}

static bool chain_node(nc_lane_prog *p, const part *c, slot *slots, const nc_node *n) {
    uint16_t src[NCK_TILE_MAX_REG];
    if (n->n_in > NCK_TILE_MAX_REG || n->n_out != 1) return lane_prog_refuse(p, "not an element formula");
    for (int i = 0; i < n->n_in; i++) {
        int r = reg_of(slots, n->in[i]);
        if (r < 0) return lane_prog_refuse(p, "a chain's values come from its inputs only");
        src[i] = (uint16_t)r;
    }
    int dst = free_reg(slots, p->n_in);
    if (dst < 0) return lane_prog_refuse(p, "too many values alive at once");
    const nc_value *y = n->out[0];
    int uses = uses_inside(c, y);
    if (!chain_value(p, y, uses > 0) || !add_node(p, n, dst, src)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (--slots[src[i]].uses_left == 0 && src[i] >= p->n_in) slots[src[i]].value = NULL;
    slots[dst] = (slot){.value = y, .uses_left = uses + leaves(c, y)};
    return true;
}

static bool chain_program(nc_lane_prog *p, const part *c) {
    slot slots[NCK_TILE_MAX_REG] = {{0}};
    p->n_in = p->n_reg = c->n_in;
    p->n_out = c->n_out;
    for (int i = 0; i < c->n_in; i++) {
        slots[i].value = c->in[i];
        if (!chain_value(p, c->in[i], false)) return false;
    }
    for (int k = 0; k < c->n_nodes; k++)
        if (!chain_node(p, c, slots, c->nodes[k])) return false;
    for (int i = 0; i < c->n_out; i++) {
        int r = reg_of(slots, c->out[i]);
        if (r < 0) return lane_prog_refuse(p, "an output is absent");
        p->out_reg[i] = (uint16_t)r;
    }
    if (p->compute == NC_UNDEFINED) p->compute = NC_INT64;
    return true;
}

static bool same_shape(const nc_type *a, const nc_type *b) {
    if (a == NULL || b == NULL || a->rank != b->rank || a->rank < 0) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static bool body_part(nc_lane_prog *p, const nc_graph *body, part *c) {
    *c = (part){0};
    if (body->captures.n > 0 || body->consts.n > 0)
        return lane_prog_refuse(p, "a chain's values come from its inputs only");
    if (body->inputs.n >= NCK_TILE_MAX_REG) return lane_prog_refuse(p, "too many inputs for one pass");
    if (body->outputs.n > NCK_TILE_MAX_OUT) return lane_prog_refuse(p, "too many outputs for one pass");
    if (body->n_nodes > NC_LANE_PROG_MAX_OPS) return lane_prog_refuse(p, "too many formulas in one chain");
    for (; c->n_in < body->inputs.n; c->n_in++) c->in[c->n_in] = body->inputs.v[c->n_in];
    for (const nc_node *k = body->first; k != NULL; k = k->next) c->nodes[c->n_nodes++] = k;
    for (; c->n_out < body->outputs.n; c->n_out++) c->out[c->n_out] = body->outputs.v[c->n_out];
    return true;
}

/* Do the node and its body agree? */
static bool chain_part(nc_lane_prog *p, const nc_node *n, part *c) {
    const nc_graph *body = n->subs[0].graph;
    if (body->inputs.n != n->n_in) return lane_prog_refuse(p, "a chain's values come from its inputs only");
    if (n->n_out != body->outputs.n) return lane_prog_refuse(p, "too many outputs for one pass");
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] == NULL) return lane_prog_refuse(p, "an output is absent");
        if (!same_shape(n->out[0]->type, n->out[i]->type)) return lane_prog_refuse(p, "outputs differ in shape");
    }
    return body_part(p, body, c);
}

/* What none of the nodes before made comes from outside. */
static bool add_input(part *c, const nc_value *v) {
    for (int i = 0; i < c->n_nodes; i++)
        if (c->nodes[i]->out[0] == v) return true;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] == v) return true;
    if (c->n_in + 1 >= NCK_TILE_MAX_REG) return false;
    c->in[c->n_in++] = v;
    return true;
}

static bool group_part(nc_lane_prog *p, nc_node *const *nodes, int n, part *c) {
    *c = (part){.n_out = 1, .out = {nodes[n - 1]->out[0]}};
    if (n > NC_LANE_PROG_MAX_OPS) return lane_prog_refuse(p, "too many formulas in one chain");
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < nodes[k]->n_in; i++)
            if (!add_input(c, nodes[k]->in[i])) return lane_prog_refuse(p, "too many inputs for one pass");
        c->nodes[c->n_nodes++] = nodes[k];
    }
    return true;
}

/* ---- all ---- */

nck_tile_prog nc_lane_prog_tile(const nc_lane_prog *p) {
    return (nck_tile_prog){.compute = p->compute,
                           .n_in = p->n_in,
                           .n_out = p->n_out,
                           .n_reg = p->n_reg,
                           .n_op = p->n_op,
                           .op = p->op,
                           .out_reg = p->out_reg};
}

static bool is_sound(nc_lane_prog *p) {
    nck_tile_prog prog = nc_lane_prog_tile(p);
    return nck_tile_check(&prog) ? true : lane_prog_refuse(p, "the formula is for floats only");
}

bool nc_lane_prog_make(nc_lane_prog *p, const nc_node *n) {
    part c;
    *p = (nc_lane_prog){0};
    if (n->card->lane > 0) return node_program(p, n) && is_sound(p);
    if (n->n_subs != 1) return lane_prog_refuse(p, "not an element formula");
    return chain_part(p, n, &c) && chain_program(p, &c) && is_sound(p);
}

bool nc_lane_prog_body(nc_lane_prog *p, const nc_graph *body) {
    part c;
    *p = (nc_lane_prog){0};
    return body_part(p, body, &c) && chain_program(p, &c) && is_sound(p);
}

bool nc_lane_prog_group(nc_lane_prog *p, nc_node *const *nodes, int n) {
    part c;
    *p = (nc_lane_prog){0};
    return group_part(p, nodes, n, &c) && chain_program(p, &c) && is_sound(p);
}

nc_code nc_lane_check(const nc_call *c) {
    const nc_tensor *y = c->out[0];
    for (int i = 0; i < c->n_in; i++) {
        const nc_tensor *x = c->in[i];
        for (int k = 1; k <= x->rank; k++) {
            int64_t have = x->dims[x->rank - k], want = k <= y->rank ? y->dims[y->rank - k] : 1;
            if (have != want && have != 1)
                return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                                   "input %d has a dim of %lld where %lld or 1 is expected", i, (long long)have,
                                   (long long)want);
        }
    }
    return NC_OK;
}
