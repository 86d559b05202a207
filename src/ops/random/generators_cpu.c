/* ops/random/generators_cpu.c: CPU kernels of the drawing ops over kernels/cpu/random. Numbers are drawn in float
 * (double for double) and converted. */
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/random/philox.h"
#include "ops/card.h"
#include "ops/random/random.h"

#include <string.h>

typedef struct drawing {
    uint32_t node_id;
    bool has_seed, normal;
    uint32_t seed;
    double a, b; /* low and high, or mean and scale */
} drawing;

nc_code nc_draw_prepare(nc_prep *p) {
    const nc_node *n = p->node;
    drawing *d = nc_arena_alloc(p->arena, sizeof *d);
    NC_NEED(p->w, d);
    const nc_attr *seed = nc_node_attr(n, "seed");
    *d = (drawing){.node_id = (uint32_t)n->random_id, .has_seed = seed != NULL, .b = 1};
    if (seed != NULL) memcpy(&d->seed, &seed->f, sizeof d->seed);
    d->normal = strstr(n->card->name, "Normal") != NULL;
    if (d->normal || strstr(n->card->name, "Uniform") != NULL) {
        d->a = nc_attr_float(n, d->normal ? "mean" : "low");
        d->b = nc_attr_float(n, d->normal ? "scale" : "high");
    }
    p->state = d;
    return NC_OK;
}

static nck_rng rng_of(const nc_call *c) {
    const drawing *d = c->state;
    const int64_t *state = c->in[c->n_in - 1]->data;
    return (nck_rng){
        .seed = d->has_seed ? d->seed : (uint64_t)state[0], .node_id = d->node_id, .step = (uint32_t)state[1]};
}

static bool is_half(nc_dtype t) { return t == NC_FLOAT16 || t == NC_BFLOAT16; }

size_t nc_draw_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)n_out;
    return is_half(out[0].dtype) ? (size_t)nc_tensor_numel(&out[0]) * sizeof(float) : 0;
}

nc_code nc_draw_numbers(const nc_call *c) {
    const drawing *d = c->state;
    nc_tensor wide = c->out[0];
    int64_t n = nc_tensor_numel(&wide);
    if (is_half(wide.dtype)) wide.dtype = NC_FLOAT, wide.data = c->workspace;
    if (d->normal)
        nck_random_normal(wide.dtype, n, rng_of(c), d->a, d->b, wide.data, c->pool);
    else
        nck_random_uniform(wide.dtype, n, rng_of(c), d->a, d->b, wide.data, c->pool);
    return wide.data != c->out[0]->data ? nck_convert(&wide, c->out[0], c->pool) : NC_OK;
}

static double number_at(const nc_tensor *t, int64_t i) {
    switch (t->dtype) {
    case NC_FLOAT: return (double)((const float *)t->data)[i];
    case NC_DOUBLE: return ((const double *)t->data)[i];
    case NC_FLOAT16: return (double)nc_f16_to_f32(((const uint16_t *)t->data)[i]);
    default: return (double)nc_bf16_to_f32(((const uint16_t *)t->data)[i]);
    }
}

/* The numbers, then the flags. */
size_t nc_draw_flags_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)in, (void)n_in, (void)n_out;
    return (size_t)nc_tensor_numel(&out[0]) * (sizeof(float) + 1);
}

nc_code nc_draw_flags(const nc_call *c) {
    int64_t n = nc_tensor_numel(c->out[0]);
    float *u = c->workspace;
    bool *flags = (bool *)(u + n);
    nck_random_uniform(NC_FLOAT, n, rng_of(c), 0, 1, u, c->pool);
    for (int64_t i = 0; i < n; i++) flags[i] = (double)u[i] < number_at(c->in[0], i);
    nc_tensor from = c->out[0];
    from.dtype = NC_BOOL;
    from.data = flags;
    nc_dense_strides(from.dims, from.rank, from.strides);
    return nck_convert(&from, c->out[0], c->pool);
}

/* The input in double, the sums of a row, and the classes. */
size_t nc_draw_classes_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)n_out;
    return (size_t)(nc_tensor_numel(&in[0]) + in[0].dims[1] + nc_tensor_numel(&out[0])) * sizeof(double);
}

nc_code nc_draw_classes(const nc_call *c) {
    const nc_tensor *x = c->in[0], *y = c->out[0];
    int64_t n = nc_tensor_numel(x), count = nc_tensor_numel(y);
    double *logits = c->workspace, *sums = logits + n;
    int64_t *drawn = (int64_t *)(sums + x->dims[1]);
    if (count == 0) return NC_OK;
    if (x->dims[1] == 0) return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "there are no classes to draw from");
    for (int64_t i = 0; i < n; i++) logits[i] = number_at(x, i);
    nck_random_classes(x->dims[0], x->dims[1], y->dims[1], rng_of(c), logits, sums, drawn);
    for (int64_t i = 0; i < count; i++) {
        if (y->dtype == NC_INT64)
            ((int64_t *)y->data)[i] = drawn[i];
        else
            ((int32_t *)y->data)[i] = (int32_t)drawn[i];
    }
    return NC_OK;
}
