/* ops/vision/vision_cuda.c: CUDA bindings of the vision family. */
#include "ops/binding.h"

const nc_binding nc_vision_cuda[] = {{0}};
