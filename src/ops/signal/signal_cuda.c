/* ops/signal/signal_cuda.c: CUDA has no kernels of its own for signals. */
#include "ops/binding.h"

const nc_binding nc_signal_cuda[] = {{0}};
