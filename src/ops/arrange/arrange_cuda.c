/* ops/arrange/arrange_cuda.c: CUDA bindings of the arrange family. */
#include "ops/binding.h"

const nc_binding nc_arrange_cuda[] = {{0}};
