/* transform/infer/attention.h: the two halves of the pass `attention`. */
#ifndef NC_TRANSFORM_ATTENTION_H
#define NC_TRANSFORM_ATTENTION_H

#include "transform/pattern.h"
#include "transform/transform.h"

/* Attention takes in how its heads are repeated, split off and joined (attention_heads.c). */
NC_MUST nc_code nc_attention_heads(nc_work *w, nc_graph *g, int *n_changes);

#endif
