/* ops/ml/ml_cuda.c: CUDA bindings of the ml family: none, its tables stand on the host. */
#include "ops/binding.h"

const nc_binding nc_ml_cuda[] = {{0}};
