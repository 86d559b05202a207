/* ops/math/math_cuda.c: CUDA bindings of the math family. All its ops are lanes, which nc_lane_cuda serves. */
#include "ops/binding.h"

const nc_binding nc_math_cuda[] = {{0}};
