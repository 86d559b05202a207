/* device/device.h: memory, copies, streams, events, kernels and capture behind one table: cpu, guard and cuda.
 *
 * Nothing outside device/ and kernels/ may assume that the host can read a device's bytes. Work on a stream runs in
 * order and may run late; different streams are ordered only by events. Functions return a code and describe a failure
 * in *diag, which must be given. A failure of queued work (a kernel that found bad data) is reported once, by the next
 * synchronisation of that stream or of an event on it. fill, copy, host_call and launch with stream NULL wait for all
 * work of the device, and are done when they return. */
#ifndef NC_DEVICE_DEVICE_H
#define NC_DEVICE_DEVICE_H

#include "device/budget.h"
#include "device/call.h"

typedef struct nc_device nc_device;
typedef struct nc_stream nc_stream;
typedef struct nc_event nc_event;
typedef struct nc_capture nc_capture;   /* a recorded piece of a stream's work */
typedef struct nc_function nc_function; /* compiled kernel text */

typedef struct nc_dim3 {
    uint32_t x, y, z;
} nc_dim3;

typedef struct nc_device_table {
    const char *name;    /* "cpu", "guard", "cuda" */
    const char *kernels; /* which bindings run here: "cpu" or "cuda" */
    bool host_memory;    /* the host may read and write its bytes; work is done when the call returns */
    bool one_memory;     /* devices of one number that were opened twice see each other's addresses */

    void (*destroy)(nc_device *d);
    /* More than the description, which may take a while to find: the libraries that are there. NULL: no more. */
    void (*describe)(nc_device *d, char *text, size_t bytes);
    /* Blocks are 64-byte aligned at least. `s` is the stream that may touch the block first / touched it last; NULL:
     * any. A freed block is used again only behind the work that may touch it; freeing does not wait for that work. */
    nc_code (*alloc)(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag);
    void (*free)(nc_device *d, nc_stream *s, void *p);
    /* The address of a block (or inside one) is shown to others, who may have work on it when it is freed: what they
     * queued on their library's default stream until then is waited for too. NULL: not needed here. */
    void (*lend)(nc_device *d, void *p);
    size_t (*trim)(nc_device *d); /* gives kept free blocks back to the system: how many bytes. NULL: none are kept */
    nc_code (*fill)(nc_device *d, nc_stream *s, void *p, int byte, size_t bytes, nc_diag *diag);
    /* Any pair of host and this device; both ranges must stay valid until the stream has run it. */
    nc_code (*copy)(nc_device *d, nc_stream *s, void *dst, bool dst_host, const void *src, bool src_host, size_t bytes,
                    nc_diag *diag);

    /* Host memory that copies of this device read and write without a detour (page-locked where that matters). */
    nc_code (*host_alloc)(nc_device *d, size_t bytes, void **out, nc_diag *diag);
    void (*host_free)(nc_device *d, void *p);

    nc_code (*stream_create)(nc_device *d, nc_stream **out, nc_diag *diag);
    /* A stream of the caller's, by the handle that its own library has for it; stream_destroy leaves that alone. NULL:
     * this device has no such handles. */
    nc_code (*stream_wrap)(nc_device *d, void *handle, nc_stream **out, nc_diag *diag);
    void *(*stream_handle)(const nc_stream *s);         /* what stream_wrap takes; NULL where that is */
    void (*stream_destroy)(nc_device *d, nc_stream *s); /* waits for it first */
    uint64_t (*stream_id)(const nc_stream *s); /* of no other stream, also of none that is gone; NULL: no captures */
    nc_code (*stream_sync)(nc_device *d, nc_stream *s, nc_diag *diag);
    nc_code (*event_create)(nc_device *d, nc_event **out, nc_diag *diag);
    void (*event_destroy)(nc_device *d, nc_event *e);
    nc_code (*event_record)(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag);
    /* Later work of s runs after what e recorded last; an event never recorded is no wait. */
    nc_code (*event_wait)(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag);
    nc_code (*event_sync)(nc_device *d, nc_event *e, nc_diag *diag); /* the host waits */
    bool (*event_done)(nc_device *d, nc_event *e);                   /* without waiting */
    /* Somebody who waited was told, since e was recorded, of a failure on the stream of e: it may be of work before e.
     * NULL: not known here. */
    bool (*event_spoilt)(nc_device *d, const nc_event *e);
    nc_code (*host_call)(nc_device *d, nc_stream *s, void (*fn)(void *), void *ctx, nc_diag *diag);

    /* Runs a kernel's code for this device: at once (cpu), later on the stream (guard; the call is copied, pointers are
     * translated), or by calling its launcher, which queues on c->stream (cuda). */
    nc_code (*launch)(nc_device *d, nc_stream *s, nc_kernel k, const nc_call *c);

    /* Kernel text. NULL: this device has no compiler. */
    nc_code (*compile)(nc_device *d, const char *source, const char *entry, nc_function **out, nc_diag *diag);
    /* Texts given to compile are compiled here, all side by side, or by the first launch of one; so a failure is told
     * then. NULL: compile is done when it returns. */
    nc_code (*compile_wait)(nc_device *d, nc_diag *diag);
    nc_code (*launch_function)(nc_device *d, nc_stream *s, nc_function *f, nc_dim3 grid, nc_dim3 block,
                               unsigned bytes_shared, void **args, nc_diag *diag);

    /* Capture: what is queued on s between begin and end is recorded, not run; replay queues all of it at once. A
     * stream that waits for an event recorded on s meanwhile joins the capture. NULL: cannot. */
    nc_code (*capture_begin)(nc_device *d, nc_stream *s, nc_diag *diag);
    /* What was queued since begin or the last mark is a piece, counted from 0. NULL: captures cannot be changed. */
    nc_code (*capture_mark)(nc_device *d, nc_stream *s, nc_diag *diag);
    nc_code (*capture_end)(nc_device *d, nc_stream *s, nc_capture **out, nc_diag *diag);
    /* Instead of capture_end: the n pieces captured now take the place of those of c; its next replays do them. False:
     * they differ in more than addresses and sizes, or the capture failed; c must be destroyed. */
    bool (*capture_patch)(nc_device *d, nc_stream *s, nc_capture *c, const int *pieces, int n);
    nc_code (*capture_replay)(nc_device *d, nc_stream *s, nc_capture *c, nc_diag *diag);
    void (*capture_destroy)(nc_device *d, nc_capture *c);
} nc_device_table;

struct nc_device {
    const nc_device_table *table;
    int number;            /* of cuda:1, 1 */
    char description[256]; /* "NVIDIA H200, compute 9.0, 139 GiB" */
    size_t bytes_limit;    /* what the machine has, all sessions together; 0: unknown. A hard cap on bytes_live */
    _Atomic size_t bytes_live, bytes_peak;
    _Atomic uint64_t n_allocs, n_launches, n_copies; /* of the host: without the kernels that runs call themselves */
};

nc_device *nc_device_cpu(void); /* the one host device: static, never destroyed, its streams are NULL */
NC_MUST nc_code nc_device_guard_create(nc_work *w, nc_device **out);
/* DEVICE with the reason when it is not there. */
NC_MUST nc_code nc_device_cuda_create(nc_work *w, int ordinal, nc_device **out);
NC_MUST nc_code nc_device_open(nc_work *w, const char *name, nc_device **out); /* "cpu", "guard", "cuda", "cuda:1" */
void nc_device_close(nc_device *d);                                            /* NULL and cpu are fine */
bool nc_device_same_memory(const nc_device *a, const nc_device *b); /* an address of one is good for the other */
bool nc_device_cuda_available(char *why, size_t bytes_why);

/* A counted buffer in the device's memory, charged to the budget until it is released. NULL on failure, described in
 * diag. Its release frees with stream NULL. */
nc_buffer *nc_device_buffer(nc_device *d, nc_budget *keeps, size_t bytes, nc_diag *diag);

/* For tests; d must be a guard. */
bool nc_device_guard_pending(nc_device *d);       /* is there queued work that has not run? */
size_t nc_device_guard_live_blocks(nc_device *d); /* not freed; frees that are still queued count as live */

#endif
