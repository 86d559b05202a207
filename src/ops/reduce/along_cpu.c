/* ops/reduce/along_cpu.c: CPU bindings of ArgMax, ArgMin, CumSum and CumProd over kernels/cpu/reduce/along.h. Narrow
 * types go through wider ones (ops/widen.h). */
#include "ops/reduce/along_cpu.h"

#include "kernels/cpu/reduce/along.h"
#include "ops/widen.h"

#define T_NARROW (NC_WIDEN_HALF | NC_WIDEN_INTS)

nc_code nc_arg_prepare(nc_prep *p) {
    nc_arg *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = nc_arg_read(p->node, *(const nc_arg_row *)p->own);
    p->state = s;
    return NC_OK;
}

nc_code nc_arg_run(const nc_call *c) {
    const nc_arg *s = c->state;
    nc_tensor room;
    const nc_tensor *x;
    int axis;
    NC_TRY(nc_arg_lines(s, c, &room, &x, &axis));
    return nck_arg(x, axis, s->smallest, s->last, c->out[0]->data, c->pool);
}

size_t nc_arg_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(T_NARROW, 0, NULL, state, in, n_in, out, n_out);
}

nc_code nc_arg_narrow_run(const nc_call *c) { return nc_widen_run(T_NARROW, 0, nc_arg_run, c); }

nc_code nc_cumulate_prepare(nc_prep *p) {
    nc_cumulate *s = nc_arena_alloc(p->arena, sizeof *s);
    NC_NEED(p->w, s);
    *s = nc_cumulate_read(p->node, *(const nc_cumulate_row *)p->own);
    p->state = s;
    return NC_OK;
}

nc_code nc_cumulate_run(const nc_call *c) {
    const nc_cumulate *s = c->state;
    nc_tensor room;
    const nc_tensor *x;
    int axis;
    NC_TRY(nc_cumulate_lines(c, &room, &x, &axis));
    return nck_cumulate(x, axis, s->product, s->exclusive, s->reverse, c->out[0]->data, c->pool);
}

size_t nc_cumulate_narrow_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out) {
    return nc_widen_workspace(NC_WIDEN_HALF | NC_BIT(NC_UINT32), 0, NULL, state, in, n_in, out, n_out);
}

nc_code nc_cumulate_narrow_run(const nc_call *c) {
    return nc_widen_run(NC_WIDEN_HALF | NC_BIT(NC_UINT32), 0, nc_cumulate_run, c);
}
