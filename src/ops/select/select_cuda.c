/* ops/select/select_cuda.c: CUDA bindings of the select family. */
#include "ops/binding.h"

const nc_binding nc_select_cuda[] = {{0}};
