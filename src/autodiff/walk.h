/* autodiff/walk.h: one reverse walk over one graph; private to autodiff/. mark.c finds the differentiable ways, walk.c
 * goes back along them, sub.c starts walks of subgraphs for control flow.
 *
 * A walk reads `graph` and emits through `b`: into the same graph (the outermost walk), or into a subgraph of the
 * reverse node of graph's owner. All of it lives in the work's scratch memory. */
#ifndef NC_AUTODIFF_WALK_H
#define NC_AUTODIFF_WALK_H

#include "ops/build.h"

/* What a walk knows of a value of its graph. */
typedef struct nc_walk_info {
    bool reached;             /* depends on what is asked for */
    bool needed;              /* what is differentiated depends on it, by a way that a gradient can take */
    bool used;                /* the same by any way that reads its elements */
    nc_value *by;             /* its node was decomposed: the value that took its place */
    nc_value *seen;           /* how it is seen from the gradient's graph */
    NC_VEC(nc_value *) parts; /* gradients that arrived, in order of arrival */
    nc_value *sum;            /* of the first n_summed parts */
    int n_summed;
} nc_walk_info;

typedef struct nc_walk {
    nc_work *w;
    nc_graph *graph;
    nc_builder *b;
    nc_map info;            /* value id -> nc_walk_info */
    nc_map popped;          /* of a subgraph: dim expressions -> symbols of what is popped */
    struct nc_walk *parent; /* walks the graph around; NULL: outermost */
    nc_grad_sub *sub;       /* NULL: outermost */
} nc_walk;

void nc_walk_init(nc_walk *k, nc_work *w, nc_graph *g, nc_builder *b);
nc_walk_info *nc_walk_of(nc_walk *k, const nc_value *v);               /* made at first use; NULL: out of memory */
const nc_walk_info *nc_walk_peek(const nc_walk *k, const nc_value *v); /* NULL: nothing is known */
nc_value *nc_walk_now(const nc_walk *k, nc_value *v);                  /* v, or what took its place */

/* ---- mark.c ---- */
bool nc_walk_carries(const nc_type *t);               /* may values of this type have a gradient? */
bool nc_walk_is_code(const nc_value *v);              /* made by an op that NC_ENCODES: has a gradient of floats */
const nc_grad_rule *nc_walk_rule(const nc_node *n);   /* the user's own gradient of its op; NULL: none */
bool nc_walk_passes(const nc_node *n, int i_operand); /* may a gradient pass from n's outputs to this operand? */
bool nc_walk_reached(const nc_walk *k, const nc_value *v);
NC_MUST nc_code nc_walk_reach(nc_walk *k, const nc_node *n); /* marks n's outputs if an operand is reached */
NC_MUST nc_code nc_walk_mark(nc_walk *k, nc_value *v, bool reached, bool needed); /* adds marks */
NC_MUST nc_code nc_walk_mark_reached(nc_walk *k);                                 /* from marked values on */
NC_MUST nc_code nc_walk_mark_needed(nc_walk *k);                                  /* from marked values back */
NC_MUST nc_code nc_walk_mark_used(nc_walk *k, const nc_value *v);
NC_MUST nc_code nc_walk_check_codes(nc_walk *k); /* all is marked: no code is used but by what decodes it */

/* ---- walk.c ---- */
NC_MUST nc_code nc_walk_prepare(nc_walk *k); /* with xs marked reached and ys needed: marks, decomposes */
NC_MUST nc_code nc_walk_add(nc_walk *k, nc_value *v, nc_value *dv); /* one more gradient arrives at v */
NC_MUST nc_code nc_walk_run(nc_walk *k);
NC_MUST nc_code nc_walk_sum(nc_walk *k, nc_value *v, nc_value **out); /* NULL: none arrived */
nc_value *nc_walk_see(nc_walk *k, nc_value *v); /* a forward value from b's graph; NULL: b->code says why */

/* ---- path.c ---- */
nc_code nc_walk_refuse(nc_walk *k, const nc_node *n); /* UNSUPPORTED: n has no gradient; tells a way that needs it */

/* ---- sub.c ---- */
void nc_walk_give_subs(nc_grad *g); /* fills the hooks for control flow */

#endif
