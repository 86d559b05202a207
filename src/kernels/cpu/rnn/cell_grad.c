/* kernels/cpu/rnn/cell_grad.c: the elementwise part of a recurrent step backwards, as tile programs. Activations are
 * computed again from the gates' sums that were kept, together with their slopes. d before a name is a gradient. */
#include "kernels/cpu/rnn/cell.h"

#define CONST(v) nck_rnn_constant(p, v)
#define OP(lane, dst, a, b) nck_rnn_binary(p, NCK_LANE_##lane, dst, a, b)
#define OP1(lane, dst, a) nck_rnn_unary(p, NCK_LANE_##lane, dst, a, 0)

/* slope = f'(x), where y = f(x) is known if the formula is one of y. t is overwritten. */
static void slope_of(nck_rnn_prog *p, const nck_rnn_act *f, uint16_t x, uint16_t y, uint16_t slope, uint16_t t) {
    switch (f->fn) {
    case NCK_RNN_TANH:
        OP(mul, slope, y, y);
        OP(sub, slope, CONST(1), slope);
        break;
    case NCK_RNN_SIGMOID:
        OP(sub, slope, CONST(1), y);
        OP(mul, slope, slope, y);
        break;
    case NCK_RNN_RELU: OP(greater, slope, x, CONST(0)); break;
    case NCK_RNN_AFFINE: OP1(identity, slope, CONST(f->alpha)); break;
    case NCK_RNN_LEAKY_RELU:
        OP(less, t, x, CONST(0));
        nck_rnn_choose(p, slope, t, CONST(f->alpha), CONST(1));
        break;
    case NCK_RNN_THRESHOLDED: OP(greater, slope, x, CONST(f->alpha)); break;
    case NCK_RNN_SCALED_TANH:
        OP(mul, slope, x, CONST(f->beta));
        OP1(tanh, slope, slope);
        OP(mul, slope, slope, slope);
        OP(sub, slope, CONST(1), slope);
        OP(mul, slope, slope, CONST(f->alpha * f->beta));
        break;
    case NCK_RNN_HARD_SIGMOID: /* f is between its ends */
        OP(greater, t, y, CONST(0));
        OP(less, slope, y, CONST(1));
        OP(mul, slope, slope, t);
        OP(mul, slope, slope, CONST(f->alpha));
        break;
    case NCK_RNN_ELU:
        OP(less, t, x, CONST(0));
        OP1(exp, slope, x);
        OP(mul, slope, slope, CONST(f->alpha));
        nck_rnn_choose(p, slope, t, slope, CONST(1));
        break;
    case NCK_RNN_SOFTSIGN:
        OP1(abs, t, x);
        OP(add, t, t, CONST(1));
        OP(mul, t, t, t);
        OP1(reciprocal, slope, t);
        break;
    case NCK_RNN_SOFTPLUS: OP1(sigmoid, slope, x); break;
    }
}

/* y = f(x), slope = f'(x) of the rule's activation; x stays, t is overwritten. A clipped sum passes nothing on.
 */
static void activate(nck_rnn_prog *p, const nck_rnn_rule *rule, int i_act, uint16_t x, uint16_t y, uint16_t slope,
                     uint16_t t) {
    bool clips = rule->clip != 0 && i_act < 2;
    OP1(identity, y, x);
    nck_rnn_activate(p, rule, i_act, y, t);
    slope_of(p, &rule->act[i_act], x, y, slope, t);
    if (!clips) return;
    OP1(abs, t, x);
    OP(less_or_equal, t, t, CONST(rule->clip));
    nck_rnn_choose(p, slope, t, slope, CONST(0));
}

/* in: the gate, dH. out: dgate */
static void rnn_back(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    enum { G, DH };
    *p = (nck_rnn_prog){.n_tensors = 2, .n_out = 1};
    uint16_t t = nck_rnn_temp(p), y = nck_rnn_temp(p), slope = nck_rnn_temp(p);
    activate(p, rule, 0, G, y, slope, t);
    OP(mul, slope, slope, DH);
    p->out[0] = slope;
}

/* in: z, h, H, dH', then with linear_before_reset r and the recurrent part of h. H' = (1 - z) * h + z * H.
 * out: dz, dh, dH, and then dr and the gradient of the recurrent part. */
static void gru_back(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    enum { Z, N, H, DH, R, REC };
    bool before = rule->linear_before_reset;
    *p = (nck_rnn_prog){.n_tensors = before ? 6 : 4, .n_out = before ? 5 : 3};
    uint16_t t = nck_rnn_temp(p), z = nck_rnn_temp(p), n = nck_rnn_temp(p), slope = nck_rnn_temp(p), r = 0, r_slope = 0;
    if (before) {
        r = nck_rnn_temp(p), r_slope = nck_rnn_temp(p);
        activate(p, rule, 0, R, r, r_slope, t);
        nck_rnn_multiply_add(p, N, r, REC, N, t);
    }
    activate(p, rule, 1, N, n, slope, t);
    activate(p, rule, 0, Z, z, N, t); /* N: the slope of z */
    OP(sub, t, CONST(1), z);
    OP(mul, t, t, DH);
    OP(mul, slope, slope, t); /* dn */
    OP(sub, t, H, n);
    OP(mul, t, t, DH);
    OP(mul, N, N, t);  /* dz */
    OP(mul, z, z, DH); /* what of dH' goes on to dH */
    p->out[0] = N, p->out[1] = slope, p->out[2] = z;
    if (!before) return;
    OP(mul, REC, REC, slope);
    OP(mul, r_slope, r_slope, REC); /* dr */
    OP(mul, r, r, slope);           /* of the recurrent part */
    p->out[3] = r_slope, p->out[4] = r;
}

/* in: r, H, the gradient of r * H, dH. out: dr, dH with what came through r * H */
static void reset_back(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    enum { R, H, DRH, DH };
    *p = (nck_rnn_prog){.n_tensors = 4, .n_out = 2};
    uint16_t t = nck_rnn_temp(p), r = nck_rnn_temp(p), slope = nck_rnn_temp(p);
    activate(p, rule, 0, R, r, slope, t);
    OP(mul, t, DRH, H);
    OP(mul, slope, slope, t);
    nck_rnn_multiply_add(p, DH, DRH, r, DH, t);
    p->out[0] = slope, p->out[1] = DH;
}

enum { GI, GO, GF, GC, C, C_NEW, DH, DC, PI, PO, PF };

/* dC' into DC, do into GO: H' = o * h(C'). */
static void lstm_back_output(nck_rnn_prog *p, const nck_rnn_rule *rule, uint16_t y, uint16_t slope, uint16_t t,
                             uint16_t u) {
    if (rule->peepholes) nck_rnn_multiply_add(p, GO, PO, C_NEW, GO, t);
    activate(p, rule, 2, C_NEW, y, slope, t);
    OP(mul, y, y, DH);         /* of o */
    OP(mul, slope, slope, DH); /* of C', still times o */
    OP1(identity, u, GO);
    activate(p, rule, 0, u, DH, GO, t); /* DH: o, GO: its slope */
    nck_rnn_multiply_add(p, DC, slope, DH, DC, t);
    OP(mul, GO, GO, y);
    if (rule->peepholes) nck_rnn_multiply_add(p, DC, GO, PO, DC, t);
}

/* in: the gates' sums, C, C', dH', dC', then peepholes of i, o, f. C' = f * C + i * c.
 * out: di, do, df, dc, dC; with input_forget f = 1 - i and df = 0 */
static void lstm_back(nck_rnn_prog *p, const nck_rnn_rule *rule) {
    *p = (nck_rnn_prog){.n_tensors = rule->peepholes ? 11 : 8, .n_out = 5, .out = {GI, GO, GF, GC, DC}};
    uint16_t t = nck_rnn_temp(p), y = nck_rnn_temp(p), slope = nck_rnn_temp(p), u = nck_rnn_temp(p);
    lstm_back_output(p, rule, y, slope, t, u);
    activate(p, rule, 1, GC, y, slope, t); /* y: c, u: its gradient but for i */
    OP(mul, u, slope, DC);
    if (rule->peepholes) nck_rnn_multiply_add(p, GI, PI, C, GI, t);
    if (rule->peepholes) nck_rnn_multiply_add(p, GF, PF, C, GF, t);
    activate(p, rule, 0, GI, DH, slope, t); /* DH: i */
    OP(mul, GC, u, DH);
    OP(mul, y, y, DC);
    OP(mul, C, C, DC);
    if (rule->input_forget) {
        OP(sub, y, y, C);
        OP(mul, GI, slope, y);
        OP(sub, u, CONST(1), DH); /* f */
        OP1(identity, GF, CONST(0));
    } else {
        OP(mul, GI, slope, y);
        activate(p, rule, 0, GF, u, slope, t);
        OP(mul, GF, slope, C);
    }
    OP(mul, DC, DC, u);
    if (!rule->peepholes) return;
    nck_rnn_multiply_add(p, DC, GI, PI, DC, t);
    if (!rule->input_forget) nck_rnn_multiply_add(p, DC, GF, PF, DC, t);
}

void nck_rnn_cell_grad_init(nck_rnn_cell_grad *c, const nck_rnn_rule *rule) {
    *c = (nck_rnn_cell_grad){.step = {.n_op = 0}};
    if (rule->kind == NCK_RNN) rnn_back(&c->step, rule);
    if (rule->kind == NCK_LSTM) lstm_back(&c->step, rule);
    if (rule->kind == NCK_GRU) {
        bool before = rule->linear_before_reset;
        gru_back(before ? &c->step : &c->first, rule);
        if (!before) reset_back(&c->step, rule);
    }
    if (c->first.n_op > 0) nck_rnn_prog_finish(&c->first);
    nck_rnn_prog_finish(&c->step);
}
