/* transform/transform.h: meaning-keeping rewrites, graph -> graph, in place. passes.list names them; each can be
 * switched off.
 *
 * The graph has been inferred before; passes keep types and elements true and ask no inference. */
#ifndef NC_TRANSFORM_TRANSFORM_H
#define NC_TRANSFORM_TRANSFORM_H

#include "ir/card.h"

typedef struct nc_transform_options {
    int level; /* 0: none, 1: basic, 2: extended, 3: all */
    bool after_gradient;
    bool trains; /* before a gradient; constants that it asks for are versions of a variable, the model infers_only */
    bool newer;  /* nobody else reads what is made, as in a session that infers: phase NEWER may make newer ops */
    const char *const *off; /* names of passes not to run */
    int n_off;
    const struct nc_rules *rules; /* of the user, transform/rules.h; NULL: none */
} nc_transform_options;

/* Runs the passes of the phase up to the level over all graphs, until nothing changes. An unknown name in `off` is an
 * error that lists the known ones. How much each pass changed is logged at INFO, refused patterns at VERBOSE. */
NC_MUST nc_code nc_transform(nc_work *w, nc_model *m, const nc_transform_options *o);

/* One pass over one graph, subgraphs excluded; adds how many changes it made. */
typedef nc_code (*nc_pass)(nc_work *w, nc_graph *g, int *n_changes);
#define PASS(name, level, phase, doc) NC_MUST nc_code nc_pass_##name(nc_work *w, nc_graph *g, int *n_changes);
#include "transform/passes.list"
#undef PASS
/* What those of phase NEWER do where newer ops are welcome. */
NC_MUST nc_code nc_pass_normalizations_newer(nc_work *w, nc_graph *g, int *n_changes);
NC_MUST nc_code nc_pass_activations_newer(nc_work *w, nc_graph *g, int *n_changes);
NC_MUST nc_code nc_pass_attention_newer(nc_work *w, nc_graph *g, int *n_changes);

/* The i-th pass's name, level and line of documentation; NULL past the end. */
const char *nc_transform_name(int i, int *level, const char **doc);

#endif
