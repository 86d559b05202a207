/* ops/matmul/after.c: the body of a product, see after.h. */
#include "ops/matmul/after.h"

static bool reads_twice(const nc_lane_prog *p, int reg) {
    int n = p->out_reg[0] == reg;
    for (int i = 0; i < p->n_op; i++)
        for (int k = 0; k < nck_lane_get(p->op[i].lane)->n_in; k++) n += p->op[i].src[k] == reg;
    return n > 1;
}

/* What `reg` is called when the input `gone` and the sum `sum` are not there: the product stands for the sum. */
static uint16_t renamed(uint16_t reg, int gone, int sum) {
    uint16_t now = reg == sum ? 0 : reg;
    return now > gone ? (uint16_t)(now - 1) : now;
}

/* Finds a first formula that adds an input to the product, both of which nobody else reads, and the body without it. */
static void split_bias(nc_product_body *b) {
    const nc_lane_prog *p = &b->lanes;
    const nck_tile_op *add = &p->op[0];
    if (p->n_op == 0 || add->lane != NCK_LANE_add || (add->src[0] != 0 && add->src[1] != 0)) return;
    int bias = add->src[0] + add->src[1], sum = add->dst;
    if (bias == 0 || bias >= p->n_in || reads_twice(p, bias) || reads_twice(p, 0)) return;
    b->rest = *p;
    b->rest.n_in--, b->rest.n_reg--, b->rest.n_op--;
    for (int i = 0; i < b->rest.n_op; i++) {
        nck_tile_op op = p->op[i + 1];
        for (int k = 0; k < 3; k++) op.src[k] = renamed(op.src[k], bias, sum);
        if (op.dst == sum) sum = -1; /* from here on it holds another value */
        op.dst = renamed(op.dst, bias, -1);
        b->rest.op[i] = op;
    }
    b->rest.out_reg[0] = renamed(p->out_reg[0], bias, sum);
    b->then = nc_lane_prog_tile(&b->rest);
    b->bias = bias;
}

nc_code nc_product_body_read(nc_prep *p, int first, const nc_product_body **out) {
    const nc_node *n = p->node;
    *out = NULL;
    if (n->n_subs == 0) return NC_OK;
    nc_product_body *b = nc_arena_alloc(p->arena, sizeof *b);
    NC_NEED(p->w, b);
    if (!nc_lane_prog_body(&b->lanes, n->subs[0].graph))
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "no tile program: %s", b->lanes.why);
    if (b->lanes.compute != NC_FLOAT || b->lanes.n_out != 1 || b->lanes.n_in != n->n_in - first + 1)
        NC_FAIL(p->w, NC_E_BAD_GRAPH, "the body needs one output and an input per input of the node from %d on", first);
    if (b->lanes.n_in > NCK_GEMM_AFTER_IN)
        NC_FAIL(p->w, NC_E_UNSUPPORTED, "the body has %d inputs, at most %d are possible", b->lanes.n_in,
                NCK_GEMM_AFTER_IN);
    b->prog = nc_lane_prog_tile(&b->lanes);
    b->first = first;
    b->bias = 0;
    split_bias(b);
    *out = b;
    return NC_OK;
}

/* Sums are put on top of a bias where they are not joined through C, and where there is no other. */
static const nc_tensor *bias_of(const nc_product_body *b, const nc_call *c, const nck_gemm_args *g) {
    const nc_tensor *t = b->bias ? c->in[b->first + b->bias - 1] : NULL;
    bool fits = t != NULL && g->bias == NULL && g->alpha == 1 && g->beta == 0 && g->K <= NCK_GEMM_KC;
    return fits && nc_tensor_numel(t) == g->N && g->N > 1 ? t : NULL;
}

void nc_product_after(const nc_product_body *b, const nc_call *c, nck_gemm_args *g, nck_gemm_after *after) {
    if (b == NULL) return;
    const nc_tensor *bias = bias_of(b, c, g);
    if (bias != NULL) g->bias = bias->data, g->bias_rs = 0, g->bias_cs = 1;
    after->prog = bias != NULL ? &b->then : &b->prog;
    for (int i = 1; i < after->prog->n_in; i++) {
        const nc_tensor *t = c->in[b->first - 1 + (bias != NULL && i >= b->bias ? i + 1 : i)];
        int64_t n = nc_tensor_numel(t), all = nc_tensor_numel(c->out[0]);
        after->in[i] = (nck_gemm_operand){.data = t->data, .rs = n == all ? g->N : 0, .cs = n == 1 ? 0 : 1};
    }
    g->after = after->prog->n_op > 0 ? after : NULL;
}
