/* ops/scatter/scatter_cuda.c: CUDA bindings of the scatter family. */
#include "ops/binding.h"

const nc_binding nc_scatter_cuda[] = {{0}};
