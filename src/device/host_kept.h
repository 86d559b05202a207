/* device/host_kept.h: large blocks of host memory that were freed and are kept for the next who asks: results of one
 * run are mostly released before the next one, and fresh pages cost more to clear than many kernels to fill. Kept while
 * a session lives; what nobody asks for again leaves with the misses of others. Thread-safe. */
#ifndef NC_DEVICE_HOST_KEPT_H
#define NC_DEVICE_HOST_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#define NC_HOST_KEPT_FROM ((size_t)1 << 17) /* bytes; the libc itself keeps what is smaller */

void nc_host_kept_users(int more);            /* 1: a session begins, -1: one ends; with the last all blocks go */
void *nc_host_kept_take(size_t *bytes);       /* a block of at least so many bytes, and of how many; NULL: none */
bool nc_host_kept_put(void *p, size_t bytes); /* takes a block of nc_alloc_aligned; false: it is not kept */
size_t nc_host_kept_trim(void);               /* frees them all: how many bytes */

#endif
