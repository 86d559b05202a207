/* ops/ml/linear.h: what cards and kernels of the linear models share. */
#ifndef NC_OPS_ML_LINEAR_H
#define NC_OPS_ML_LINEAR_H

#include "ops/ml/ml.h"

int64_t nc_linear_n_scores(const nc_node *n); /* of LinearClassifier, before one becomes two */

nc_code nc_linear_regressor_prepare(nc_prep *p);
nc_code nc_linear_classifier_prepare(nc_prep *p);
size_t nc_linear_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
nc_code nc_linear_regressor_run(const nc_call *c);
nc_code nc_linear_classifier_run(const nc_call *c);

#endif
