/* ops/attention/attention_cuda.c: CUDA bindings of the attention family: none yet, its ops run on the host. */
#include "ops/binding.h"

const nc_binding nc_attention_cuda[] = {{0}};
