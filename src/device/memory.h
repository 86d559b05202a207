/* device/memory.h: what the devices share about memory: counting bytes against what the machine has, and a table of
 * blocks that finds the one an address lies in. Only the counters are thread-safe: a table's device locks. */
#ifndef NC_DEVICE_MEMORY_H
#define NC_DEVICE_MEMORY_H

#include "device/device.h"

/* Books bytes; MEMORY when bytes_limit would be passed, and then nothing is booked. */
NC_MUST nc_code nc_device_take(nc_device *d, size_t bytes, nc_diag *diag);
void nc_device_give(nc_device *d, size_t bytes);

typedef struct nc_block {
    uintptr_t start;
    size_t bytes;
    void *data; /* the device's own word about the block */
} nc_block;

typedef struct nc_block_table {
    nc_block *v; /* sorted by start */
    size_t n, cap;
} nc_block_table;

/* The block with start <= p <= start + bytes; NULL: none. One past the end counts, for empty tensors there. */
const nc_block *nc_blocks_find(const nc_block_table *t, const void *p);
size_t nc_blocks_lower(const nc_block_table *t, uintptr_t p); /* index of the first block with start >= p, or n */
NC_MUST bool nc_blocks_add(nc_block_table *t, nc_block b);    /* false: out of memory */
NC_MUST bool nc_blocks_remove(nc_block_table *t, const void *start, nc_block *out); /* false: no block starts there */
void nc_blocks_release(nc_block_table *t);

#endif
