/* device/cpu.c: the host as a device. Work is done when a call returns, so streams and events are NULL and every wait
 * is free. Kernels are called directly and cut their work with the call's pool. There is no capture and no compiler. */
#include "base/cpu.h"
#include "base/machine.h"
#include "base/mem.h"
#include "device/host_kept.h"
#include "device/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

/* Stands ALIGNMENT bytes before the block that the caller sees. */
typedef struct header {
    size_t bytes, room; /* asked for; of the whole block */
} header;

/* Of *room bytes at least: one that was kept, or a new one. */
static char *find_block(size_t *room) {
    char *p = *room >= NC_HOST_KEPT_FROM ? nc_host_kept_take(room) : NULL;
    if (p == NULL) p = nc_alloc_aligned(*room, ALIGNMENT);
    if (p == NULL && nc_host_kept_trim() > 0) p = nc_alloc_aligned(*room, ALIGNMENT);
    return p;
}

static nc_code cpu_alloc(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag) {
    (void)s;
    NC_TRY(nc_device_take(d, bytes, diag));
    size_t room = ALIGNMENT + bytes;
    char *p = bytes <= SIZE_MAX - 2 * ALIGNMENT ? find_block(&room) : NULL;
    if (p == NULL) {
        nc_device_give(d, bytes);
        return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "cpu: out of memory for %zu bytes", bytes);
    }
    *(header *)p = (header){bytes, room};
    *out = p + ALIGNMENT;
    return NC_OK;
}

static void cpu_free(nc_device *d, nc_stream *s, void *p) {
    (void)s;
    if (p == NULL) return;
    char *block = (char *)p - ALIGNMENT;
    nc_device_give(d, ((header *)block)->bytes);
    if (!nc_host_kept_put(block, ((header *)block)->room)) nc_free(block);
}

static size_t cpu_trim(nc_device *d) {
    (void)d;
    return nc_host_kept_trim();
}

static nc_code cpu_fill(nc_device *d, nc_stream *s, void *p, int byte, size_t bytes, nc_diag *diag) {
    (void)d, (void)s, (void)diag;
    if (bytes > 0) memset(p, byte, bytes);
    return NC_OK;
}

static nc_code cpu_copy(nc_device *d, nc_stream *s, void *dst, bool dst_host, const void *src, bool src_host,
                        size_t bytes, nc_diag *diag) {
    (void)s, (void)dst_host, (void)src_host, (void)diag;
    if (bytes > 0) memcpy(dst, src, bytes);
    atomic_fetch_add(&d->n_copies, 1);
    return NC_OK;
}

static nc_code cpu_host_alloc(nc_device *d, size_t bytes, void **out, nc_diag *diag) {
    return cpu_alloc(d, NULL, bytes, out, diag);
}

static void cpu_host_free(nc_device *d, void *p) { cpu_free(d, NULL, p); }

static bool cpu_event_done(nc_device *d, nc_event *e) {
    (void)d, (void)e;
    return true;
}

static nc_code cpu_stream_create(nc_device *d, nc_stream **out, nc_diag *diag) {
    (void)d, (void)diag;
    *out = NULL;
    return NC_OK;
}

static void cpu_stream_destroy(nc_device *d, nc_stream *s) { (void)d, (void)s; }

static nc_code cpu_stream_sync(nc_device *d, nc_stream *s, nc_diag *diag) {
    (void)d, (void)s, (void)diag;
    return NC_OK;
}

static nc_code cpu_event_create(nc_device *d, nc_event **out, nc_diag *diag) {
    (void)d, (void)diag;
    *out = NULL;
    return NC_OK;
}

static void cpu_event_destroy(nc_device *d, nc_event *e) { (void)d, (void)e; }

static nc_code cpu_event_step(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag) {
    (void)d, (void)e, (void)s, (void)diag;
    return NC_OK;
}

static nc_code cpu_event_sync(nc_device *d, nc_event *e, nc_diag *diag) {
    (void)d, (void)e, (void)diag;
    return NC_OK;
}

static nc_code cpu_host_call(nc_device *d, nc_stream *s, void (*fn)(void *), void *ctx, nc_diag *diag) {
    (void)d, (void)s, (void)diag;
    fn(ctx);
    return NC_OK;
}

static nc_code cpu_launch(nc_device *d, nc_stream *s, nc_kernel k, const nc_call *c) {
    (void)s;
    atomic_fetch_add_explicit(&d->n_launches, 1, memory_order_relaxed);
    return k(c);
}

static const nc_device_table table = {
    .name = "cpu",
    .kernels = "cpu",
    .host_memory = true,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .trim = cpu_trim,
    .fill = cpu_fill,
    .copy = cpu_copy,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_sync = cpu_stream_sync,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_step,
    .event_wait = cpu_event_step,
    .event_sync = cpu_event_sync,
    .event_done = cpu_event_done,
    .host_call = cpu_host_call,
    .launch = cpu_launch,
};

static nc_device device = {.table = &table};

static void describe(void) {
    snprintf(device.description, sizeof device.description, "%s", nc_cpu_get()->name);
    device.bytes_limit = (size_t)nc_machine_memory("");
}

nc_device *nc_device_cpu(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, describe);
    return &device;
}
