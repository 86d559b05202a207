/* ops/index/index_cuda.c: CUDA bindings of the index family. */
#include "ops/binding.h"

const nc_binding nc_index_cuda[] = {{0}};
