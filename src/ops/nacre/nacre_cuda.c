/* ops/nacre/nacre_cuda.c: CUDA bindings of the ops that passes and gradients make. */
#include "ops/binding.h"

const nc_binding nc_nacre_cuda[] = {{0}};
