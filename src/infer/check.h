/* infer/check.h: operand types against a card's parameters, and inferred types against declared ones. */
#ifndef NC_INFER_CHECK_H
#define NC_INFER_CHECK_H

#include "ir/card.h"

/* in[i] against the version's parameter; unknown types pass. */
NC_MUST nc_code nc_infer_check(nc_work *w, const nc_node *n, const nc_infer_val *in);

/* SHAPE where the dims (-1: not known) tell that operand i does not hold one element as its parameter says. */
NC_MUST nc_code nc_infer_check_one(nc_work *w, const nc_node *n, int i, int rank, const int64_t *dims);

/* What both say of value `name`; either may be NULL. *out may be one of the two. */
NC_MUST nc_code nc_infer_merge(nc_work *w, nc_model *m, const char *name, const nc_type *declared,
                               const nc_type *inferred, const nc_type **out);

#endif
