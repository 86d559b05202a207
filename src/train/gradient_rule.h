/* train/gradient_rule.h: gradients of the user's own for operators. */
#ifndef NC_TRAIN_GRADIENT_RULE_H
#define NC_TRAIN_GRADIENT_RULE_H

#include "run/env.h"

typedef struct nc_rule_params {
    const char *domain, *op; /* domain NULL: ONNX's own */
    const void *model;       /* a ModelProto whose inputs are I(i), O(i), GO(i) and whose outputs GI(i); NULL: none */
    size_t n_model;
    unsigned stops; /* bit i: no gradient passes to input i */
} nc_rule_params;

/* For models that are loaded later; everything is copied. */
NC_MUST nc_code nc_train_add_rule(nc_work *w, nc_env *env, const nc_rule_params *p);

#endif
