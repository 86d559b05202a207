/* ops/vision/vision_cpu.c: CPU bindings of the vision family. */
#include "ops/vision/vision.h"

#define T_MOVABLE (T_TENSOR_ALL & ~T_STRING)
#define RESIZE .prepare = nc_resize_prepare, .workspace = nc_resize_workspace, .run = nc_resize_run

const nc_binding nc_vision_cpu[] = {{.op = "Resize", .types = T_MOVABLE & ~T_COMPLEX, RESIZE},
                                    {.op = "Upsample", .types = T_MOVABLE & ~T_COMPLEX, RESIZE},
                                    {.op = "ResizeGrad",
                                     .domain = "nacre",
                                     .types = T_FLOAT_ALL,
                                     .prepare = nc_resize_prepare,
                                     .workspace = nc_resize_grad_workspace,
                                     .run = nc_resize_grad_run},
                                    {0}};
