/* ops/sequence/sequence_cuda.c: CUDA has no bindings for sequences: they are objects of the host. */
#include "ops/binding.h"

const nc_binding nc_sequence_cuda[] = {{0}};
