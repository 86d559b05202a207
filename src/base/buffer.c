/* base/buffer.c: the count of a buffer. The last unref sees everything that other holders wrote before theirs. */
#include "base/buffer.h"

#include "base/mem.h"

#include <string.h>

#define HOST_ALIGN 64
#define OWN_PAGES ((size_t)1 << 20) /* from here on a block has pages of its own, where zeros are asked for */

static void free_host(nc_buffer *b) { nc_free(b->ptr); }

nc_buffer *nc_buffer_wrap(void *ptr, size_t bytes, void (*release)(nc_buffer *), void *owner) {
    nc_buffer *b = nc_alloc_zero(1, sizeof *b);
    if (b == NULL) return NULL;
    b->kind = NC_MEM_HOST;
    b->ptr = ptr;
    b->bytes = bytes;
    b->release = release;
    b->owner = owner;
    atomic_init(&b->refs, 1);
    return b;
}

nc_buffer *nc_buffer_host(size_t bytes) {
    void *ptr = nc_alloc_aligned(bytes, HOST_ALIGN);
    nc_buffer *b = ptr ? nc_buffer_wrap(ptr, bytes, free_host, NULL) : NULL;
    if (b == NULL) nc_free(ptr);
    return b;
}

static void free_pages(nc_buffer *b) { nc_free_pages(b->ptr, b->bytes); }

nc_buffer *nc_buffer_host_zero(size_t bytes) {
    if (bytes < OWN_PAGES) {
        nc_buffer *small = nc_buffer_host(bytes);
        if (small != NULL) memset(small->ptr, 0, bytes);
        return small;
    }
    void *ptr = nc_alloc_pages(bytes);
    nc_buffer *b = ptr ? nc_buffer_wrap(ptr, bytes, free_pages, NULL) : NULL;
    if (b == NULL) nc_free_pages(ptr, bytes);
    return b;
}

nc_buffer *nc_buffer_ref(nc_buffer *b) {
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void nc_buffer_unref(nc_buffer *b) {
    if (b == NULL || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
    if (b->release) b->release(b);
    nc_free(b);
}
