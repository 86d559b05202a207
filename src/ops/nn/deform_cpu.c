/* ops/nn/deform_cpu.c: DeformConv and its gradient on the CPU, over kernels/cpu/conv/deform.h. */
#include "kernels/cpu/conv/deform.h"

#include "ops/nn/nn_cpu.h"
#include "ops/widen.h"
#include "ops/window.h"

typedef struct deform {
    nc_window window;
    int64_t offset_group;
} deform;

nc_code nc_deform_prepare(nc_prep *p) {
    deform *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    s->offset_group = nc_attr_int(p->node, "offset_group");
    if (s->offset_group < 1) NC_FAIL(p->w, NC_E_BAD_GRAPH, "offset_group is %lld", (long long)s->offset_group);
    p->state = s;
    return nc_window_read(p->w, p->node, 2, &s->window);
}

size_t nc_deform_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)n_out;
    return nck_deform_bytes(&in[0], &in[1], &out[0]);
}

static const nc_tensor *deform_given(const nc_call *c, int i) {
    return c->n_in > i && c->in[i]->data != NULL ? c->in[i] : NULL;
}

static bool is(const nc_tensor *t, int64_t a, int64_t b, int64_t d, int64_t e) {
    return t->rank == 4 && t->dims[0] == a && t->dims[1] == b && t->dims[2] == d && t->dims[3] == e;
}

/* What the sizes and operands say, `y` being the output or its gradient; fails where they do not fit. */
static nc_code deform_read(const nc_call *c, const nc_tensor *y_tensor, nck_deform *out) {
    const deform *s = c->state;
    nck_deform d = {.group = s->window.group,
                    .offset_group = s->offset_group,
                    .x = c->in[0],
                    .w = c->in[1],
                    .offset = c->in[2],
                    .bias = deform_given(c, 3),
                    .mask = deform_given(c, 4),
                    .y = y_tensor,
                    .columns = c->workspace};
    int64_t taps = d.w->dims[2] * d.w->dims[3], channels = d.x->dims[1];
    const int64_t *y = d.y->dims;
    if (channels % s->offset_group != 0 || d.w->dims[1] * d.group != channels || y[1] % d.group != 0)
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op,
                           "X has %lld channels, W takes %lld in %lld groups, offsets have %lld groups",
                           (long long)channels, (long long)d.w->dims[1], (long long)d.group,
                           (long long)s->offset_group);
    if (!is(d.offset, y[0], 2 * s->offset_group * taps, y[2], y[3]) ||
        (d.mask != NULL && !is(d.mask, y[0], s->offset_group * taps, y[2], y[3])) ||
        (d.bias != NULL && nc_tensor_numel(d.bias) != y[1]))
        return nc_diag_set(c->diag, NC_E_SHAPE, c->node, c->op, "offset, B or mask does not fit X and W");
    d.window = nc_window_kernel(&s->window, d.x->dims + 2, d.w->dims + 2, y + 2);
    *out = d;
    return NC_OK;
}

nc_code nc_deform_run(const nc_call *c) {
    nck_deform d;
    if (nc_tensor_numel(c->out[0]) == 0) return NC_OK;
    NC_TRY(deform_read(c, c->out[0], &d));
    nck_deform_run(&d, c->pool);
    return NC_OK;
}

size_t nc_deform_grad_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    (void)state, (void)n_in, (void)out, (void)n_out;
    return nck_deform_grad_bytes(&in[0], &in[1], &in[5]);
}

static const nc_tensor *deform_made(const nc_call *c, int i) {
    return i < c->n_out && c->out[i]->data != NULL ? c->out[i] : NULL;
}

nc_code nc_deform_grad_run(const nc_call *c) {
    nck_deform d;
    NC_TRY(deform_read(c, c->in[5], &d));
    d.dx = deform_made(c, 0), d.dw = deform_made(c, 1), d.doffset = deform_made(c, 2);
    d.dbias = deform_made(c, 3), d.dmask = deform_made(c, 4);
    nck_deform_grad_run(&d, c->pool);
    return NC_OK;
}

size_t nc_deform_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, 0, nc_deform_workspace, state, in, n_in, out, n_out);
}
nc_code nc_deform_half_run(const nc_call *c) { return nc_widen_run(NC_WIDEN_HALF, 0, nc_deform_run, c); }

size_t nc_deform_grad_half_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out,
                                     int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF, 0, nc_deform_grad_workspace, state, in, n_in, out, n_out);
}
nc_code nc_deform_grad_half_run(const nc_call *c) { return nc_widen_run(NC_WIDEN_HALF, 0, nc_deform_grad_run, c); }
