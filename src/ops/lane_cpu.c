/* ops/lane_cpu.c: the one CPU binding of all element formulas: the tile program of a node (lane_prog.c), run as it is.
 * */
#include "ops/lane.h"

#include "ops/lane_prog.h"

bool nc_lane_cpu_fits(const nc_node *n, const char **why) {
    nc_lane_prog p;
    if (nc_lane_prog_make(&p, n)) return true;
    *why = p.why;
    return false;
}

nc_code nc_lane_cpu_prepare(nc_prep *prep) {
    nc_lane_prog *p = nc_arena_alloc(prep->arena, sizeof *p);
    nck_tile_prog *prog = nc_arena_alloc(prep->arena, sizeof *prog);
    NC_NEED(prep->w, p);
    NC_NEED(prep->w, prog);
    if (!nc_lane_prog_make(p, prep->node)) NC_FAIL(prep->w, NC_E_UNSUPPORTED, "no tile program: %s", p->why);
    *prog = nc_lane_prog_tile(p);
    prep->state = prog;
    prep->strided_in = prep->strided_out = UINT32_MAX;
    prep->over[0] = UINT32_MAX;
    return NC_OK;
}

nc_code nc_lane_cpu_run(const nc_call *c) {
    NC_TRY(nc_lane_check(c));
    nck_tile_run(c->state, c->in, c->out, c->pool);
    return NC_OK;
}

const nc_binding nc_lane_cpu = {.op = "lane",
                                .kind = NC_K_STATIC,
                                .fits = nc_lane_cpu_fits,
                                .prepare = nc_lane_cpu_prepare,
                                .run = nc_lane_cpu_run};
