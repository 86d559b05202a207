/* ops/random/random_cpu.c: CPU bindings of the random family, over kernels/cpu/random. */
#include "base/real.h"
#include "kernels/cpu/random/mt19937.h"
#include "kernels/cpu/random/philox.h"
#include "ops/card.h"
#include "ops/random/random.h"
#include "ops/widen.h"

typedef struct draw {
    uint32_t node_id;
    bool has_seed;
    uint64_t seed;
} draw;

nc_code nc_dropout_ratio(const nc_call *c, int i_ratio, int i_training, double *ratio) {
    const nc_tensor *r = c->in[i_ratio], *training = c->in[i_training];
    *ratio = 0;
    if (training->data == NULL || !*(const bool *)training->data) return NC_OK;
    *ratio = r->data != NULL ? nc_tensor_get_any(r, 0) : 0.5;
    if (*ratio >= 0 && *ratio <= 1) return NC_OK;
    return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "ratio is %g, expected 0 to 1", *ratio);
}

static nc_code dropout_prepare(nc_prep *p) {
    draw *d = nc_arena_alloc(p->arena, sizeof *d);
    NC_NEED(p->w, d);
    const nc_attr *seed = nc_node_attr(p->node, "seed");
    *d = (draw){.node_id = (uint32_t)p->node->random_id, .has_seed = seed != NULL};
    if (seed != NULL) d->seed = (uint64_t)seed->i;
    p->state = d;
    return NC_OK;
}

static nc_code philox_dropout_run(const nc_call *c) {
    const draw *d = c->state;
    const int64_t *state = c->in[3]->data;
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 1, 2, &ratio));
    nck_rng rng = {
        .seed = d->has_seed ? d->seed : (uint64_t)state[0], .node_id = d->node_id, .step = (uint32_t)state[1]};
    void *mask = c->n_out > 1 ? c->out[1]->data : NULL;
    nck_dropout(c->out[0]->dtype, nc_tensor_numel(c->out[0]), rng, ratio, c->in[0]->data, c->out[0]->data, mask,
                c->pool);
    return NC_OK;
}

/* The flags, where the mask is no output. */
static size_t numpy_dropout_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                      int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return (size_t)nc_tensor_numel(&in[0]);
}

static nc_code numpy_dropout_run(const nc_call *c) {
    const draw *d = c->state;
    int64_t n = nc_tensor_numel(c->out[0]);
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 1, 2, &ratio));
    uint8_t *mask = c->n_out > 1 && c->out[1]->data != NULL ? c->out[1]->data : c->workspace;
    nck_numpy_keep((uint32_t)d->seed, n, ratio, mask);
    /* The same selection. */
    nck_dropout_grad(c->out[0]->dtype, n, ratio, c->in[0]->data, mask, c->out[0]->data, c->pool);
    return NC_OK;
}

static nc_code random_step_run(const nc_call *c) {
    const int64_t *from = c->in[0]->data;
    int64_t *to = c->out[0]->data;
    to[0] = from[0];
    to[1] = (int64_t)((uint64_t)from[1] + 1);
    return NC_OK;
}

NC_WIDENED_HALF(philox_dropout, NULL)
NC_WIDENED_HALF(numpy_dropout, numpy_dropout_workspace)

#define DRAW(name, row, space, fn) \
    { .op = name, .domain = "nacre", .prepare = nc_draw_prepare, .own = row, .workspace = space, .run = fn }
static const nc_draw_row uniform = {false, "low", "high"}, normal = {true, "mean", "scale"};

const nc_binding nc_random_cpu[] = {DRAW("PhiloxUniform", &uniform, nc_draw_workspace, nc_draw_numbers),
                                    DRAW("PhiloxUniformLike", &uniform, nc_draw_workspace, nc_draw_numbers),
                                    DRAW("PhiloxNormal", &normal, nc_draw_workspace, nc_draw_numbers),
                                    DRAW("PhiloxNormalLike", &normal, nc_draw_workspace, nc_draw_numbers),
                                    DRAW("PhiloxBernoulli", NULL, nc_draw_flags_workspace, nc_draw_flags),
                                    DRAW("PhiloxMultinomial", NULL, nc_draw_classes_workspace, nc_draw_classes),
                                    {.op = "PhiloxDropout",
                                     .domain = "nacre",
                                     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
                                     .prepare = dropout_prepare,
                                     .run = philox_dropout_run},
                                    {.op = "PhiloxDropout",
                                     .domain = "nacre",
                                     .types = NC_WIDEN_HALF,
                                     .prepare = dropout_prepare,
                                     .workspace = philox_dropout_half_workspace,
                                     .run = philox_dropout_half_run},
                                    {.op = "NumpyDropout",
                                     .domain = "nacre",
                                     .types = NC_BIT(NC_FLOAT) | NC_BIT(NC_DOUBLE),
                                     .prepare = dropout_prepare,
                                     .workspace = numpy_dropout_workspace,
                                     .run = numpy_dropout_run},
                                    {.op = "NumpyDropout",
                                     .domain = "nacre",
                                     .types = NC_WIDEN_HALF,
                                     .prepare = dropout_prepare,
                                     .workspace = numpy_dropout_half_workspace,
                                     .run = numpy_dropout_half_run},
                                    {.op = "RandomStep", .domain = "nacre", .run = random_step_run},
                                    {0}};
