/* plan/build.h: shared by the files that make a program; nobody else includes it. */
#ifndef NC_PLAN_BUILD_H
#define NC_PLAN_BUILD_H

#include "plan/plan.h"

typedef struct nc_build_ctx {
    nc_work *w;
    const nc_plan_options *o;
    nc_program *p;
    const nc_graph *g;
    const struct nc_build_ctx *outer; /* of the graph around a subgraph; NULL: the main graph */
    int *slot_of;                     /* by value id; -1: none. One array for all graphs of the model */
    int *output_of;                   /* by value id: the output that it is first; the same array for all graphs */
    bool *seen; /* per symbol: inputs, captures, variables or the nodes so far have it, here or around */
    nc_map dim_index;
    NC_VEC(nc_slot) slots;
    NC_VEC(const nc_dim *) dims;
    NC_VEC(nc_prog_const) consts;
    NC_VEC(nc_prog_pack) packs;
} nc_build_ctx;

NC_MUST nc_code nc_build_program(nc_work *w, const nc_graph *g, const nc_plan_options *o, const nc_build_ctx *outer,
                                 nc_program **out); /* build.c */

/* The steps, in order. */
NC_MUST nc_code nc_build_slots(nc_build_ctx *c);    /* slots.c: slots, instructions, storage */
NC_MUST nc_code nc_build_segments(nc_build_ctx *c); /* segments.c: segments, sizing, cuts */
NC_MUST nc_code nc_build_assign(nc_build_ctx *c);   /* assign.c: a stream for every instruction */
NC_MUST nc_code nc_build_lives(nc_build_ctx *c);    /* lives.c: roots, lifetimes, in-place, moves */
NC_MUST nc_code nc_build_streams(nc_build_ctx *c);  /* streams.c: events, clocks, what can be captured */
NC_MUST nc_code nc_build_steady(nc_build_ctx *c);   /* steady.c: what a run does again though sizes stay */

#endif
