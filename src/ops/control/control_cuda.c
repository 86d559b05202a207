/* ops/control/control_cuda.c: control flow runs on the host, whatever its bodies run on. */
#include "ops/binding.h"

extern const nc_binding nc_control_cuda[];
const nc_binding nc_control_cuda[] = {{0}};
