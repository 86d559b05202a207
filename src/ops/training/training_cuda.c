/* ops/training/training_cuda.c: CUDA has no bindings of its own for the training operators: those with mathematics run
 * as gradient ops of their families, the others on the host. */
#include "ops/binding.h"

const nc_binding nc_training_cuda[] = {{0}};
