/* ops/pool/pool_cuda.c: CUDA bindings of the pool family. */
#include "ops/binding.h"

const nc_binding nc_pool_cuda[] = {{0}};
