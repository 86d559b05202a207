/* device/cuda_memory.h: a CUDA device's memory: blocks that were freed are kept and used again, so that the steady
 * state asks the driver for nothing. Private to the CUDA device; thread-safe.
 *
 * A block that was freed on a stream is used again on it at once, since work there runs in order, and elsewhere when a
 * point behind the free has been passed. One that was freed without a stream waits for points on every stream that has
 * work under way; one whose address was shown outside (nc_cuda_memory_lend), for CUDA's stream 0 as well. Nothing is
 * waited for unless memory is short or nothing is kept. */
#ifndef NC_DEVICE_CUDA_MEMORY_H
#define NC_DEVICE_CUDA_MEMORY_H

#include "device/cuda_order.h"

typedef struct nc_cuda_memory nc_cuda_memory;

/* At most `keep` bytes of free blocks are kept; 0: none, and blocks have the size that was asked for, so that memory
 * checkers see their ends. NULL: out of memory. */
nc_cuda_memory *nc_cuda_memory_create(const nc_cuda *borrows, size_t keep);
void nc_cuda_memory_destroy(nc_cuda_memory *m); /* all work must be done; frees every block */

NC_MUST nc_code nc_cuda_memory_alloc(nc_cuda_memory *m, const nc_stream *s, size_t bytes, CUdeviceptr *out,
                                     nc_diag *diag);
/* False: no block starts at p. *bytes is what was asked for. */
bool nc_cuda_memory_free(nc_cuda_memory *m, const nc_stream *s, CUdeviceptr p, size_t *bytes);
void nc_cuda_memory_lend(nc_cuda_memory *m, CUdeviceptr p); /* no block of ours: nothing is done */
void nc_cuda_memory_trim(nc_cuda_memory *m); /* free blocks go back to the driver, waiting for their use */
size_t nc_cuda_memory_kept(nc_cuda_memory *m); /* bytes of free blocks */

/* Streams of the device are told here. */
void nc_cuda_memory_add_stream(nc_cuda_memory *m, nc_stream *s);
void nc_cuda_memory_remove_stream(nc_cuda_memory *m, nc_stream *s);

#endif
