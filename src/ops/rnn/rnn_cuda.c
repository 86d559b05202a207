/* ops/rnn/rnn_cuda.c: CUDA bindings of the rnn family: none, recurrent layers run on the host. */
#include "ops/binding.h"

const nc_binding nc_rnn_cuda[] = {{0}};
