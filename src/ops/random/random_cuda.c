/* ops/random/random_cuda.c: CUDA bindings of the random family. */
#include "ops/binding.h"

const nc_binding nc_random_cuda[] = {{0}};
