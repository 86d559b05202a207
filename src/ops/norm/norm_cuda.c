/* ops/norm/norm_cuda.c: CUDA bindings of the norm family over kernels/cuda/norm.h. Operands are dense and of types with
 * one accumulator; other mixtures, and normalizations that have no row here, run as what their cards are made of. */
#include "kernels/cuda/norm.h"

#include "ops/card.h"
#include "ops/norm/norm.h"
#include "ops/norm/rows.h"

typedef struct norm {
    nc_norm_how how;
    double ratio; /* of dropout */
    int64_t node; /* the random id that it draws with */
    nck_cuda_norm kernel;
} norm;

static nc_dtype type_of(const nc_value *v) { return v != NULL && v->type != NULL ? v->type->elem : NC_UNDEFINED; }

/* Scale and bias are of one type; x, y and their gradients may each have another. A random state is none of them. */
static bool norm_fits(const nc_node *n, const char **why) {
    nc_dtype wide = nck_cuda_accumulator(type_of(n->in[0]));
    *why = "operands are summed in several types";
    for (int i = 1; i < n->n_in; i++)
        if (type_of(n->in[i]) != NC_INT64 && n->in[i] != NULL && nck_cuda_accumulator(type_of(n->in[i])) != wide)
            return false;
    const nc_dtype y = type_of(n->out[0]);
    return y == NC_UNDEFINED || nck_cuda_accumulator(y) == wide;
}
static bool layer_fits(const nc_node *n, const char **why) {
    *why = "scale and bias are of two types";
    for (int i = 2; i < n->n_in; i++)
        if (n->in[i] != NULL && type_of(n->in[i]) != type_of(n->in[1])) return false;
    return nc_norm_fits_rows(n, why) && norm_fits(n, why);
}

static nck_cuda_norm_types types_of(const nc_node *n, nc_norm_kind kind) {
    nc_dtype x = type_of(n->in[0]), scale = type_of(n->in[1]), y = type_of(n->out[0]);
    if (kind == NC_NORM_GRADIENT) {
        nc_dtype dx = n->out[0] != NULL ? y : type_of(n->in[1]);
        nc_dtype narrow = n->n_out > 3 ? type_of(n->out[3]) : NC_UNDEFINED;
        if (n->n_out > 4 && narrow == NC_UNDEFINED) narrow = type_of(n->out[4]);
        return (nck_cuda_norm_types){
            .x = scale, .scale = type_of(n->in[2]), .y = x, .dx = dx, .stat = scale, .narrow = narrow};
    }
    if (kind == NC_NORM_OF_SUM)
        return (nck_cuda_norm_types){
            .x = scale, .scale = type_of(n->in[2]), .y = y, .dx = x, .stat = NC_FLOAT, .narrow = NC_UNDEFINED};
    nck_cuda_norm_types t = {.x = x, .scale = scale, .y = y != NC_UNDEFINED ? y : scale, .dx = x, .stat = x};
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != NULL) t.stat = type_of(n->out[i]);
    return t;
}

static nc_code (*const prepares[])(nc_device *, const nck_cuda_norm_types *, nck_cuda_norm *, nc_diag *) = {
    nck_cuda_norm_prepare, nck_cuda_norm_sum_prepare, nck_cuda_norm_grad_prepare};

static nc_code norm_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    norm *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    const nc_norm_kind kind = *(const nc_norm_kind *)p->own;
    s->how = nc_norm_read(n, kind);
    s->ratio = nc_attr_float(n, "ratio");
    s->node = n->random_id;
    nck_cuda_norm_types t = types_of(n, kind);
    t.drops = n->n_in > 0 && type_of(n->in[n->n_in - 1]) == NC_INT64;
    NC_TRY(prepares[kind == NC_NORM_GRADIENT ? 2 : kind == NC_NORM_OF_SUM](p->device, &t, &s->kernel, &p->w->diag));
    p->state = s;
    if (kind != NC_NORM_GRADIENT && kind != NC_NORM_OF_SUM && t.x == t.y) p->over[0] = 1;
    if (kind == NC_NORM_GRADIENT && n->n_in > 3) p->over[0] = 1u << 3;
    return NC_OK;
}

static nc_code layer_args(const nc_call *c, const nc_tensor *x, const nc_tensor *scale, const nc_tensor *bias,
                          nck_cuda_norm_args *a) {
    const norm *s = c->state;
    int axis = nc_norm_axis(&s->how, x);
    int64_t strides[2][NC_MAX_RANK];
    bool fits = nc_norm_spread(scale, x, axis, strides[0]);
    if (fits && bias != NULL) fits = nc_norm_spread(bias, x, axis, strides[1]);
    if (!fits) return nc_norm_not_spread(c);
    *a = (nck_cuda_norm_args){
        .rows = nc_norm_product(x, 0, axis),
        .cols = nc_norm_product(x, axis, x->rank),
        .mod = 1,
        .pick = nck_cuda_walk_of(x->rank - axis, x->dims + axis, strides[0], bias != NULL ? strides[1] : strides[0]),
        .epsilon = s->how.epsilon,
        .center = s->how.center};
    return NC_OK;
}

static const nc_tensor *given(nc_tensor *const *t, int n, int i) { return i < n && t[i]->data != NULL ? t[i] : NULL; }
static void *data_of(nc_tensor *const *t, int n, int i) { return i < n ? t[i]->data : NULL; }

static nc_code layer_run(const nc_call *c) {
    const norm *s = c->state;
    const nc_tensor *bias = given(c->in, c->n_in, 2);
    nck_cuda_norm_args a;
    NC_TRY(layer_args(c, c->in[0], c->in[1], bias, &a));
    void *first = data_of(c->out, c->n_out, 1), *second = data_of(c->out, c->n_out, 2);
    return nck_cuda_norm_run(&s->kernel, nck_cuda_at_call(c), &a, c->in[0]->data, c->in[1]->data,
                             bias != NULL ? bias->data : NULL, c->out[0]->data, a.center ? first : NULL,
                             a.center ? second : first);
}

static nck_cuda_norm_drop drop_of(const nc_call *c, int i_state) {
    const norm *s = c->state;
    return nck_cuda_norm_drop_of(data_of(c->in, c->n_in, i_state), s->node, s->ratio);
}

static nc_code sum_run(const nc_call *c) {
    const norm *s = c->state;
    const nc_tensor *bias = given(c->in, c->n_in, 3);
    nck_cuda_norm_args a;
    NC_TRY(layer_args(c, c->in[1], c->in[2], bias, &a));
    const nck_cuda_norm_sum of = {c->in[0]->data, c->in[1]->data, c->out[3]->data, drop_of(c, 4)};
    return nck_cuda_norm_sum_run(&s->kernel, nck_cuda_at_call(c), &a, &of, c->in[2]->data,
                                 bias != NULL ? bias->data : NULL, c->out[0]->data, c->out[1]->data, c->out[2]->data);
}

static size_t grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    const nc_tensor *x = &in[1];
    int axis = nc_norm_axis(&((const norm *)state)->how, x);
    (void)n_in, (void)out, (void)n_out;
    return nck_cuda_norm_grad_workspace(nc_norm_product(x, 0, axis), nc_norm_product(x, axis, x->rank));
}

static nc_code grad_run(const nc_call *c) {
    const norm *s = c->state;
    nck_cuda_norm_args a;
    NC_TRY(layer_args(c, c->in[1], c->in[2], NULL, &a));
    const nck_cuda_norm_grads to = {.dx = c->out[0]->data,
                                    .other = data_of(c->in, c->n_in, 3),
                                    .mean = data_of(c->in, c->n_in, 4),
                                    .inv_std = data_of(c->in, c->n_in, 5),
                                    .narrow = data_of(c->out, c->n_out, 3),
                                    .narrow_sums = data_of(c->out, c->n_out, 4),
                                    .dscale = data_of(c->out, c->n_out, 1),
                                    .dbias = data_of(c->out, c->n_out, 2),
                                    .drop = drop_of(c, 6)};
    return nck_cuda_norm_grad_run(&s->kernel, nck_cuda_at_call(c), &a, c->in[0]->data, c->in[1]->data, c->in[2]->data,
                                  &to, c->workspace);
}

/* A row is a group's channels of one image; scale and bias are the group's, or their channel's. */
static nc_code groups_run(const nc_call *c) {
    const norm *s = c->state;
    const nc_tensor *x = c->in[0];
    int64_t C = x->dims[1], size = nc_norm_product(x, 2, x->rank), G;
    NC_TRY(nc_norm_groups(&s->how, c, &G));
    if (nc_tensor_numel(x) == 0) return NC_OK;
    bool one = s->how.by_group || G == C;
    int64_t dims[2] = {C / G, size}, strides[2] = {!one, 0};
    nck_cuda_norm_args a = {.rows = x->dims[0] * G,
                            .cols = C / G * size,
                            .mod = G,
                            .row_step = one ? 1 : C / G,
                            .pick = nck_cuda_walk_of(2, dims, strides, strides),
                            .epsilon = s->how.epsilon,
                            .center = 1};
    return nck_cuda_norm_run(&s->kernel, nck_cuda_at_call(c), &a, x->data, c->in[1]->data, c->in[2]->data,
                             c->out[0]->data, NULL, NULL);
}

#define ROW(op_name, takes, kind) \
    .op = op_name, .types = T_FLOAT_ALL, .fits = takes, .prepare = norm_prepare, .own = &(const nc_norm_kind) { kind }
const nc_binding nc_norm_cuda[] = {
    {ROW("LayerNormalization", layer_fits, NC_NORM_CENTERED), .run = layer_run, .half_in = 1, .half_out = 1},
    {ROW("RMSNormalization", layer_fits, NC_NORM_UNCENTERED), .run = layer_run, .half_in = 1, .half_out = 1},
    {ROW("SimplifiedLayerNormalization", layer_fits, NC_NORM_UNCENTERED), .run = layer_run},
    {ROW("NormGrad", norm_fits, NC_NORM_GRADIENT), .domain = "nacre", .workspace = grad_workspace, .run = grad_run,
     .half_in = 3, .half_out = 1},
    {ROW("NormGradAdd", norm_fits, NC_NORM_GRADIENT), .domain = "nacre", .workspace = grad_workspace, .run = grad_run},
    {ROW("SumNorm", norm_fits, NC_NORM_OF_SUM), .domain = "nacre", .run = sum_run},
    {ROW("InstanceNormalization", layer_fits, NC_NORM_CENTERED), .run = groups_run},
    {ROW("GroupNormalization", layer_fits, NC_NORM_BY_GROUP), .run = groups_run},
    {0}};
