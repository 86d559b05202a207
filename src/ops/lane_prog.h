/* ops/lane_prog.h: element formulas of a node as a tile program, the same for every device. lane_cpu.c runs it,
 * lane_cuda.c makes a kernel of it. */
#ifndef NC_OPS_LANE_PROG_H
#define NC_OPS_LANE_PROG_H

#include "device/call.h"
#include "ir/graph.h"
#include "kernels/cpu/tile.h"

#define NC_LANE_PROG_MAX_OPS 64

typedef struct nc_lane_prog {
    nc_dtype compute;
    int n_in, n_out, n_reg, n_op;
    nck_tile_op op[NC_LANE_PROG_MAX_OPS];
    uint16_t out_reg[NCK_TILE_MAX_OUT];
    const char *why; /* set: the node is refused */
} nc_lane_prog;

/* False: p->why says why not. */
bool nc_lane_prog_make(nc_lane_prog *p, const nc_node *n);

/* The same of a chain that is not made yet: n nodes in graph order, of which only the last one's result leaves. */
bool nc_lane_prog_group(nc_lane_prog *p, nc_node *const *nodes, int n);

/* The same of element formulas that are a part of another kernel: body's inputs and outputs are the program's. */
bool nc_lane_prog_body(nc_lane_prog *p, const nc_graph *body);

/* Borrows p. */
nck_tile_prog nc_lane_prog_tile(const nc_lane_prog *p);

/* SHAPE unless every operand of the call broadcasts to its first result: dims that were symbols when the session was
 * made are known to fit only now. */
NC_MUST nc_code nc_lane_check(const nc_call *c);

#endif
