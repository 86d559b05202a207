/* kernels/cpu/rnn/cell.c: the elementwise part of a recurrent step as tile programs, made once per layer from its
 * activations. Lane functions without a lane of their own are put together from others and constants. */
#include "kernels/cpu/rnn/cell.h"

enum { CONSTANT = 0x100, TEMP = 0x200, MARKS = 0x300 };

uint16_t nck_rnn_constant(nck_rnn_prog *p, double v) {
    int i = 0;
    while (i < p->n_consts && p->k[i] != v) i++;
    if (i == p->n_consts) p->k[p->n_consts++] = v;
    return (uint16_t)(CONSTANT + i);
}

uint16_t nck_rnn_temp(nck_rnn_prog *p) { return (uint16_t)(TEMP + p->n_temps++); }

void nck_rnn_unary(nck_rnn_prog *p, nck_lane lane, uint16_t dst, uint16_t a, double param) {
    p->op[p->n_op++] = (nck_tile_op){.lane = (uint16_t)lane, .dst = dst, .src = {a, a, a}, .param = {param}};
}

void nck_rnn_binary(nck_rnn_prog *p, nck_lane lane, uint16_t dst, uint16_t a, uint16_t b) {
    p->op[p->n_op++] = (nck_tile_op){.lane = (uint16_t)lane, .dst = dst, .src = {a, b, b}};
}

void nck_rnn_choose(nck_rnn_prog *p, uint16_t dst, uint16_t which, uint16_t yes, uint16_t no) {
    p->op[p->n_op++] = (nck_tile_op){.lane = NCK_LANE_where, .dst = dst, .src = {which, yes, no}};
}

void nck_rnn_multiply_add(nck_rnn_prog *p, uint16_t x, uint16_t a, uint16_t b, uint16_t c, uint16_t t) {
    nck_rnn_binary(p, NCK_LANE_mul, t, a, b);
    nck_rnn_binary(p, NCK_LANE_add, x, t, c);
}

void nck_rnn_activate(nck_rnn_prog *p, const nck_rnn_rule *rule, int i_act, uint16_t x, uint16_t t) {
    const nck_rnn_act *f = &rule->act[i_act];
    if (rule->clip != 0 && i_act < 2) {
        nck_rnn_binary(p, NCK_LANE_min, x, x, nck_rnn_constant(p, rule->clip));
        nck_rnn_binary(p, NCK_LANE_max, x, x, nck_rnn_constant(p, -rule->clip));
    }
    switch (f->fn) {
    case NCK_RNN_TANH: nck_rnn_unary(p, NCK_LANE_tanh, x, x, 0); break;
    case NCK_RNN_SIGMOID: nck_rnn_unary(p, NCK_LANE_sigmoid, x, x, 0); break;
    case NCK_RNN_RELU: nck_rnn_unary(p, NCK_LANE_relu, x, x, 0); break;
    case NCK_RNN_LEAKY_RELU: nck_rnn_unary(p, NCK_LANE_leaky_relu, x, x, f->alpha); break;
    case NCK_RNN_ELU: nck_rnn_unary(p, NCK_LANE_elu, x, x, f->alpha); break;
    case NCK_RNN_SOFTPLUS: nck_rnn_unary(p, NCK_LANE_softplus, x, x, 0); break;
    case NCK_RNN_AFFINE:
        nck_rnn_multiply_add(p, x, x, nck_rnn_constant(p, f->alpha), nck_rnn_constant(p, f->beta), t);
        break;
    case NCK_RNN_THRESHOLDED: /* a comparison is 1 or 0; NaN fails it */
        nck_rnn_binary(p, NCK_LANE_greater, t, x, nck_rnn_constant(p, f->alpha));
        nck_rnn_choose(p, x, t, x, nck_rnn_constant(p, 0));
        break;
    case NCK_RNN_SCALED_TANH:
        nck_rnn_binary(p, NCK_LANE_mul, x, x, nck_rnn_constant(p, f->beta));
        nck_rnn_unary(p, NCK_LANE_tanh, x, x, 0);
        nck_rnn_binary(p, NCK_LANE_mul, x, x, nck_rnn_constant(p, f->alpha));
        break;
    case NCK_RNN_HARD_SIGMOID:
        nck_rnn_multiply_add(p, x, x, nck_rnn_constant(p, f->alpha), nck_rnn_constant(p, f->beta), t);
        nck_rnn_binary(p, NCK_LANE_max, x, x, nck_rnn_constant(p, 0));
        nck_rnn_binary(p, NCK_LANE_min, x, x, nck_rnn_constant(p, 1));
        break;
    case NCK_RNN_SOFTSIGN:
        nck_rnn_unary(p, NCK_LANE_abs, t, x, 0);
        nck_rnn_binary(p, NCK_LANE_add, t, t, nck_rnn_constant(p, 1));
        nck_rnn_binary(p, NCK_LANE_div, x, x, t);
        break;
    }
}

static uint16_t cell_place(const nck_rnn_prog *p, uint16_t reg) {
    int at = reg & ~MARKS;
    if (reg & CONSTANT) at += p->n_tensors;
    if (reg & TEMP) at += p->n_tensors + p->n_consts;
    return (uint16_t)at;
}

void nck_rnn_prog_finish(nck_rnn_prog *p) {
    for (int i = 0; i < p->n_op; i++) {
        p->op[i].dst = cell_place(p, p->op[i].dst);
        for (int k = 0; k < 3; k++) p->op[i].src[k] = cell_place(p, p->op[i].src[k]);
    }
    for (int i = 0; i < p->n_out; i++) p->out[i] = cell_place(p, p->out[i]);
}

/* in: the gate. out: H'. */
static void rnn_step(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    *p = (nck_rnn_prog){.n_tensors = 1, .n_out = 1, .out = {0}};
    nck_rnn_activate(p, rule, 0, 0, nck_rnn_temp(p));
}

/* in: r, H. out: r * H */
static void gru_reset(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    *p = (nck_rnn_prog){.n_tensors = 2, .n_out = 1, .out = {0}};
    nck_rnn_activate(p, rule, 0, 0, nck_rnn_temp(p));
    nck_rnn_binary(p, NCK_LANE_mul, 0, 0, 1);
}

/* in: z, h, H, then with linear_before_reset r and the recurrent part of h. out: H' = (1 - z) * h + z * H */
static void cell_gru_step(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    enum { Z, N, H, R, REC };
    *p = (nck_rnn_prog){.n_tensors = rule->linear_before_reset ? 5 : 3, .n_out = 1};
    uint16_t t = nck_rnn_temp(p);
    nck_rnn_activate(p, rule, 0, Z, t);
    if (rule->linear_before_reset) {
        nck_rnn_activate(p, rule, 0, R, t);
        nck_rnn_multiply_add(p, N, R, REC, N, t);
    }
    nck_rnn_activate(p, rule, 1, N, t);
    nck_rnn_binary(p, NCK_LANE_sub, t, nck_rnn_constant(p, 1), Z);
    nck_rnn_binary(p, NCK_LANE_mul, N, t, N);
    nck_rnn_binary(p, NCK_LANE_mul, Z, Z, H);
    nck_rnn_binary(p, NCK_LANE_add, N, N, Z);
    p->out[0] = N;
}

/* in: i, o, f, c, C, then peepholes of i, o, f. out: H', C' */
static void lstm_step(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    enum { GI, GO, GF, GC, C, PI, PO, PF };
    *p = (nck_rnn_prog){.n_tensors = rule->peepholes ? 8 : 5, .n_out = 2};
    uint16_t t = nck_rnn_temp(p), h = nck_rnn_temp(p);
    if (rule->peepholes) nck_rnn_multiply_add(p, GI, PI, C, GI, t);
    nck_rnn_activate(p, rule, 0, GI, t);
    if (rule->input_forget) {
        nck_rnn_binary(p, NCK_LANE_sub, GF, nck_rnn_constant(p, 1), GI);
    } else {
        if (rule->peepholes) nck_rnn_multiply_add(p, GF, PF, C, GF, t);
        nck_rnn_activate(p, rule, 0, GF, t);
    }
    nck_rnn_activate(p, rule, 1, GC, t);
    nck_rnn_binary(p, NCK_LANE_mul, GF, GF, C);
    nck_rnn_multiply_add(p, C, GI, GC, GF, t);
    if (rule->peepholes) nck_rnn_multiply_add(p, GO, PO, C, GO, t);
    nck_rnn_activate(p, rule, 0, GO, t);
    nck_rnn_unary(p, NCK_LANE_identity, h, C, 0);
    nck_rnn_activate(p, rule, 2, h, t);
    nck_rnn_binary(p, NCK_LANE_mul, h, GO, h);
    p->out[0] = h;
    p->out[1] = C;
}

void nck_rnn_cell_init(nck_rnn_cell *c, const nck_rnn_rule *rule) {
    *c = (nck_rnn_cell){.rule = *rule};
    if (rule->kind == NCK_RNN) rnn_step(&c->step, rule);
    if (rule->kind == NCK_GRU) cell_gru_step(&c->step, rule);
    if (rule->kind == NCK_LSTM) lstm_step(&c->step, rule);
    if (rule->kind == NCK_GRU && !rule->linear_before_reset) gru_reset(&c->reset, rule);
    if (c->reset.n_op > 0) nck_rnn_prog_finish(&c->reset);
    nck_rnn_prog_finish(&c->step);
}

void nck_rnn_prog_run(const nck_rnn_prog *p, const nc_tensor *const *in, const nc_tensor *out, nc_pool *pool) {
    nc_tensor consts[NCK_RNN_MAX_CONSTS];
    for (int i = 0; i < p->n_consts; i++) nc_tensor_set(&consts[i], (void *)(uintptr_t)&p->k[i], NC_DOUBLE, 0);
    nck_tile_prog prog = {.compute = out[0].dtype,
                          .n_in = p->n_tensors + p->n_consts,
                          .n_out = p->n_out,
                          .n_reg = p->n_tensors + p->n_consts + p->n_temps,
                          .n_op = p->n_op,
                          .op = p->op,
                          .out_reg = p->out};
    nc_tensor *p_in[NCK_RNN_MAX_IN + NCK_RNN_MAX_CONSTS], *p_out[NCK_TILE_MAX_OUT];
    for (int i = 0; i < p->n_tensors; i++) p_in[i] = (nc_tensor *)(uintptr_t)in[i];
    for (int i = 0; i < p->n_consts; i++) p_in[p->n_tensors + i] = &consts[i];
    for (int i = 0; i < prog.n_out; i++) p_out[i] = (nc_tensor *)(uintptr_t)&out[i];
    nck_tile_run(&prog, p_in, p_out, pool);
}
