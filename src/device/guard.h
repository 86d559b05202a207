/* device/guard.h: the insides of the guard device, shared by guard*.c alone.
 *
 * guard_memory.c keeps addresses and their hidden bytes, guard_queue.c the operations that run late, guard.c the device
 * table. Everything here is called with the device's lock held. */
#ifndef NC_DEVICE_GUARD_H
#define NC_DEVICE_GUARD_H

#include "base/lock.h"
#include "device/memory.h"

/* A span of addresses that nobody can touch; blocks are cut from it, their bytes lie elsewhere. */
typedef struct nc_guard_memory {
    uintptr_t start, end;
    uintptr_t cursor;    /* where the next block is looked for: addresses come back into use as late as possible */
    nc_block_table live; /* data: where the bytes are */
    struct nc_guard_memory *next;
} nc_guard_memory;

/* Where an address lies. */
typedef enum nc_guard_place {
    NC_GUARD_HOST,
    NC_GUARD_LIVE,
    NC_GUARD_DEAD, /* freed, or never a block */
    NC_GUARD_OVER, /* starts in a block and reaches past its end */
    NC_GUARD_FOREIGN
} nc_guard_place;

NC_MUST nc_code nc_guard_memory_init(nc_guard_memory *m, nc_work *w);
void nc_guard_memory_release(nc_guard_memory *m);
NC_MUST nc_code nc_guard_memory_alloc(nc_guard_memory *m, size_t bytes, void **out, nc_diag *diag);
NC_MUST bool nc_guard_memory_free(nc_guard_memory *m, void *p, size_t *bytes); /* false: no live block starts there */
/* Writes the hidden address of p to out where p lies in a live block with `bytes` bytes behind it, else p itself. */
nc_guard_place nc_guard_memory_find(const nc_guard_memory *m, const void *p, size_t bytes, void **out);
const char *nc_guard_place_text(nc_guard_place place);

typedef enum nc_guard_kind {
    NC_GUARD_LAUNCH,
    NC_GUARD_COPY,
    NC_GUARD_FILL,
    NC_GUARD_FREE,
    NC_GUARD_WAIT,
    NC_GUARD_CALL
} nc_guard_kind;

typedef struct nc_guard_op {
    struct nc_guard_op *next;
    nc_guard_kind kind;
    union {
        struct {
            nc_kernel kernel;
            nc_call call; /* its arrays and names lie behind the operation, in the same allocation */
        } launch;
        struct {
            void *dst;
            const void *src;
            bool dst_host, src_host;
            size_t bytes;
        } copy;
        struct {
            void *p;
            int byte;
            size_t bytes;
        } fill;
        void *free;
        struct {
            uint64_t stream, position;
        } wait;
        struct {
            void (*fn)(void *);
            void *ctx;
        } call;
    };
} nc_guard_op;

typedef struct nc_guard_list {
    nc_guard_op *head, *tail;
} nc_guard_list;

struct nc_capture {
    uint64_t id;
    nc_stream *origin;  /* NULL once ended */
    nc_guard_list list; /* of all streams in it, in the order of the calls: one order that their events allow */
    nc_diag diag;       /* the first thing that cannot be captured */
};

struct nc_stream {
    uint64_t id; /* never used again, so that waits may outlive the stream */
    nc_stream *next;
    nc_guard_list queue;
    uint64_t n_queued, n_done;
    bool running;
    nc_capture *capture; /* borrowed; NULL: not capturing */
    nc_diag diag;        /* the first failure that nobody has been told of */
};

struct nc_event {
    uint64_t stream, position; /* stream 0: never recorded */
    uint64_t capture;          /* recorded while capturing: its id */
};

typedef struct nc_guard {
    nc_device base;
    nc_lock lock; /* recursive: a host call or kernel may use the device */
    nc_guard_memory memory;
    nc_stream *streams; /* newest first */
    uint64_t last_id;   /* of streams and captures */
} nc_guard;

/* Operations. NULL: out of memory. */
nc_guard_op *nc_guard_op_create(nc_guard_kind kind);
nc_guard_op *nc_guard_op_launch(nc_kernel k, const nc_call *c);
nc_guard_op *nc_guard_op_clone(const nc_guard_op *op);
void nc_guard_list_add(nc_guard_list *l, nc_guard_op *op);
void nc_guard_list_release(nc_guard_list *l);

/* Checks the addresses of an operation as they stand now. */
NC_MUST nc_code nc_guard_check(const nc_guard *g, const nc_guard_op *op, nc_diag *diag);
NC_MUST nc_code nc_guard_execute(nc_guard *g, nc_guard_op *op, nc_diag *diag); /* changes op: once only */
void nc_guard_run(nc_guard *g, nc_stream *s, uint64_t position);
void nc_guard_run_all(nc_guard *g);
nc_stream *nc_guard_stream(const nc_guard *g, uint64_t id); /* NULL: destroyed, so all its work is done */

#endif
