/* ops/nn/nn_cuda.c: CUDA bindings of the nn family. */
#include "ops/binding.h"

const nc_binding nc_nn_cuda[] = {{0}};
