/* ops/shape/shape_cuda.c: CUDA bindings of the shape family. Views are the same on every device. */
#include "ops/shape/shape.h"

const nc_binding nc_shape_cuda[] = {NC_SHAPE_VIEWS, {0}};
