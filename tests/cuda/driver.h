/* tests/cuda/driver.h: the parts of the driver's stand-in.
 *
 * driver_memory.c: blocks that only device work can touch. driver_fiber.c: device work on stacks of its own, and what
 * becomes of its faults. driver_block.c: the threads of a block. driver_module.c: compiled kernels and their launches.
 * driver_queue.c: streams and the order in which their work runs. driver_capture.c: capture and graphs. driver.c: the
 * functions of cuda_api.list, counted, checked and made to fail. One lock guards all of it but running work. */
#ifndef NC_TESTS_CUDA_DRIVER_H
#define NC_TESTS_CUDA_DRIVER_H

#include "tests/cuda/standin.h"

#include <pthread.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0,
    E_INVALID_VALUE = 1,
    E_NOT_INITIALIZED = 3,
    E_INVALID_DEVICE = 101,
    E_INVALID_IMAGE = 200,
    E_INVALID_CONTEXT = 201,
    E_INVALID_HANDLE = 400,
    E_NOT_FOUND = 500,
    E_NOT_READY = 600,
    E_ILLEGAL_ADDRESS = 700,
    E_OUT_OF_RESOURCES = 701,
    E_LAUNCH_FAILED = 719,
    E_NOT_PERMITTED = 800,
    E_CAPTURE_UNSUPPORTED = 900,
    E_CAPTURE_INVALIDATED = 901,
    E_CAPTURE_MERGE = 902,
    E_CAPTURE_UNMATCHED = 903,
    E_CAPTURE_UNJOINED = 904,
    E_CAPTURE_ISOLATION = 905,
    E_CAPTURE_IMPLICIT = 906,
    E_CAPTURED_EVENT = 907,
    E_CAPTURE_WRONG_THREAD = 908,
    MAX_THREADS = 1024,
    MAX_SHARED = 232448,
    WARP = 32
};

/* ---- driver_memory.c ---- */
#define MEMORY_TOTAL ((size_t)4 << 30)

typedef struct block {
    uintptr_t start;
    size_t bytes;
    uintptr_t pages; /* its mapping: up to the block's end, rounded up to 256 bytes; a forbidden page follows */
    size_t bytes_pages;
    bool live;    /* false: the stream has not come to its allocation yet */
    bool touched; /* its bytes exist */
    bool open;
} block;

int memory_reserve(size_t bytes, bool live, uintptr_t *out); /* 0, OUT_OF_MEMORY or INVALID_VALUE */
bool memory_release(uintptr_t start);                        /* false: no block starts there */
bool memory_live(uintptr_t start);                           /* the block that starts there begins to live */
const block *memory_find(uintptr_t p, size_t bytes);         /* NULL: the range lies in no block */
bool memory_in_span(uintptr_t p);
size_t memory_blocks(void);
void memory_release_all(void);
/* During device work: lets it touch the block that p lies in. False: there is none, or it does not live. */
bool memory_open(uintptr_t p);
bool memory_close(void); /* nobody may touch anything; false: something was written behind a block's end */
int pinned_alloc(void **out, size_t bytes);
bool pinned_free(void *p);
bool pinned_has(uintptr_t p);
size_t pinned_count(void);

/* ---- driver_fiber.c ---- */
typedef struct fiber fiber;
fiber *fiber_create(void (*fn)(void *), void *arg);
void fiber_start(fiber *f, void (*fn)(void *), void *arg); /* f is not running */
void fiber_resume(fiber *f);                               /* comes back when it yields, ends or dies */
void fiber_yield(void);
bool fiber_ended(const fiber *f);
void device_begin(void); /* faults of this thread are the device's from here on */
void device_end(void);
int device_fault(void);             /* what a fiber died of since the last call; 0: none */
void device_work(const char *name); /* whose faults they are */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *complaint_text(void);
int run_guarded(void (*fn)(const void *), const void *arg); /* on a fiber; a fault's code */

/* ---- driver_block.c ---- */
/* What a module knows of the thread that runs now, and what it calls; mirrors standin_now in device.cuh. */
typedef struct now {
    unsigned thread[3], block[3], block_dim[3], grid_dim[3];
    void *dynamic_shared;
    void (*sync)(void);
    unsigned long long (*warp)(int what, unsigned mask, unsigned long long value, int lane);
    int (*sync_join)(int what, int value);
    unsigned (*lane_mask)(void);
    int waited; /* a thread of the block has waited for the kernels before this one */
} now;
extern now the_now;

typedef struct launch {
    void (*call)(void **args);
    void **args;
    unsigned grid[3], block[3];
    void *shared, *dynamic;
    size_t bytes_shared, bytes_dynamic;
    uint64_t seed;
    bool early; /* may begin before the work in front of it ends: every block has to wait for that */
} launch;
int run_grid(const launch *l); /* 0, or the code of what went wrong */

/* ---- driver_module.c ---- */
int module_load(CUmodule *out, const void *image);
bool module_unload(CUmodule m);
int module_function(CUfunction *out, CUmodule m, const char *name);
int function_attribute(int *value, int attribute, CUfunction f);
int function_set(CUfunction f, int attribute, int value);
/* A launch whose arguments are copied; freed with free. */
int function_launch(CUfunction f, const unsigned grid[3], const unsigned size[3], unsigned bytes_shared, void **args,
                    void **out);
const char *launch_name(const void *made);
void launch_as_early(void *made);
bool launch_is_early(const void *made);
void launch_params(const void *made, CUDA_KERNEL_NODE_PARAMS_v2 *p); /* its arguments stay the launch's */
int launch_run(const void *made, uint64_t seed);
size_t module_count(void);
void module_unload_all(void);

/* ---- driver_queue.c ---- */
typedef enum op_kind { OP_COPY, OP_FILL, OP_KERNEL, OP_WORK, OP_HOST, OP_WAIT, OP_GRAPH } op_kind;

/* How far a stream has come; outlives it, for events. */
typedef struct line {
    int refs;
    uint64_t done;
} line;

typedef struct op {
    struct op *next;
    op_kind kind;
    int refs; /* a graph's operations are queued again and again */
    const char *name;
    union {
        struct {
            void *dst;
            const void *src;
            size_t bytes;
        } copy;
        struct {
            void *p;
            int byte;
            size_t bytes;
        } fill;
        void *launch;
        struct {
            void (*fn)(const void *);
            void *bytes;
        } work;
        struct {
            void (*fn)(void *);
            void *ctx;
        } host;
        uintptr_t block;
        struct {
            line *line;
            uint64_t position;
        } wait;
        CUgraph graph;
    };
} op;

struct capture;
typedef struct nodes {
    int *v, n, cap;
} nodes;

struct CUstream_st {
    CUstream next;
    line *line;
    uint64_t queued;
    op *head, *tail;
    bool blocking; /* waits for stream 0, and it for this one */
    bool busy;     /* one of its host functions runs */
    struct capture *capture;
    nodes last; /* of the capture: what its next operation comes after */
};

struct CUevent_st {
    CUevent next;
    line *line; /* NULL: never recorded */
    uint64_t position;
    struct capture *capture; /* recorded in one */
    nodes last;
};

extern pthread_mutex_t the_lock;
extern CUstream all_streams; /* stream 0 first */
extern CUevent all_events;
extern int sticky; /* the context's last words: every later call returns them */

op *op_create(op_kind kind, const char *name);
op *op_ref(op *o);
void op_unref(op *o);
void line_unref(line *l);
bool stream_known(CUstream s);
CUstream stream_of(CUstream s); /* stream 0 for NULL */
int stream_open(CUstream *out, bool blocking);
void stream_close(CUstream s);         /* after its work */
int stream_add(CUstream s, op *takes); /* queues it, or adds it to the capture that s is in */
void queue_run(CUstream s, uint64_t position);
void queue_run_line(const line *l, uint64_t position);
void queue_run_all(void);
void queue_nudge(void); /* somebody asks and does not wait: a little is done */
void queue_seed(uint64_t seed);
bool queue_pending(void);
bool queue_in_host_function(void); /* this thread is in one: it may call nothing */
void queue_release(void);          /* drops everything */

/* ---- driver_capture.c ---- */

int capture_begin(CUstream s, int mode);
int capture_add(CUstream s, op *takes);
int capture_end(CUstream s, CUgraph *out);
int capture_check_unsafe(void); /* a call that a capturing thread may not make: spoils its captures */
int capture_check_any(void);    /* a call that nobody may make while anything is captured */
int capture_spoil(CUstream s);  /* a call about the captured stream itself */
int capture_record(CUevent e, CUstream s);
int capture_wait(CUstream s, CUevent e);
void capture_forget(CUevent e);
void capture_release(void);
int graph_run(CUstream s, CUgraph g, uint64_t seed); /* in any order that its edges allow */
CUgraph graph_ref(CUgraph g);
void graph_unref(CUgraph g);
bool graph_destroy(CUgraph g);
int exec_create(CUgraphExec *out, CUgraph g);
bool exec_destroy(CUgraphExec e);
CUgraph exec_graph(CUgraphExec e); /* NULL: no such */
size_t graph_count(void);
int capture_info(CUstream s, CUgraph *graph, const CUgraphNode **last, size_t *n_last); /* last may be NULL */
int graph_size(CUgraph g, size_t *n); /* also of one that is being captured */
int node_before(CUgraphNode node, CUgraphNode *before, size_t *n);
op *node_op(CUgraphNode node);                            /* NULL: no graph has such a node */
int exec_set(CUgraphExec e, CUgraphNode node, op *takes); /* its later launches do that instead */

uint64_t next_random(uint64_t *state);
int run_op(CUstream s, op *o, uint64_t seed); /* between device_begin and device_end */

#endif
