/* ops/reduce/reduce_cuda.c: CUDA bindings of the reduce family. */
#include "ops/binding.h"

const nc_binding nc_reduce_cuda[] = {{0}};
