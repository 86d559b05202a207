/* run/upload.h: many host blocks into one block of a device's memory. */
#ifndef NC_RUN_UPLOAD_H
#define NC_RUN_UPLOAD_H

#include "base/threads.h"
#include "device/device.h"

typedef struct nc_upload {
    const void *src;
    size_t bytes;
    size_t offset; /* filled: where in the block it lies; a multiple of 256 */
} nc_upload;

/* Done when it returns; the block is charged to the budget (may be NULL). */
NC_MUST nc_code nc_upload_all(nc_work *w, nc_pool *pool, nc_device *d, nc_budget *budget, nc_upload *list, int n,
                              nc_buffer **out);

#endif
