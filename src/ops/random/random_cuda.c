/* ops/random/random_cuda.c: CUDA bindings of the random family and of Dropout's gradient over kernels/cuda/random.h.
 * Ratio and training mode are host arguments; seed and step are read by the kernel, so a captured graph draws anew at
 * every replay. */
#include "kernels/cuda/random.h"

#include "ops/card.h"
#include "ops/random/random.h"

typedef struct draw {
    nck_cuda_draw from;
    nck_cuda_random kernel;
} draw;

static nc_code random_prepare(nc_prep *p) {
    draw *d = nc_arena_alloc(p->arena, sizeof *d);
    NC_NEED(p->w, d);
    const nc_attr *seed = nc_node_attr(p->node, "seed");
    *d = (draw){.from = {.node_id = (uint32_t)p->node->random_id, .fixed_seed = seed != NULL}};
    if (seed != NULL) d->from.seed = seed->i;
    nc_dtype t = p->node->in[0]->type->elem;
    NC_TRY(nck_cuda_random_prepare(p->device, nc_dtype_is_float(t) ? t : NC_FLOAT, &d->kernel, &p->w->diag));
    p->state = d;
    return NC_OK;
}

static nc_code philox_dropout_run(const nc_call *c) {
    const draw *d = c->state;
    nck_cuda_draw from = d->from;
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 1, 2, &ratio));
    from.state = c->in[3]->data;
    return nck_cuda_dropout(&d->kernel, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), &from, ratio, c->in[0]->data,
                            c->out[0]->data, c->n_out > 1 ? c->out[1]->data : NULL);
}

static nc_code dropout_grad_run(const nc_call *c) {
    const draw *d = c->state;
    double ratio;
    NC_TRY(nc_dropout_ratio(c, 2, 3, &ratio));
    return nck_cuda_dropout_grad(&d->kernel, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), ratio, c->in[0]->data,
                                 c->in[1]->data, c->out[0]->data);
}

static nc_code random_step_run(const nc_call *c) {
    const draw *d = c->state;
    return nck_cuda_random_step(&d->kernel, nck_cuda_at_call(c), c->in[0]->data, c->out[0]->data);
}

/* ---- uniform, normal, Bernoulli, Multinomial ---- */

typedef struct numbers {
    nc_drawing how;
    nc_function *f;
} numbers;

static bool draw_fits(const nc_node *n, const char **why) {
    const nc_type *y = n->out[0]->type;
    *why = "a type that GPU kernels cannot hold";
    return y != NULL && nck_cuda_type_name(y->elem) != NULL;
}

static nc_code prepare_draw(nc_prep *p, nck_cuda_draw_kind kind) {
    const nc_node *n = p->node;
    nc_dtype x = n->in[0]->type->elem; /* of the state, where there is no other input */
    numbers *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    nc_drawing_read(n, p->own, &s->how);
    p->state = s;
    if (nck_cuda_type_name(x) == NULL || kind <= NCK_DRAW_NORMAL) x = NC_FLOAT;
    return nck_cuda_draw_prepare(p->device, kind, n->out[0]->type->elem, x, &s->f, &p->w->diag);
}
static nc_code numbers_prepare(nc_prep *p) {
    const nc_draw_row *row = p->own;
    return prepare_draw(p, row->normal ? NCK_DRAW_NORMAL : NCK_DRAW_UNIFORM);
}
static nc_code flags_prepare(nc_prep *p) { return prepare_draw(p, NCK_DRAW_FLAGS); }
static nc_code classes_prepare(nc_prep *p) { return prepare_draw(p, NCK_DRAW_CLASSES); }

static nck_cuda_draw from_state(const nc_call *c, const nc_drawing *d) {
    return (nck_cuda_draw){
        .state = c->in[c->n_in - 1]->data, .fixed_seed = d->has_seed, .seed = d->seed, .node_id = d->node_id};
}

static nc_code numbers_run(const nc_call *c) {
    const numbers *s = c->state;
    nck_cuda_draw from = from_state(c, &s->how);
    double b = s->how.normal ? s->how.b : s->how.b - s->how.a;
    return nck_cuda_draw_numbers(s->f, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), &from, s->how.a, b,
                                 c->out[0]->data);
}

static nc_code flags_run(const nc_call *c) {
    const numbers *s = c->state;
    nck_cuda_draw from = from_state(c, &s->how);
    return nck_cuda_draw_flags(s->f, nck_cuda_at_call(c), nc_tensor_numel(c->out[0]), &from, c->in[0]->data,
                               c->out[0]->data);
}

static size_t classes_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_cuda_draw_classes_workspace(in[0].dims[0], in[0].dims[1]);
}

static nc_code classes_run(const nc_call *c) {
    const numbers *s = c->state;
    const nc_tensor *x = c->in[0], *y = c->out[0];
    nck_cuda_draw from = from_state(c, &s->how);
    if (nc_tensor_numel(y) == 0) return NC_OK;
    if (x->dims[1] == 0) return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "there are no classes to draw from");
    return nck_cuda_draw_classes(s->f, nck_cuda_at_call(c), x->dims[0], x->dims[1], y->dims[1], &from, x->data,
                                 c->workspace, y->data);
}

static const nc_draw_row uniform = {false, "low", "high"}, normal = {true, "mean", "scale"};
#define NUMBERS(name, row) \
    { .op = name, .domain = "nacre", .own = row, .fits = draw_fits, .prepare = numbers_prepare, .run = numbers_run }

const nc_binding nc_random_cuda[] = {
    NUMBERS("PhiloxUniform", &uniform),
    NUMBERS("PhiloxUniformLike", &uniform),
    NUMBERS("PhiloxNormal", &normal),
    NUMBERS("PhiloxNormalLike", &normal),
    {.op = "PhiloxBernoulli", .domain = "nacre", .fits = draw_fits, .prepare = flags_prepare, .run = flags_run},
    {.op = "PhiloxMultinomial",
     .domain = "nacre",
     .fits = draw_fits,
     .prepare = classes_prepare,
     .workspace = classes_workspace,
     .run = classes_run},
    {.op = "PhiloxDropout",
     .domain = "nacre",
     .types = T_FLOAT_ALL,
     .prepare = random_prepare,
     .run = philox_dropout_run},
    {.op = "DropoutGrad", .domain = "nacre", .types = T_FLOAT_ALL, .prepare = random_prepare, .run = dropout_grad_run},
    {.op = "RandomStep", .domain = "nacre", .prepare = random_prepare, .run = random_step_run},
    {0}};
