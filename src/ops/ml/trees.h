/* ops/ml/trees.h: what trees are after preparation; trees_build.c makes it, trees_cpu.c runs it. */
#ifndef NC_OPS_ML_TREES_H
#define NC_OPS_ML_TREES_H

#include "kernels/cpu/ml/forest_steps.h"
#include "ops/ml/ml.h"

typedef struct nc_trees {
    nck_forest forest; /* nodes NULL: it is laid out as steps */
    nck_steps steps;
    nck_post post;
    int64_t n_features; /* the rows must have as many */
    const double *base;
    int64_t n_base;
    const int64_t *labels; /* of a classifier */
    int64_t n_labels;
    bool one_sided, positive; /* all votes are for one class; no weight is negative */
} nc_trees;

#endif
