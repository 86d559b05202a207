/* transform/infer/attention.h: the parts of the pass `attention`. */
#ifndef NC_TRANSFORM_ATTENTION_H
#define NC_TRANSFORM_ATTENTION_H

#include "transform/pattern.h"
#include "transform/transform.h"

/* Attention takes in how its heads are repeated, split off and joined (attention_heads.c). */
NC_MUST nc_code nc_attention_heads(nc_work *w, nc_graph *g, int *n_changes);
/* Masks that are triangles become its is_causal (attention_causal.c). */
NC_MUST nc_code nc_attention_causal(nc_work *w, nc_graph *g, int *n_changes);

#endif
