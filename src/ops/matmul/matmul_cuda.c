/* ops/matmul/matmul_cuda.c: CUDA bindings of the matmul family. */
#include "ops/binding.h"

const nc_binding nc_matmul_cuda[] = {{0}};
