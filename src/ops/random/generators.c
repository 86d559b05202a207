/* ops/random/generators.c: cards of the ops that draw tensors: RandomUniform, RandomNormal, their Like forms, Bernoulli
 * and Multinomial, and for each the form that the planner puts in its place, with the random state as last input
 * (plan/lower_random.c). `seed` takes the place of the state's seed; the step still counts, so runs of a session
 * differ and sessions repeat each other. */
#include "ops/card.h"

static nc_dtype asked_type(const nc_node *n, nc_dtype absent) {
    const nc_attr *a = nc_node_attr(n, "dtype");
    return a != NULL ? (nc_dtype)a->i : absent;
}

static nc_code shape_infer(nc_infer *c) {
    const nc_dim *dims[NC_MAX_RANK];
    int n;
    const int64_t *shape = nc_attr_ints(c->node, "shape", &n);
    if (n > NC_MAX_RANK) NC_FAIL(c->w, NC_E_SHAPE, "shape has %d elements, at most %d are supported", n, NC_MAX_RANK);
    for (int k = 0; k < n; k++) dims[k] = nc_dim_const(c->dims, shape[k]);
    return nc_out(c, 0, asked_type(c->node, NC_FLOAT), n, dims);
}

/* In the shape of input 0 and, where no type is asked for, in type `same`. */
static nc_code like_in(nc_infer *c, nc_dtype same) {
    const nc_type *x = nc_in(c, 0);
    nc_dtype t = asked_type(c->node, same);
    return x->rank < 0 ? nc_out_unknown(c, 0, t, -1) : nc_out(c, 0, t, x->rank, x->dims);
}

static nc_code like_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    return x == NULL ? NC_OK : like_in(c, nc_dtype_is_float(x->elem) ? x->elem : NC_FLOAT);
}

static nc_code flags_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    return x == NULL ? NC_OK : like_in(c, x->elem);
}

static nc_code classes_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    if (x != NULL && x->rank >= 0 && x->rank != 2) NC_FAIL(c->w, NC_E_SHAPE, "input has %d dims, expected 2", x->rank);
    const nc_dim *rows = x != NULL && x->rank == 2 ? x->dims[0] : nc_fresh(c, "n");
    const nc_dim *dims[2] = {rows, nc_dim_const(c->dims, nc_attr_int(c->node, "sample_size"))};
    return nc_out(c, 0, asked_type(c->node, NC_INT32), 2, dims);
}

#define SEED A_FLOAT_OPT("seed")
#define SHAPE \
    { .name = "shape", .kind = NC_A_INTS, .flags = NC_ATTR_REQUIRED }
#define UNIFORM A_FLOAT("low", 0), A_FLOAT("high", 1), SEED
#define NORMAL A_FLOAT("mean", 0), A_FLOAT("scale", 1), SEED
#define NONE(out, ...) NO_IN, OUT({"output", out}), ATTR(__VA_ARGS__)
#define ONE(in, out, ...) IN({"input", in}), OUT({"output", out}), ATTR(__VA_ARGS__)
#define STATE \
    { "state", T_I64 }

/* An op and its form over the random state. */
#define DRAWS(symbol, op, form_symbol, form, hook, form_in, form_out, form_attrs, text) \
    const nc_card nc_card_##symbol = {.name = op,                                       \
                                      .doc = text,                                      \
                                      .versions = symbol##_versions,                    \
                                      .traits = NC_RANDOM,                              \
                                      .infer = hook,                                    \
                                      .zero_grad = true,                                \
                                      .random_form = form};                             \
    static const nc_op_version form_symbol##_versions[] = {                             \
        {.since = 1, form_in, OUT({"output", form_out}), form_attrs}, {0}};             \
    const nc_card nc_card_##form_symbol = {.name = form,                                \
                                           .domain = "nacre",                           \
                                           .doc = text " From the random state.",       \
                                           .versions = form_symbol##_versions,          \
                                           .infer = hook,                               \
                                           .zero_grad = true};

static const nc_op_version random_uniform_versions[] = {
    {.since = 22, NONE(T_FLOAT_ALL, SHAPE, A_INT("dtype", 1), UNIFORM)},
    {.since = 1, NONE(T_FLOAT, SHAPE, A_INT("dtype", 1), UNIFORM)},
    {0}};
DRAWS(random_uniform, "RandomUniform", philox_uniform, "PhiloxUniform", shape_infer, IN(STATE), T_FLOAT_ALL,
      ATTR(SHAPE, A_INT("dtype", 1), UNIFORM), "A tensor of uniform random numbers.")

static const nc_op_version random_normal_versions[] = {
    {.since = 22, NONE(T_FLOAT_ALL, SHAPE, A_INT("dtype", 1), NORMAL)},
    {.since = 1, NONE(T_FLOAT, SHAPE, A_INT("dtype", 1), NORMAL)},
    {0}};
DRAWS(random_normal, "RandomNormal", philox_normal, "PhiloxNormal", shape_infer, IN(STATE), T_FLOAT_ALL,
      ATTR(SHAPE, A_INT("dtype", 1), NORMAL), "A tensor of normal random numbers.")

static const nc_op_version random_uniform_like_versions[] = {
    {.since = 22, ONE(T_TENSOR_ALL, T_FLOAT_ALL, A_INT_OPT("dtype"), UNIFORM)},
    {.since = 1, ONE(T_TENSOR, T_FLOAT, A_INT_OPT("dtype"), UNIFORM)},
    {0}};
DRAWS(random_uniform_like, "RandomUniformLike", philox_uniform_like, "PhiloxUniformLike", like_infer,
      IN({"input", T_TENSOR_ALL}, STATE), T_FLOAT_ALL, ATTR(A_INT_OPT("dtype"), UNIFORM),
      "Uniform random numbers in the shape of the input.")

static const nc_op_version random_normal_like_versions[] = {
    {.since = 22, ONE(T_TENSOR_ALL, T_FLOAT_ALL, A_INT_OPT("dtype"), NORMAL)},
    {.since = 1, ONE(T_TENSOR, T_FLOAT, A_INT_OPT("dtype"), NORMAL)},
    {0}};
DRAWS(random_normal_like, "RandomNormalLike", philox_normal_like, "PhiloxNormalLike", like_infer,
      IN({"input", T_TENSOR_ALL}, STATE), T_FLOAT_ALL, ATTR(A_INT_OPT("dtype"), NORMAL),
      "Normal random numbers in the shape of the input.")

#define FLAGS (T_NUMBER_ALL | T_BOOL)
static const nc_op_version bernoulli_versions[] = {{.since = 22, ONE(T_FLOAT_ALL, FLAGS, A_INT_OPT("dtype"), SEED)},
                                                   {.since = 15, ONE(T_FLOAT, FLAGS, A_INT_OPT("dtype"), SEED)},
                                                   {0}};
DRAWS(bernoulli, "Bernoulli", philox_bernoulli, "PhiloxBernoulli", flags_infer, IN({"input", T_FLOAT_ALL}, STATE),
      FLAGS, ATTR(A_INT_OPT("dtype"), SEED), "1 with the probability that the input says, else 0.")

#define CLASSES A_INT("dtype", 6), A_INT("sample_size", 1), SEED
static const nc_op_version multinomial_versions[] = {
    {.since = 22, ONE(T_FLOAT_ALL, T_INDEX, CLASSES)}, {.since = 7, ONE(T_FLOAT, T_INDEX, CLASSES)}, {0}};
DRAWS(multinomial, "Multinomial", philox_multinomial, "PhiloxMultinomial", classes_infer,
      IN({"input", T_FLOAT_ALL}, STATE), T_INDEX, ATTR(CLASSES), "Classes drawn by unnormalised log-probabilities.")
