/* plan/plan.h: transformed graph -> lowered graph -> program.
 *
 * lower edits the session's own model: random state, what must be planned later, placement, and for each place what its
 * kernels can do: decomposition, layouts, chains, epilogues; recompute; copies between places, kernel choice with the
 * copies that strides need, variables, order. build then reads it and makes the program. Each can be dumped. */
#ifndef NC_PLAN_PLAN_H
#define NC_PLAN_PLAN_H

#include "plan/program.h"

typedef struct nc_plan_cut {
    const char *name;
    const char *const *outputs; /* names of graph outputs that must be ready at the cut */
    int n_outputs;
} nc_plan_cut;

/* The caller's choice: this node computes on that stream. */
typedef struct nc_plan_stream {
    const char *node;
    int stream; /* among those that compute */
} nc_plan_stream;

typedef struct nc_plan_options {
    nc_device *device; /* nc_device_cpu(): everything on the host */
    bool no_fusion, no_layout, no_views, no_packing, no_winograd;
    bool tune;       /* what a library of a GPU offers several ways for is tried once */
    bool tf32;       /* products of f32 on a GPU may round their operands to 10 bits */
    bool dnn_draws;  /* attention's dropout may draw cuDNN's numbers, not those of the CPU */
    bool no_host;    /* a node that computes is not put on the host: an error instead */
    bool takes_anew; /* what a cheap formula gives again is not kept for the backward pass */
    bool inner;      /* the program runs inside of another one's frame, on its streams */
    const nc_plan_cut *cuts;
    int n_cuts;
    int n_streams; /* that may compute; 0 is as good as 1 */
    const nc_plan_stream *given;
    int n_given;
    /* autodiff/autodiff.h's nc_autodiff_emit, for gradient ops that are made of gradients; NULL: such ops need a kernel
     */
    nc_code (*grad)(nc_builder *b, nc_value *const *ys, nc_value *const *dys, int n_y, nc_value *const *xs, int n_x,
                    nc_value **dxs);
} nc_plan_options;

NC_MUST nc_code nc_plan_lower(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_plan_build(nc_work *w, nc_model *m, const nc_plan_options *o, nc_program **out);

/* ---- the steps of lower, in order; each a file of its name ---- */
NC_MUST nc_code nc_lower_random(nc_work *w, nc_model *m);
NC_MUST nc_code nc_lower_deferred(nc_work *w, nc_graph *g);
NC_MUST nc_code nc_lower_captures(nc_work *w, nc_graph *g);
NC_MUST nc_code nc_lower_sums(nc_work *w, nc_model *m, const nc_plan_options *o); /* in lower_many.c */
/* whole: nothing is taken apart any more. */
NC_MUST nc_code nc_lower_place(nc_work *w, nc_model *m, const nc_plan_options *o, bool whole);
NC_MUST nc_code nc_lower_decompose(nc_work *w, nc_model *m, const nc_plan_options *o, bool *changed); /* once each */
NC_MUST nc_code nc_lower_apart(nc_work *w, nc_node *n); /* n's pieces in its place, whatever kernels there are */
NC_MUST nc_code nc_lower_place_and_decompose(nc_work *w, nc_model *m, const nc_plan_options *o); /* both, in lower.c */
NC_MUST nc_code nc_lower_recompute(nc_work *w, nc_model *m);
NC_MUST nc_code nc_lower_backward(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_casts(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_lines(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_dropout(nc_work *w, nc_model *m, const nc_plan_options *o);
bool nc_lower_drops(const nc_node *n, double *ratio); /* of dropout: n drops by a ratio known here, and keeps no mask */
NC_MUST nc_code nc_lower_residual(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_sum_norm(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_onto(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_parameters(nc_work *w, nc_model *m, const nc_plan_options *o); /* in lower_many.c */
/* May its one result become another node's? Do the kernels of its place work on blocks of channels, as the CPU's do? */
bool nc_lower_may_go(const nc_node *n);
bool nc_lower_same_dims(const nc_type *a, const nc_type *b); /* of tensors: by pointer, and in the same blocks */
bool nc_lower_is_codes(const nc_type *t);                    /* a tensor of 8 bits with dims, not in blocks */
bool nc_lower_on_cpu(const nc_node *n, const nc_plan_options *o);
NC_MUST nc_code nc_lower_conv_integer(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_conv_codes(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_code_maps(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_codes_last(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_widen(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_channels(nc_work *w, nc_model *m, const nc_plan_options *o);
bool nc_layout_can_block(const nc_node *n, nc_blocking *k, const nc_plan_options *o); /* of layout: may n take it? */
NC_MUST nc_code nc_lower_layout(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_chain(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_group(nc_work *w, nc_model *m, const nc_plan_options *o);
/* Of epilogue: the formulas of `lanes`, a lane or a chain, as `both`'s body, whose inputs are the operands. */
NC_MUST nc_code nc_lower_body(nc_work *w, nc_node *both, nc_node *lanes, nc_value *const *operands, int n);
NC_MUST nc_code nc_lower_epilogue(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_gelu(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_rows(nc_work *w, nc_model *m, const nc_plan_options *o);
NC_MUST nc_code nc_lower_copy(nc_work *w, nc_graph *g, const nc_plan_options *o);
NC_MUST nc_code nc_choose_node(nc_work *w, nc_node *n, const nc_plan_options *o); /* of choose: one node put in later */
NC_MUST nc_code nc_lower_choose(nc_work *w, nc_graph *g, const nc_plan_options *o);
NC_MUST nc_code nc_lower_order(nc_work *w, nc_graph *g, const nc_plan_options *o);

/* ---- places: 0 the host, 1 the session's device ---- */
static inline nc_device *nc_device_at(const nc_plan_options *o, int place) {
    return place ? o->device : nc_device_cpu();
}
static inline const char *nc_kernels_at(const nc_plan_options *o, int place) {
    return nc_device_at(o, place)->table->kernels;
}
static inline bool nc_wants_host(const nc_node *n, int i) {
    return i < 32 && i < n->n_in && (n->card->host_in >> i & 1);
}
static inline bool nc_wants_dims_only(const nc_node *n, int i) {
    return i < 32 && i < n->n_in && (n->card->dims_only_in >> i & 1);
}

/* A kernel that takes the calls that its guard holds for. */
typedef struct nc_guarded {
    const nc_binding *binding;
    const void *state;
} nc_guarded;
#define NC_MAX_VARIANTS 4

/* What choose attaches to node->lowered. */
typedef struct nc_choice {
    const nc_binding *binding;
    nc_guarded variants[NC_MAX_VARIANTS]; /* asked in turn before binding */
    int n_variants;
    nc_prep prep;
    bool view; /* outputs are views of input 0 */
    int phase; /* index of the first cut it belongs before; n_cuts: after all */
    NC_VEC(nc_node *)
    then;     /* nodes that must come later although no value says so: they overwrite what this one reads */
    int mark; /* scratch of order.c */
} nc_choice;
extern const nc_card nc_card_deferred;
static inline bool nc_is_deferred(const nc_node *n) { return n->card == &nc_card_deferred; }
static inline bool nc_rank_is_unknown(const nc_type *t) {
    return t && t->kind == NC_T_TENSOR && t->elem != NC_STRING && t->rank < 0;
}
static inline nc_choice *nc_choice_of(const nc_node *n) { return n->lowered; }
/* The kernel for this call; sets the call's state to its own. */
static inline const nc_binding *nc_choice_pick(const nc_choice *c, nc_call *call) {
    for (int i = 0; i < c->n_variants; i++) {
        if (!c->variants[i].binding->guard(c->variants[i].state, call)) continue;
        call->state = c->variants[i].state;
        return c->variants[i].binding;
    }
    if (c->n_variants) call->state = c->prep.state;
    return c->binding;
}
static inline bool nc_may_lie_over(const nc_choice *c, int i_out, int i_in) {
    return i_out < NC_MAX_OVER && i_in < 32 && (c->prep.over[i_out] >> i_in & 1);
}

extern const nc_binding nc_transfer_binding; /* of Copy nodes between places: the executor asks the device to copy */

/* True when v's bytes are v's producer's input 0 seen otherwise. */
static inline bool nc_is_view(const nc_value *v) { return v->def && v->def->lowered && nc_choice_of(v->def)->view; }
bool nc_reads_packed(const nc_node *n, int i); /* operand i has its bytes packed, here or by all who read this view */
bool nc_value_is_dense(const nc_value *v);     /* by the views between it and its root */
bool nc_type_is_host(const nc_type *t);        /* strings, sequences, optionals, maps, tapes */

#endif
