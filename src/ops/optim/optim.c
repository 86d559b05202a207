/* ops/optim/optim.c: cards of the optimizers of domain ai.onnx.preview.training: Adagrad, Adam, Momentum. Inputs are
 * the rate R, the step T, then all parameters, all gradients and all states of each kind; outputs the new parameters
 * and states in the same order. They run as elementwise ops, which chains then join. */
#include "ops/build.h"
#include "ops/card.h"

#include <string.h>

/* `groups` kinds of input tensors behind R and T; all but the gradients, which are the second, come out again. */
static nc_code optim_infer(nc_infer *c, int groups) {
    int n = (c->node->n_in - 2) / groups;
    if (n < 1 || c->node->n_in != 2 + groups * n || c->node->n_out != (groups - 1) * n)
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "%d inputs and %d outputs: expected 2 + %d n and %d n", c->node->n_in,
                c->node->n_out, groups, groups - 1);
    for (int i = 0; i < c->node->n_out; i++) NC_TRY(nc_out_like(c, i, i < n ? 2 + i : 2 + n + i));
    return NC_OK;
}

static nc_code infer_3(nc_infer *c) { return optim_infer(c, 3); }
static nc_code infer_4(nc_infer *c) { return optim_infer(c, 4); }

/* One parameter: numbers in its own type. */
typedef struct step {
    nc_builder *b;
    const nc_node *n;
    nc_dtype t;
    nc_value *x, *g; /* the parameter; its gradient with the decay that norm_coefficient adds */
} step;

static nc_value *number(step *s, double v) { return nc_build_scalar(s->b, s->t, v); }
static nc_value *op2(step *s, const char *op, nc_value *a, nc_value *b) { return nc_build1(s->b, op, 2, a, b); }
static nc_value *scaled(step *s, double k, nc_value *v) { return op2(s, "Mul", number(s, k), v); }
static double attr(const step *s, const char *name) { return nc_attr_float(s->n, name); }
static nc_value *rate(step *s) { return nc_build_cast(s->b, s->n->in[0], s->t); }
static nc_value *count(step *s) { return nc_build_cast(s->b, s->n->in[1], s->t); }

static step optim_start(nc_builder *b, const nc_node *n, int i, int n_params) {
    step s = {.b = b, .n = n, .x = n->in[2 + i], .g = n->in[2 + n_params + i]};
    s.t = s.x->type != NULL ? s.x->type->elem : NC_FLOAT;
    double decay = attr(&s, "norm_coefficient");
    if (decay != 0) s.g = op2(&s, "Add", scaled(&s, decay, s.x), s.g);
    return s;
}

/* x - r * up / down */
static nc_value *moved(step *s, nc_value *r, nc_value *up, nc_value *down) {
    return op2(s, "Sub", s->x, op2(s, "Div", op2(s, "Mul", r, up), down));
}

static nc_value *root(step *s, nc_value *h) {
    return op2(s, "Add", nc_build1(s->b, "Sqrt", 1, h), number(s, attr(s, "epsilon")));
}

/* The first step, T = 0, has a value of its own. */
static nc_value *unless_first(step *s, nc_value *later, nc_value *first) {
    return nc_build1(s->b, "Where", 3, op2(s, "Less", number(s, 0), count(s)), later, first);
}

static nc_code adagrad_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int k = (n->n_in - 2) / 3;
    for (int i = 0; i < k; i++) {
        step s = optim_start(b, n, i, k);
        nc_value *age = op2(&s, "Add", number(&s, 1), scaled(&s, attr(&s, "decay_factor"), count(&s)));
        nc_value *h = op2(&s, "Add", n->in[2 + 2 * k + i], op2(&s, "Mul", s.g, s.g));
        out[i] = moved(&s, op2(&s, "Div", rate(&s), age), s.g, root(&s, h));
        out[k + i] = h;
    }
    return b->code;
}

/* R * sqrt(1 - beta^T) / (1 - alpha^T), or R at T = 0, where the quotient, which is not taken, is that of T = 1: 0 / 0
 * would make its gradient NaN. */
static nc_value *adam_rate(step *s, double alpha, double beta) {
    nc_value *one = number(s, 1), *t = unless_first(s, count(s), one);
    nc_value *a = op2(s, "Sub", one, op2(s, "Pow", number(s, alpha), t));
    nc_value *h = nc_build1(s->b, "Sqrt", 1, op2(s, "Sub", one, op2(s, "Pow", number(s, beta), t)));
    return unless_first(s, op2(s, "Div", op2(s, "Mul", rate(s), h), a), rate(s));
}

static nc_code adam_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int k = (n->n_in - 2) / 4;
    for (int i = 0; i < k; i++) {
        step s = optim_start(b, n, i, k);
        double alpha = attr(&s, "alpha"), beta = attr(&s, "beta"), after = attr(&s, "norm_coefficient_post");
        nc_value *v = op2(&s, "Add", scaled(&s, alpha, n->in[2 + 2 * k + i]), scaled(&s, 1 - alpha, s.g));
        nc_value *square = op2(&s, "Mul", s.g, s.g);
        nc_value *h = op2(&s, "Add", scaled(&s, beta, n->in[2 + 3 * k + i]), scaled(&s, 1 - beta, square));
        nc_value *x = moved(&s, adam_rate(&s, alpha, beta), v, root(&s, h));
        out[i] = after != 0 ? scaled(&s, 1 - after, x) : x;
        out[k + i] = v;
        out[2 * k + i] = h;
    }
    return b->code;
}

static nc_code momentum_decompose(nc_builder *b, const nc_node *n, nc_value **out) {
    int k = (n->n_in - 2) / 3;
    bool nesterov = strcmp(nc_attr_str(n, "mode"), "nesterov") == 0;
    for (int i = 0; i < k; i++) {
        step s = optim_start(b, n, i, k);
        double alpha = attr(&s, "alpha");
        nc_value *beta = unless_first(&s, number(&s, attr(&s, "beta")), number(&s, 1));
        nc_value *v = op2(&s, "Add", scaled(&s, alpha, n->in[2 + 2 * k + i]), op2(&s, "Mul", beta, s.g));
        nc_value *by = nesterov ? op2(&s, "Add", s.g, scaled(&s, alpha, v)) : v;
        out[i] = op2(&s, "Sub", s.x, op2(&s, "Mul", rate(&s), by));
        out[k + i] = v;
    }
    return b->code;
}

static nc_code momentum_infer(nc_infer *c) {
    const char *mode = nc_attr_str(c->node, "mode");
    if (mode == NULL || (strcmp(mode, "standard") != 0 && strcmp(mode, "nesterov") != 0))
        NC_FAIL(c->w, NC_E_BAD_GRAPH, "mode is '%s', expected 'standard' or 'nesterov'", mode ? mode : "");
    return infer_3(c);
}

#define T_PARAM (NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE))
#define TENSORS IN({"R", T_PARAM}, {"T", T_I64}, {"inputs", T_PARAM, MIXED}), OUT({"outputs", T_PARAM, MIXED})
#define A_FLOAT_REQ(n) \
    { .name = n, .kind = NC_A_FLOAT, .flags = NC_ATTR_REQUIRED }
#define EPSILON A_FLOAT("epsilon", 9.999999974752427e-07f)
static const nc_op_version adagrad_versions[] = {
    {.since = 1, TENSORS, ATTR(A_FLOAT("norm_coefficient", 0.0f), A_FLOAT("decay_factor", 0.0f), EPSILON)}, {0}};
static const nc_op_version adam_versions[] = {
    {.since = 1,
     TENSORS,
     ATTR(EPSILON, A_FLOAT("norm_coefficient_post", 0.0f), A_FLOAT("norm_coefficient", 0.0f), A_FLOAT("beta", 0.999f),
          A_FLOAT("alpha", 0.9f))},
    {0}};
static const nc_op_version momentum_versions[] = {
    {.since = 1,
     TENSORS,
     ATTR(A_FLOAT_REQ("norm_coefficient"), A_FLOAT_REQ("beta"), A_STR_REQ("mode"), A_FLOAT_REQ("alpha"))},
    {0}};

#define OPTIMIZER(symbol, op, rows, infer_fn, pieces, text)                 \
    const nc_card nc_card_##symbol = {.name = op,                           \
                                      .domain = "ai.onnx.preview.training", \
                                      .doc = text,                          \
                                      .versions = rows,                     \
                                      .infer = infer_fn,                    \
                                      .decompose = pieces};

OPTIMIZER(adagrad, "Adagrad", adagrad_versions, infer_3, adagrad_decompose,
          "A step of Adagrad: rates fall with the squares of all gradients so far.")
OPTIMIZER(adam, "Adam", adam_versions, infer_4, adam_decompose, "A step of Adam, bias-corrected.")
OPTIMIZER(momentum, "Momentum", momentum_versions, momentum_infer, momentum_decompose,
          "A step of gradient descent with momentum, standard or Nesterov's.")
