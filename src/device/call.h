/* device/call.h: one kernel launch, as the executor fills it and a kernel reads it. No node, no attribute, no opset. */
#ifndef NC_DEVICE_CALL_H
#define NC_DEVICE_CALL_H

#include "base/object.h"
#include "base/status.h"
#include "base/threads.h"

struct nc_device;
struct nc_stream;

typedef struct nc_call {
    const void *state; /* made by the binding's prepare; immutable, host memory */
    nc_tensor **in;    /* data NULL where an optional input is absent; device memory, but for host arguments */
    nc_tensor **out;   /* data NULL where an output is not wanted */
    int n_in, n_out;
    void *workspace; /* device memory, 64-byte aligned; contents undefined */
    size_t bytes_workspace;
    const void *const *packed; /* per pack request of the binding: packed constants in device memory */
    int n_packed;              /* must be set where packed is: a device that runs late copies the array */
    int64_t *sizes; /* bounded kernels: the true dims of each output, NC_MAX_RANK per output; device memory */
    nc_pool *pool;  /* CPU kernels */
    struct nc_device *device;
    struct nc_stream *stream;
    nc_diag *diag; /* where to say what is wrong with the data */
    const char *node, *op;
} nc_call;

typedef nc_code (*nc_kernel)(const nc_call *c);

/* Fills to[0..n-1] with pointers to the n tensors of an array: operands as a call takes them. Returns to. */
static inline nc_tensor **nc_tensor_pointers(nc_tensor **to, const nc_tensor *array, int n) {
    for (int i = 0; i < n; i++) to[i] = (nc_tensor *)(uintptr_t)&array[i];
    return to;
}
/* The same for a few operands, in the caller's block. */
#define NC_OPERANDS(array, n) nc_tensor_pointers((nc_tensor *[16]){NULL}, (array), (n))

#endif
