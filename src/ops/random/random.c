/* ops/random/random.c: cards of the ops that draw from the session's random state, int64[2] = {seed, step}: a
 * variable that the planner adds (plan/lower_random.c). Numbers are Philox(seed, the node's random id, element, step):
 * the same for any thread count, device and recomputation. Made after differentiation, so there are no gradients here.
 * */
#include "ops/card.h"

/* ---- nacre.PhiloxDropout ---- */

static nc_code dropout_infer(nc_infer *c) {
    const nc_type *x = nc_in(c, 0);
    NC_TRY(nc_out_like(c, 0, 0));
    if (x == NULL) return NC_OK;
    return x->rank < 0 ? nc_out_unknown(c, 1, NC_BOOL, -1) : nc_out(c, 1, NC_BOOL, x->rank, x->dims);
}

/* The state is no host argument: it lives where the kernel runs, so that a captured run sees the new step. */
static const nc_op_version dropout_versions[] = {{.since = 1,
                                                  IN({"data", T_FLOAT_ALL}, {"ratio", T_FLOAT_ALL, SINGLE_OPTIONAL},
                                                     {"training_mode", T_BOOL, SINGLE_OPTIONAL}, {"state", T_I64}),
                                                  OUT({"output", SAME(0)}, {"mask", T_BOOL, OPTIONAL}),
                                                  ATTR(A_INT_OPT("seed"))},
                                                 {0}};

const nc_card nc_card_philox_dropout = {
    .name = "PhiloxDropout",
    .domain = "nacre",
    .no_grad = NC_LOWERED_NO_GRAD,
    .doc = "Dropout that draws from the random state; `seed` replaces the state's seed.",
    .versions = dropout_versions,
    .host_in = 3u << 1,
    .infer = dropout_infer};

/* ---- nacre.NumpyDropout ---- */

static const nc_op_version numpy_versions[] = {
    {.since = 1,
     IN({"data", T_FLOAT_ALL}, {"ratio", T_FLOAT_ALL, SINGLE_OPTIONAL}, {"training_mode", T_BOOL, SINGLE_OPTIONAL}),
     OUT({"output", SAME(0)}, {"mask", T_BOOL, OPTIONAL}),
     ATTR(A_INT("seed", 0))},
    {0}};

const nc_card nc_card_numpy_dropout = {.name = "NumpyDropout",
                                       .domain = "nacre",
                                       .no_grad = NC_LOWERED_NO_GRAD,
                                       .doc = "Dropout that draws numpy's numbers for `seed`, the same in every run.",
                                       .versions = numpy_versions,
                                       .host_in = 3u << 1,
                                       .infer = dropout_infer};

/* ---- nacre.RandomStep ---- */

static nc_code step_infer(nc_infer *c) { return nc_out_like(c, 0, 0); }

static const nc_op_version step_versions[] = {{.since = 1, IN({"state", T_I64}), OUT({"next", T_I64}), NO_ATTR}, {0}};

const nc_card nc_card_random_step = {.name = "RandomStep",
                                     .domain = "nacre",
                                     .doc = "The random state with its step one further.",
                                     .versions = step_versions,
                                     .traits = NC_IN_PLACE,
                                     .n_updates = 1,
                                     .infer = step_infer,
                                     .zero_grad = true};
