/* ops/string/string_cuda.c: CUDA has no bindings for strings: they are objects of the host. */
#include "ops/binding.h"

const nc_binding nc_string_cuda[] = {{0}};
