/* ops/random/generators_cpu.c: CPU kernels of the drawing ops over kernels/cpu/random. Numbers are drawn in float
 * (double for double) and converted. */
#include "base/real.h"
#include "kernels/cpu/move/move.h"
#include "kernels/cpu/random/philox.h"
#include "ops/card.h"
#include "ops/random/random.h"
#include "ops/widen.h"

#include <string.h>

void nc_drawing_read(const nc_node *n, const nc_draw_row *row, nc_drawing *d) {
    const nc_attr *seed = nc_node_attr(n, "seed");
    *d = (nc_drawing){.node_id = (uint32_t)n->random_id, .has_seed = seed != NULL, .b = 1};
    if (seed != NULL) memcpy(&d->seed, &seed->f, sizeof d->seed);
    if (row == NULL) return;
    d->normal = row->normal;
    d->a = nc_attr_float(n, row->a);
    d->b = nc_attr_float(n, row->b);
}

nc_code nc_draw_prepare(nc_prep *p) {
    nc_drawing *d = nc_arena_alloc(p->arena, sizeof *d);
    NC_NEED(p->w, d);
    nc_drawing_read(p->node, p->own, d);
    p->state = d;
    return NC_OK;
}

static nck_rng rng_of(const nc_call *c) {
    const nc_drawing *d = c->state;
    const int64_t *state = c->in[c->n_in - 1]->data;
    return (nck_rng){
        .seed = d->has_seed ? d->seed : (uint64_t)state[0], .node_id = d->node_id, .step = (uint32_t)state[1]};
}

static nc_code draw_wide(const nc_call *c) {
    const nc_drawing *d = c->state;
    const nc_tensor *y = c->out[0];
    if (d->normal)
        nck_random_normal(y->dtype, nc_tensor_numel(y), rng_of(c), d->a, d->b, y->data, c->pool);
    else
        nck_random_uniform(y->dtype, nc_tensor_numel(y), rng_of(c), d->a, d->b, y->data, c->pool);
    return NC_OK;
}

size_t nc_draw_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, 0, NULL, state, in, n_in, out, n_out);
}

nc_code nc_draw_numbers(const nc_call *c) { return nc_widen_run(NC_WIDEN_HALF, 0, draw_wide, c); }

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
    for (int64_t i = 0; i < n; i++) flags[i] = (double)u[i] < nc_tensor_get_any(c->in[0], i);
    nc_tensor from = *c->out[0];
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
    for (int64_t i = 0; i < n; i++) logits[i] = nc_tensor_get_any(x, i);
    nck_random_classes(x->dims[0], x->dims[1], y->dims[1], rng_of(c), logits, sums, drawn);
    for (int64_t i = 0; i < count; i++) {
        if (y->dtype == NC_INT64)
            ((int64_t *)y->data)[i] = drawn[i];
        else
            ((int32_t *)y->data)[i] = (int32_t)drawn[i];
    }
    return NC_OK;
}
