/* base/buffer.h: counted memory. Views share a buffer; the last unref releases it. A buffer may belong to a device
 * whose bytes the host cannot read: base only counts, device/ knows how to touch it. Counting is thread-safe. */
#ifndef NC_BASE_BUFFER_H
#define NC_BASE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nc_device;
struct nc_budget;

typedef enum nc_mem_kind { NC_MEM_HOST, NC_MEM_PINNED, NC_MEM_DEVICE } nc_mem_kind;

typedef struct nc_buffer {
    struct nc_device *device; /* borrowed; NULL: plain host memory */
    nc_mem_kind kind;
    void *ptr; /* may be an address that the host cannot read */
    size_t bytes;
    void (*release)(struct nc_buffer *b); /* frees ptr; NULL: ptr is borrowed. Does not free b itself */
    void *owner;                          /* for release */
    struct nc_budget *budget;             /* what the bytes are charged to until release, or NULL */
    bool file;                            /* ptr is a mapping of nc_file_map: pages that go come back */
    bool private;                         /* nobody but the literals in it reads it: pages may go with the last */
    uint64_t file_id;                     /* of nc_file_map's nc_mapping.id */
    atomic_int refs;
} nc_buffer;

nc_buffer *nc_buffer_host(size_t bytes);      /* 64-byte aligned, uninitialised; NULL: out of memory */
nc_buffer *nc_buffer_host_zero(size_t bytes); /* the same, every byte zero; large ones in pages of their own */
nc_buffer *nc_buffer_wrap(void *ptr, size_t bytes, void (*release)(nc_buffer *), void *owner);
nc_buffer *nc_buffer_ref(nc_buffer *b);
void nc_buffer_unref(nc_buffer *b); /* NULL is fine */

#endif
