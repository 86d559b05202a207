/* ir/assume.h: what is taken where a model is wrong or says too little. The first of each kind is a warning, further
 * ones are told at INFO; a strict model refuses them. Written while a model is read, inferred or planned, by one
 * thread; runs only ask. */
#ifndef NC_IR_ASSUME_H
#define NC_IR_ASSUME_H

#include "ir/graph.h"

/* detail: what the model has, for the message. Fails where the model is strict about the kind. */
NC_MUST nc_code nc_assume(nc_work *w, nc_model *m, nc_assumption kind, const char *detail, ...) NC_PRINTF(4, 5);
/* From now on these kinds (bit = kind) are refused; fails where one of them has been assumed before. */
NC_MUST nc_code nc_assume_strictly(nc_work *w, nc_model *m, unsigned kinds);
const char *nc_assumption_text(nc_assumption kind);
static inline bool nc_assumes_not(const nc_model *m, nc_assumption kind) { return m->strict >> kind & 1; }

#endif
