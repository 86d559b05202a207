/* ops/ml/svm.h: what cards and kernels of support vector machines share. */
#ifndef NC_OPS_ML_SVM_H
#define NC_OPS_ML_SVM_H

#include "ops/ml/ml.h"

int64_t nc_svm_n_scores(const nc_node *n); /* columns of the classifier's scores */

nc_code nc_svm_prepare(nc_prep *p);
size_t nc_svm_workspace(const void *state, const nc_tensor *in, int n_in, const nc_tensor *out, int n_out);
nc_code nc_svm_run(const nc_call *c);

#endif
