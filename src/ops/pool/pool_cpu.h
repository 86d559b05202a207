/* ops/pool/pool_cpu.h: what a pool's bindings read of its node, on any device, and the kernel's arguments from it. */
#ifndef NC_OPS_POOL_CPU_H
#define NC_OPS_POOL_CPU_H

#include "kernels/cpu/pool/pool.h"
#include "ops/binding.h"
#include "ops/pool/unpool.h"

/* Rows of nc_pool_read. */
typedef enum nc_pool_kind { NC_POOL_GREATEST, NC_POOL_MEANS, NC_POOL_SUMS, NC_POOL_GRADIENT } nc_pool_kind;

typedef struct nc_pooling {
    nc_window window;
    int64_t k[NC_WINDOW_MAX_SPATIAL];
    nck_pool_divide by;
    bool column_major;
    double p;
} nc_pooling;

bool nc_pool_fits(const nc_node *n, const char **why);
NC_MUST nc_code nc_pool_read(const nc_prep *p, nc_pool_kind kind, nc_pooling *out);
/* Of a pool from x to y; the kernel reads `from` and writes `to`. */
nck_pool_args nc_pool_args_of(const nc_pooling *s, nc_dtype type, const nc_tensor *x, const nc_tensor *y,
                              const void *from, void *to);

#endif
