/* ops/rnn/rnn_parts.c: recurrent layers as Loops of simple ops, one per direction, so that what their kernels compute
 * can be differentiated again and again. Time comes first here; what runs backwards is turned round before and behind
 * its Loop, each row within its own length. */
#include "ops/control/control.h"
#include "ops/rnn/rnn.h"

enum { MAX_GATES = 4 };

/* One direction: its slices of the operands, and of the whole layer. */
typedef struct direction {
    nc_builder *b;
    const nck_rnn_rule *rule;
    bool reverse;
    int G;
    nc_dtype type;
    nc_value *x, *w, *r, *wb, *rb; /* (T,B,I), (GH,I), (GH,H), (GH): biases may be NULL */
    nc_value *lens, *h0, *c0, *p;  /* (B) of int64, (B,H), (B,H), (3H): may be NULL */
    nc_value *y, *y_h, *y_c;
} direction;

static nc_value *op2(nc_builder *b, const char *op, nc_value *x, nc_value *y) { return nc_build1(b, op, 2, x, y); }

static nc_value *op_alpha(nc_builder *b, const char *op, nc_value *x, const nck_rnn_act *f, int n) {
    nc_attr attrs[2] = {{.name = "alpha", .kind = NC_A_FLOAT, .f = (float)f->alpha},
                        {.name = "beta", .kind = NC_A_FLOAT, .f = (float)f->beta}};
    return nc_build_attr1(b, "", op, &x, 1, attrs, n);
}

static nc_value *activated(nc_builder *b, const direction *d, int i_act, nc_value *x) {
    const nck_rnn_act *f = &d->rule->act[i_act];
    nc_value *alpha = nc_build_scalar(b, d->type, f->alpha), *beta = nc_build_scalar(b, d->type, f->beta);
    double clip = d->rule->clip;
    if (clip != 0 && i_act < 2)
        x = nc_build1(b, "Clip", 3, x, nc_build_scalar(b, d->type, -clip), nc_build_scalar(b, d->type, clip));
    switch (f->fn) {
    case NCK_RNN_TANH: return nc_build1(b, "Tanh", 1, x);
    case NCK_RNN_SIGMOID: return nc_build1(b, "Sigmoid", 1, x);
    case NCK_RNN_RELU: return nc_build1(b, "Relu", 1, x);
    case NCK_RNN_AFFINE: return op2(b, "Add", op2(b, "Mul", x, alpha), beta);
    case NCK_RNN_LEAKY_RELU: return op_alpha(b, "LeakyRelu", x, f, 1);
    case NCK_RNN_THRESHOLDED: return op_alpha(b, "ThresholdedRelu", x, f, 1);
    case NCK_RNN_SCALED_TANH: return op2(b, "Mul", alpha, nc_build1(b, "Tanh", 1, op2(b, "Mul", x, beta)));
    case NCK_RNN_HARD_SIGMOID: return op_alpha(b, "HardSigmoid", x, f, 2);
    case NCK_RNN_ELU: return op_alpha(b, "Elu", x, f, 1);
    case NCK_RNN_SOFTSIGN: return nc_build1(b, "Softsign", 1, x);
    case NCK_RNN_SOFTPLUS: return nc_build1(b, "Softplus", 1, x);
    }
    return NULL;
}

/* Part i of n equal ones along the last axis. */
static nc_value *piece(nc_builder *b, nc_value *x, int i, int n, int axis) {
    nc_attr attrs[2] = {{.name = "axis", .kind = NC_A_INT, .i = axis},
                        {.name = "num_outputs", .kind = NC_A_INT, .i = n}};
    if (x == NULL || n == 1) return x;
    nc_node *split = nc_build(b, "", "Split", &x, 1, n, attrs, 2);
    return split != NULL ? split->out[i] : NULL;
}

/* A value of the graph around, in the body. */
static nc_value *seen(nc_builder *b, nc_value *v) { return v != NULL ? nc_edit_reach(b->graph, v) : NULL; }

static nc_value *one_minus(nc_builder *b, const direction *d, nc_value *x) {
    return op2(b, "Sub", nc_build_scalar(b, d->type, 1), x);
}

/* ---- a step: xw (B, GH) is the inputs' part of the sums ---- */

static nc_value *plus_state(nc_builder *b, const direction *d, nc_value *xw, nc_value *h) {
    return op2(b, "Add", xw, op2(b, "MatMul", h, nc_build_swap_last(b, seen(b, d->r))));
}

static nc_value *gru_part(nc_builder *b, const direction *d, nc_value *xw, nc_value *h) {
    nc_value *r_weights = seen(b, d->r), *rows[3], *x[3];
    for (int i = 0; i < 3; i++) {
        rows[i] = nc_build_swap_last(b, piece(b, r_weights, i, 3, 0));
        x[i] = piece(b, xw, i, 3, -1);
    }
    nc_value *z = activated(b, d, 0, op2(b, "Add", x[0], op2(b, "MatMul", h, rows[0])));
    nc_value *r = activated(b, d, 0, op2(b, "Add", x[1], op2(b, "MatMul", h, rows[1])));
    nc_value *rec;
    if (d->rule->linear_before_reset) {
        rec = op2(b, "MatMul", h, rows[2]);
        if (d->rb != NULL) rec = op2(b, "Add", rec, piece(b, seen(b, d->rb), 2, 3, 0));
        rec = op2(b, "Mul", r, rec);
    } else {
        rec = op2(b, "MatMul", op2(b, "Mul", r, h), rows[2]);
    }
    nc_value *n = activated(b, d, 1, op2(b, "Add", x[2], rec));
    return op2(b, "Add", op2(b, "Mul", one_minus(b, d, z), n), op2(b, "Mul", z, h));
}

/* x plus the peephole at the cell. */
static nc_value *peek(nc_builder *b, const direction *d, nc_value *x, int i, nc_value *c) {
    return d->p != NULL ? op2(b, "Add", x, op2(b, "Mul", piece(b, seen(b, d->p), i, 3, 0), c)) : x;
}

static nc_value *lstm_part(nc_builder *b, const direction *d, nc_value *xw, nc_value *h, nc_value *c,
                           nc_value **c_new) {
    nc_value *sums = plus_state(b, d, xw, h), *x[MAX_GATES];
    for (int i = 0; i < MAX_GATES; i++) x[i] = piece(b, sums, i, MAX_GATES, -1);
    nc_value *i = activated(b, d, 0, peek(b, d, x[0], 0, c));
    nc_value *f = d->rule->input_forget ? one_minus(b, d, i) : activated(b, d, 0, peek(b, d, x[2], 2, c));
    *c_new = op2(b, "Add", op2(b, "Mul", f, c), op2(b, "Mul", i, activated(b, d, 1, x[3])));
    nc_value *o = activated(b, d, 0, peek(b, d, x[1], 1, *c_new));
    return op2(b, "Mul", o, activated(b, d, 2, *c_new));
}

/* out: the states of the next step, then the output. Rows that are over keep their states and give 0. */
static void step(nc_builder *b, const direction *d, nc_value *xw, nc_value *iter, nc_value *const *state,
                 nc_value **out) {
    nc_value *h = state[0], *h_new, *c_new = NULL;
    int n = d->rule->kind == NCK_LSTM ? 2 : 1;
    if (d->rule->kind == NCK_LSTM)
        h_new = lstm_part(b, d, xw, h, state[1], &c_new);
    else if (d->rule->kind == NCK_GRU)
        h_new = gru_part(b, d, xw, h);
    else
        h_new = activated(b, d, 0, plus_state(b, d, xw, h));
    out[0] = out[n] = h_new;
    if (n == 2) out[1] = c_new;
    if (d->lens == NULL) return;
    const int64_t last = 1;
    nc_value *runs = op2(b, "Less", iter, seen(b, d->lens));
    runs = nc_build1(b, "Unsqueeze", 2, runs, nc_build_ints(b, &last, 1));
    out[0] = nc_build1(b, "Where", 3, runs, h_new, h);
    if (n == 2) out[1] = nc_build1(b, "Where", 3, runs, c_new, state[1]);
    out[n] = nc_build1(b, "Where", 3, runs, h_new, nc_build_scalar(b, d->type, 0));
}

/* ---- a direction ---- */

/* (T,B,...) from its end to its start, each row within its length. */
static nc_value *turned(const direction *d, nc_value *x) {
    nc_builder *b = d->b;
    if (!d->reverse) return x;
    if (d->lens != NULL) {
        nc_attr axes[2] = {{.name = "batch_axis", .kind = NC_A_INT, .i = 1},
                           {.name = "time_axis", .kind = NC_A_INT, .i = 0}};
        nc_value *in[2] = {x, d->lens};
        return nc_build_attr1(b, "", "ReverseSequence", in, 2, axes, 2);
    }
    const int64_t last = -1, end = INT64_MIN, axis = 0;
    return nc_build1(b, "Slice", 5, x, nc_build_ints(b, &last, 1), nc_build_ints(b, &end, 1),
                     nc_build_ints(b, &axis, 1), nc_build_ints(b, &last, 1));
}

/* x W' + Wb, and Rb but where r scales it. */
static nc_value *input_part(const direction *d) {
    nc_builder *b = d->b;
    nc_value *xw = op2(b, "MatMul", turned(d, d->x), nc_build_swap_last(b, d->w)), *rb = d->rb;
    if (d->wb == NULL) return xw;
    if (d->rule->kind == NCK_GRU && d->rule->linear_before_reset) {
        nc_value *none = op2(b, "Mul", piece(b, rb, 2, 3, 0), nc_build_scalar(b, d->type, 0));
        nc_value *in[3] = {piece(b, rb, 0, 3, 0), piece(b, rb, 1, 3, 0), none};
        nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
        rb = nc_build_attr1(b, "", "Concat", in, 3, &axis, 1);
    }
    return op2(b, "Add", xw, op2(b, "Add", d->wb, rb));
}

/* Zeros (B,H). */
static nc_value *no_state(const direction *d) {
    nc_builder *b = d->b;
    const int64_t one = 1;
    nc_attr axis = {.name = "axis", .kind = NC_A_INT, .i = 0};
    nc_value *at = nc_build_ints(b, &one, 1);
    nc_value *in[2] = {op2(b, "Gather", nc_build_shape(b, d->x), at), op2(b, "Gather", nc_build_shape(b, d->r), at)};
    return op2(b, "Expand", nc_build_scalar(b, d->type, 0), nc_build_attr1(b, "", "Concat", in, 2, &axis, 1));
}

static nc_code run_direction(direction *d) {
    nc_builder *b = d->b;
    nc_control_loop l;
    int n = d->rule->kind == NCK_LSTM ? 2 : 1;
    nc_value *xw = input_part(d), *out[3], *state[2];
    state[0] = d->h0 != NULL ? d->h0 : no_state(d);
    state[1] = n < 2 ? NULL : d->c0 != NULL ? d->c0 : no_state(d);
    nc_value *steps = op2(b, "Gather", nc_build_shape(b, d->x), nc_build_int(b, 0));
    NC_TRY(b->code);
    NC_TRY(nc_control_loop_begin(b, steps, state, n, 1, &l));
    step(&l.b, d, op2(&l.b, "Gather", seen(&l.b, xw), l.iter), l.iter, l.carried, out);
    NC_TRY(l.b.code);
    NC_TRY(nc_control_loop_end(b, &l, out));
    d->y_h = l.node->out[0];
    d->y_c = n == 2 ? l.node->out[1] : NULL;
    d->y = turned(d, l.node->out[n]);
    return b->code;
}

/* ---- the layer ---- */

/* Slice d of n along the first axis, which goes. */
static nc_value *of_direction(nc_builder *b, nc_value *x, int d) {
    return x != NULL ? op2(b, "Gather", x, nc_build_int(b, d)) : NULL;
}

static nc_value *swapped(nc_builder *b, nc_value *x, const nc_rnn_attrs *a) {
    const int64_t perm[3] = {1, 0, 2};
    return x != NULL && a->batch_first ? nc_build_transpose(b, x, perm, 3) : x;
}

static void read_direction(direction *d, const nc_rnn_attrs *a, nc_value *const *in, int i) {
    nc_builder *b = d->b;
    nc_value *bias = of_direction(b, in[NC_RNN_B], i);
    d->rule = &a->rule[i];
    d->reverse = i == 1 || a->reverse;
    d->G = nck_rnn_gates(d->rule->kind);
    d->x = swapped(b, in[NC_RNN_X], a);
    d->w = of_direction(b, in[NC_RNN_W], i);
    d->r = of_direction(b, in[NC_RNN_R], i);
    d->wb = piece(b, bias, 0, 2, 0);
    d->rb = piece(b, bias, 1, 2, 0);
    d->lens = in[NC_RNN_LENS] != NULL ? nc_build_cast(b, in[NC_RNN_LENS], NC_INT64) : NULL;
    d->h0 = of_direction(b, swapped(b, in[NC_RNN_H0], a), i);
    if (d->rule->kind != NCK_LSTM) return;
    d->c0 = of_direction(b, swapped(b, in[NC_RNN_C0], a), i);
    d->p = of_direction(b, in[NC_RNN_P], i);
}

/* The directions beside each other at an axis of their own. */
static nc_value *joined(nc_builder *b, nc_value *const *v, int n, int64_t axis) {
    nc_value *in[2] = {NULL, NULL};
    for (int i = 0; i < n; i++) in[i] = nc_build1(b, "Unsqueeze", 2, v[i], nc_build_ints(b, &axis, 1));
    nc_attr attr = {.name = "axis", .kind = NC_A_INT, .i = axis};
    return n == 1 ? in[0] : nc_build_attr1(b, "", "Concat", in, n, &attr, 1);
}

nc_code nc_rnn_parts(nc_builder *b, const nc_node *n, nc_value *const *in, nc_value **out) {
    nc_rnn_attrs a;
    direction d[2] = {{.b = b}, {.b = b}};
    NC_TRY(nc_rnn_read_attrs(b->w, n, &a));
    for (int i = 0; i < a.n_dirs; i++) {
        d[i].type = in[NC_RNN_X]->type->elem;
        read_direction(&d[i], &a, in, i);
        NC_TRY(b->code);
        NC_TRY(run_direction(&d[i]));
    }
    const int64_t perm[4] = {2, 0, 1, 3};
    out[0] = joined(b, (nc_value *[]){d[0].y, d[1].y}, a.n_dirs, 1); /* (T, dirs, B, H) */
    if (a.batch_first) out[0] = nc_build_transpose(b, out[0], perm, 4);
    out[1] = swapped(b, joined(b, (nc_value *[]){d[0].y_h, d[1].y_h}, a.n_dirs, 0), &a);
    if (nc_rnn_kind_of(n) == NCK_LSTM)
        out[2] = swapped(b, joined(b, (nc_value *[]){d[0].y_c, d[1].y_c}, a.n_dirs, 0), &a);
    return b->code;
}
