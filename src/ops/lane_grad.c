/* ops/lane_grad.c: derivatives of lane formulas as graphs. The formulas of kernels/lanes are instantiated a third
 * time: each L_ word makes a node of a small expression tree, and the tree is then emitted as ONNX ops, left to
 * right, equal subtrees once. The tree stands between because C does not order the evaluation of arguments, and
 * because a forward value must be asked for only where the derivative uses it: asking keeps it alive. */
#include "kernels/lanes/activation.h"
#include "kernels/lanes/arith.h"
#include "kernels/lanes/compare.h"
#include "ops/build.h"
#include "ops/lane.h"

#include <string.h>

#define WORDS(X)                                                                                                      \
    X(ADD, "Add") X(SUB, "Sub") X(MUL, "Mul") X(DIV, "Div") X(NEG, "Neg") X(MIN, "Min") X(MAX, "Max") X(ABS, "Abs")   \
    X(SQRT, "Sqrt") X(EXP, "Exp") X(LOG, "Log") X(TANH, "Tanh") X(ERF, "Erf") X(POW, "Pow") X(FLOOR, "Floor")         \
    X(SIN, "Sin") X(COS, "Cos") X(SINH, "Sinh") X(COSH, "Cosh") X(SIGMOID, "Sigmoid")                                 \
    X(FMOD, "Mod") X(LT, "Less") X(LE, "LessOrEqual") X(EQ, "Equal") X(AND, "And")                                    \
    X(OR, "Or") X(NOT, "Not") X(SEL, "Where")

typedef enum word {
    W_CONST, /* c */
    W_INPUT, /* i: an input, or OUTPUT */
    W_TRUE,
    W_BOOL,
#define X(word, op) W_##word,
    WORDS(X)
#undef X
} word;

static const char *const op_of[] = {
#define X(word, op) [W_##word] = op,
    WORDS(X)
#undef X
};

enum { OUTPUT = 3, MAX_MEMO = 64 };

typedef struct expr {
    word word;
    const struct expr *a[3];
    double c;
    int i;
} expr;

typedef struct memo {
    const char *op;
    nc_value *in[3], *out;
    double c;
} memo;

typedef struct trace {
    nc_builder *b;
    nc_grad *grad;           /* where forward values come from; NULL: from inputs and output */
    nc_value *const *inputs;
    nc_value *output;
    nc_dtype elem;           /* of constants */
    memo memo[MAX_MEMO];
    int n_memo;
} trace;

static const expr *leaf(trace *t, expr e) {
    return nc_arena_copy(&t->b->w->scratch, &e, sizeof e);
}

static bool is_const(const expr *e, double c) {
    return e->word == W_CONST && e->c == c;
}

static bool fold(word w, double a, double b, double *out) {
    switch (w) {
    case W_ADD: *out = a + b; return true;
    case W_SUB: *out = a - b; return true;
    case W_MUL: *out = a * b; return true;
    case W_DIV: *out = a / b; return true;
    case W_NEG: *out = -a; return true;
    default: return false;
    }
}

static const expr *node(trace *t, word w, const expr *a, const expr *b, const expr *c, int n) {
    const expr *args[3] = {a, b, c};
    bool all_const = true;
    for (int i = 0; i < n; i++) {
        if (args[i] == NULL) return NULL;
        all_const &= args[i]->word == W_CONST;
    }
    double value;
    if (all_const && fold(w, a->c, n > 1 ? b->c : 0, &value)) return leaf(t, (expr){.word = W_CONST, .c = value});
    if (w == W_MUL && is_const(a, 1)) return b;
    if (w == W_MUL && is_const(b, 1)) return a;
    if (w == W_MUL && is_const(a, -1)) return node(t, W_NEG, b, NULL, NULL, 1);
    return leaf(t, (expr){.word = w, .a = {a, b, c}});
}

#define L_K(k)         leaf(t, (expr){.word = W_CONST, .c = (k)})
#define L_1(w, x)      node(t, W_##w, x, NULL, NULL, 1)
#define L_2(w, x, y)   node(t, W_##w, x, y, NULL, 2)
#define L_ADD(x, y)    L_2(ADD, x, y)
#define L_SUB(x, y)    L_2(SUB, x, y)
#define L_MUL(x, y)    L_2(MUL, x, y)
#define L_DIV(x, y)    L_2(DIV, x, y)
#define L_NEG(x)       L_1(NEG, x)
#define L_MIN(x, y)    L_2(MIN, x, y)
#define L_MAX(x, y)    L_2(MAX, x, y)
#define L_ABS(x)       L_1(ABS, x)
#define L_SQRT(x)      L_1(SQRT, x)
#define L_EXP(x)       L_1(EXP, x)
#define L_LOG(x)       L_1(LOG, x)
#define L_TANH(x)      L_1(TANH, x)
#define L_TANH_1(x)    L_TANH(x)
#define L_ERF(x)       L_1(ERF, x)
#define L_CDF(x)       L_MUL(L_K(0.5), L_ADD(L_K(1), L_ERF(L_MUL(L_K(0.70710678118654752), x))))
#define L_BELL(x)      L_EXP(L_MUL(L_K(-0.5), L_MUL(x, x)))
#define L_POW(x, y)    L_2(POW, x, y)
#define L_FLOOR(x)     L_1(FLOOR, x)
#define L_SIN(x)       L_1(SIN, x)
#define L_COS(x)       L_1(COS, x)
#define L_SINH(x)      L_1(SINH, x)
#define L_COSH(x)      L_1(COSH, x)
#define L_FMOD(x, y)   L_2(FMOD, x, y)
#define L_LT(x, y)     L_2(LT, x, y)
#define L_LE(x, y)     L_2(LE, x, y)
#define L_EQ(x, y)     L_2(EQ, x, y)
#define L_AND(p, q)    L_2(AND, p, q)
#define L_OR(p, q)     L_2(OR, p, q)
#define L_NOT(p)       L_1(NOT, p)
#define L_TRUE(x)      L_1(TRUE, x)
#define L_BOOL(p)      L_1(BOOL, p)
#define L_SEL(p, x, y) node(t, W_SEL, p, x, y, 3)

/* A node of its own, whose derivative is finite everywhere: that of 1/(1 + exp(-x)) is inf/inf for far negative x. */
#undef LANE_sigmoid
#define LANE_sigmoid(x) L_1(SIGMOID, x)

#define FROM(k)        leaf(t, (expr){.word = W_INPUT, .i = (k)})
#define CALL_0(name, s) LANE_##name##_D(s)
#define CALL_1(name, s) LANE_##name##_D(s, L_K(params[0]))
#define CALL_2(name, s) LANE_##name##_D(s, L_K(params[0]), L_K(params[1]))
#define D_X(name, n_param)    case NCK_LANE_##name: return CALL_##n_param(name, FROM(0));
#define D_Y(name, n_param)    case NCK_LANE_##name: return CALL_##n_param(name, FROM(OUTPUT));
#define D_NONE(name, n_param)
#define D2_0(name)
#define D2_1(name)                                                                             \
    case NCK_LANE_##name:                                                                      \
        return i_input == 0 ? LANE_##name##_D0(FROM(0), FROM(1), FROM(OUTPUT))                 \
                            : LANE_##name##_D1(FROM(0), FROM(1), FROM(OUTPUT));

/* NULL: out of memory, or the lane has no derivative. */
static const expr *derive(trace *t, int lane, int i_input, const double *params) {
    (void)params;
    switch (lane) {
#define UNARY(name, n_param, kinds, uses)  D_##uses(name, n_param)
#define BINARY(name, n_param, kinds, diff) D2_##diff(name)
#define TERNARY(name, kinds)
#include "kernels/lanes/lanes.list"
#undef UNARY
#undef BINARY
#undef TERNARY
    default: return NULL;
    }
}

static nc_value *recall(const trace *t, const memo *m) {
    for (int i = 0; i < t->n_memo; i++) {
        const memo *k = &t->memo[i];
        if (strcmp(k->op, m->op) == 0 && k->c == m->c && memcmp(k->in, m->in, sizeof m->in) == 0) return k->out;
    }
    return NULL;
}

static nc_value *remember(trace *t, memo m, nc_value *out) {
    m.out = out;
    if (out != NULL && t->n_memo < MAX_MEMO) t->memo[t->n_memo++] = m;
    return out;
}

static nc_value *emit_op(trace *t, const char *op, nc_value *a, nc_value *b, nc_value *c, int n) {
    memo m = {.op = op, .in = {a, b, c}};
    nc_value *out = recall(t, &m);
    if (out != NULL) return out;
    nc_attr fmod_attr = {.name = "fmod", .kind = NC_A_INT, .i = 1};
    bool is_mod = op == op_of[W_FMOD];
    return remember(t, m, nc_build_attr1(t->b, "", op, m.in, n, &fmod_attr, is_mod ? 1 : 0));
}

static nc_value *emit_const(trace *t, double c) {
    memo m = {.op = "", .c = c};
    nc_value *out = recall(t, &m);
    return out != NULL ? out : remember(t, m, nc_build_scalar(t->b, t->elem, c));
}

/* Inputs of another element type (an integer exponent) take part in the derivative's. */
static nc_value *emit_input(trace *t, int i) {
    memo m = {.op = "in", .c = i};
    nc_value *out = recall(t, &m);
    if (out != NULL) return out;
    if (t->grad != NULL)
        out = i == OUTPUT ? nc_grad_y(t->grad, 0) : nc_grad_x(t->grad, i);
    else
        out = i == OUTPUT ? t->output : t->inputs[i];
    return remember(t, m, nc_build_cast(t->b, out, t->elem));
}

/* Depth is that of a formula's text. */
static nc_value *emit(trace *t, const expr *e) {
    nc_value *in[3] = {NULL, NULL, NULL};
    int n = 0;
    for (; n < 3 && e->a[n] != NULL; n++) in[n] = emit(t, e->a[n]);
    if (t->b->code != NC_OK) return NULL;
    switch (e->word) {
    case W_CONST: return emit_const(t, e->c);
    case W_INPUT: return emit_input(t, e->i);
    case W_TRUE: return emit_op(t, "Not", emit_op(t, "Equal", in[0], emit_const(t, 0), NULL, 2), NULL, NULL, 1);
    case W_BOOL: return nc_build_cast(t->b, in[0], t->elem);
    default: return emit_op(t, op_of[e->word], in[0], in[1], in[2], n);
    }
}

static const expr *trace_derivative(trace *t, int lane, int i_input, const double *params) {
    static const double none[2];
    if (t->b->code != NC_OK) return NULL;
    const nck_lane_info *info = nck_lane_get(lane);
    if (info == NULL || !info->diff) {
        t->b->code = nc_fail(t->b->w, NC_E_UNSUPPORTED, "the formula has no derivative");
        return NULL;
    }
    const expr *e = derive(t, lane, i_input, params != NULL ? params : none);
    if (e == NULL) t->b->code = nc_fail(t->b->w, NC_E_MEMORY, "out of memory");
    return e;
}

/* dy * e */
static nc_value *pull(trace *t, const expr *e, nc_value *dy) {
    if (e == NULL || t->b->code != NC_OK) return NULL;
    if (is_const(e, 1)) return dy;
    if (is_const(e, -1)) return nc_build1(t->b, "Neg", 1, dy);
    if (e->word == W_DIV && is_const(e->a[0], 1)) {
        nc_value *by = emit(t, e->a[1]);
        return nc_build1(t->b, "Div", 2, dy, by);
    }
    nc_value *d = emit(t, e);
    return nc_build1(t->b, "Mul", 2, dy, d);
}

static nc_dtype elem_of(const nc_value *v) {
    return v != NULL && v->type != NULL ? v->type->elem : NC_UNDEFINED;
}

static trace trace_values(nc_builder *b, nc_value *const *inputs, nc_value *output, int n_in) {
    trace t = {.b = b, .inputs = inputs, .output = output, .elem = elem_of(output)};
    for (int i = 0; i < n_in && t.elem == NC_UNDEFINED; i++) t.elem = elem_of(inputs[i]);
    if (t.elem == NC_UNDEFINED && b->code == NC_OK)
        b->code = nc_fail(b->w, NC_E_TYPE, "a derivative needs known element types");
    return t;
}

static int arity(int lane) {
    const nck_lane_info *info = nck_lane_get(lane);
    return info != NULL ? info->n_in : 0;
}

nc_value *nc_lane_derivative(nc_builder *b, int lane, int i_input, nc_value *const *inputs, nc_value *output,
                             const double *params) {
    trace t = trace_values(b, inputs, output, arity(lane));
    const expr *e = trace_derivative(&t, lane, i_input, params);
    return e != NULL ? emit(&t, e) : NULL;
}

nc_value *nc_lane_pull(nc_builder *b, int lane, int i_input, nc_value *dy, nc_value *const *inputs, nc_value *output,
                       const double *params) {
    trace t = trace_values(b, inputs, output, arity(lane));
    return pull(&t, trace_derivative(&t, lane, i_input, params), dy);
}

static nc_value *unary_grad(nc_grad *g, trace *t, const expr *e, nc_value *dy, const double *params) {
    const nc_card *card = g->node->card;
    const nck_lane_info *info = nck_lane_get(card->lane - 1);
    if (e == NULL || e->word == W_CONST || info->grad < 0) return pull(t, e, dy);
    char op[NC_LANE_GRAD_NAME];
    nc_lane_grad_name(card, op);
    nc_attr attrs[2] = {0};
    int n = 0;
    for (; n < 2 && card->lane_params[n] != NULL; n++)
        attrs[n] = (nc_attr){.name = card->lane_params[n], .kind = NC_A_FLOAT, .f = (float)params[n]};
    nc_value *in[2] = {dy, info->uses == NCK_USES_X ? nc_grad_x(g, 0) : nc_grad_y(g, 0)};
    return nc_build_attr1(g->b, "nacre", op, in, 2, attrs, n);
}

static nc_code where_grad(nc_grad *g, nc_value *dy) {
    if (!g->wants[1] && !g->wants[2]) return nc_grad_end(g);
    nc_value *cond = nc_grad_x(g, 0), *zero = nc_build_scalar(g->b, elem_of(dy), 0);
    if (g->wants[1]) nc_grad_set(g, 1, nc_grad_sum_to(g, nc_build1(g->b, "Where", 3, cond, dy, zero), 1));
    if (g->wants[2]) nc_grad_set(g, 2, nc_grad_sum_to(g, nc_build1(g->b, "Where", 3, cond, zero, dy), 2));
    return nc_grad_end(g);
}

nc_code nc_lane_card_grad(nc_grad *g) {
    int lane = g->node->card->lane - 1;
    nc_value *dy = nc_grad_dy(g, 0);
    if (dy == NULL) return NC_OK;
    if (lane == NCK_LANE_where) return where_grad(g, dy);
    double params[2];
    nc_lane_params(g->node, params);
    trace t = {.b = g->b, .grad = g, .elem = elem_of(dy)};
    for (int i = 0; i < arity(lane) && i < g->node->n_in; i++) {
        if (!g->wants[i]) continue;
        const expr *e = trace_derivative(&t, lane, i, params);
        nc_value *dx = arity(lane) == 1 ? unary_grad(g, &t, e, dy, params) : pull(&t, e, dy);
        nc_grad_set(g, i, nc_grad_sum_to(g, dx, i));
    }
    return nc_grad_end(g);
}

nc_code nc_lane_grad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int lane = nc_lane_forward_of(n->card->lane - 1);
    double params[2];
    nc_lane_params(n, params);
    out[0] = nc_lane_pull(b, lane, 0, n->in[0], &n->in[1], n->in[1], params);
    return b->code;
}
