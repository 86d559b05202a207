/* ops/control/control.h: what If, Loop and the tape ops share. Private to the family. */
#ifndef NC_OPS_CONTROL_CONTROL_H
#define NC_OPS_CONTROL_CONTROL_H

#include "ops/build.h"
#include "ops/card.h"

/* What outputs of control flow may be: ONNX's set V of the version, and tapes, which gradients add. */
#define T_FLOW_1 (T_TENSOR | T_TAPE)
#define T_FLOW_13 (T_FLOW_1 | T_SEQ)
#define T_FLOW_16 (T_FLOW_13 | NC_BIT(NC_BFLOAT16) | T_OPT)

/* MIXED, also none at all. */
#define MIXED_OR_NONE .flags = NC_P_VARIADIC | NC_P_HETEROGENEOUS | NC_P_OPTIONAL

/* Which dims mean something outside of a node's subgraphs: those over symbols of its operands. */
typedef struct nc_scope {
    nc_infer *c;
    bool *known; /* per symbol there was when the scope was made */
    int n_known;
} nc_scope;
NC_MUST nc_code nc_scope_init(nc_scope *s, nc_infer *c);
NC_MUST nc_code nc_scope_holds(const nc_scope *s, const nc_dim *d, bool *out);
/* The type that holds for both a and b, as seen outside: equal dims that mean something there stay, others become fresh
 * symbols; differing ranks become unknown. TYPE: differing kinds or elements; `what` names the value in the message. */
NC_MUST nc_code nc_scope_join(const nc_scope *s, const nc_type *a, const nc_type *b, const char *what,
                              const nc_type **out);

/* ---- decompositions into Loop ---- */

/* The nodes of subgraph i of n once more in b's graph, which n's graph encloses: `in` stands for its inputs; out gets
 * its outputs. */
NC_MUST nc_code nc_control_inline(nc_builder *b, const nc_node *n, int i_sub, nc_value *const *in, nc_value **out);

/* A Loop over `trips` that is being built: give `carried`, fill the body through b, end it. */
typedef struct nc_control_loop {
    nc_node *node;
    nc_builder b;       /* of the body */
    nc_value *iter;     /* which iteration, rank 0 */
    nc_value **carried; /* inputs of the body */
    int n_carried;
    nc_value *go; /* to be filled before the end: whether there is a next iteration; NULL: `trips` alone decides */
} nc_control_loop;
NC_MUST nc_code nc_control_loop_begin(nc_builder *b, nc_value *trips, nc_value *const *carried, int n_carried,
                                      int n_scan, nc_control_loop *l);
/* out: n_carried values for the next iteration, then those that are stacked. */
NC_MUST nc_code nc_control_loop_end(nc_builder *b, nc_control_loop *l, nc_value *const *out);

/* ---- gradients ---- */
NC_MUST nc_code nc_if_grad(nc_grad *g);
NC_MUST nc_code nc_loop_grad(nc_grad *g);

const nc_type *nc_tape_type(nc_model *m);
nc_value *nc_tape_empty(nc_builder *b);
nc_value *nc_tape_push(nc_builder *b, nc_value *tape, nc_value *const *values, int n);
/* A gradient of nothing: zeros like v, or an empty tape. */
nc_value *nc_tape_zeros(nc_builder *b, nc_value *v);

#endif
