/* ops/norm/norm_cuda.c: CUDA bindings of the norm family: ops run as what their cards are made of. */
#include "ops/binding.h"

const nc_binding nc_norm_cuda[] = {{0}};
