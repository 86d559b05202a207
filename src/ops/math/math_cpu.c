/* ops/math/math_cpu.c: CPU bindings of the math family. All its ops are lanes, which nc_lane_cpu serves. */
#include "ops/binding.h"

const nc_binding nc_math_cpu[] = {{0}};
