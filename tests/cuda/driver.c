/* tests/cuda/driver.c: libcuda.so.1 of the stand-ins: the driver's functions of cuda_api.list. Every call is counted,
 * may be ordered to fail, and is refused where CUDA refuses it: without a context, in a capture, from a host function,
 * after a fault. */
#include "tests/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANYWHERE = 1, CONTEXT = 0, UNSAFE = 2, ALLOCATES = 4, NO_CAPTURE = 8 };

struct CUctx_st {
    int refs;
};

static struct CUctx_st primary;
static _Thread_local CUcontext bound;
CUevent all_events;
static pid_t owner_pid; /* 0: cuInit was not called */

/* ---- counting and failing ---- */

static const char *const names[] = {
#define X(library, returns, name, arguments) #name,
#include "device/cuda_api.list"
#undef X
    "cudnn heuristics", "cudnn plan"};
enum { N_NAMES = sizeof names / sizeof *names };
static uint64_t counts[N_NAMES];
static struct {
    char name[64]; /* empty: any */
    uint64_t countdown;
    int code;
    bool lasting;
    char happened[64]; /* to which function; empty: not yet */
} ordered;
static size_t n_left;

static bool is_ordered(const char *name, bool allocates) {
    if (ordered.happened[0] && ordered.lasting) return true;
    if (ordered.countdown == 0) return false;
    bool fits =
        ordered.name[0] == '\0' || strcmp(ordered.name, name) == 0 || (allocates && strcmp(ordered.name, "alloc") == 0);
    if (!fits || --ordered.countdown > 0) return false;
    snprintf(ordered.happened, sizeof ordered.happened, "%s", name);
    return true;
}

static int count_call(const char *name, bool allocates) {
    int i = 0;
    while (i < N_NAMES && strcmp(names[i], name) != 0) i++;
    if (i < N_NAMES) counts[i]++;
    return is_ordered(name, allocates) ? ordered.code : OK;
}

static int refuse(int flags) {
    if (queue_in_host_function()) return E_NOT_PERMITTED;
    if (owner_pid == 0 || owner_pid != getpid()) return E_NOT_INITIALIZED;
    if (flags & ANYWHERE) return OK;
    if (bound == NULL || bound->refs == 0) return E_INVALID_CONTEXT;
    if (sticky != OK) return sticky;
    if (flags & UNSAFE) return capture_check_unsafe();
    return flags & NO_CAPTURE ? capture_check_any() : OK;
}

/* Takes the_lock, unless the call is refused. */
static int begin(const char *name, int flags) {
    pthread_mutex_lock(&the_lock);
    int code = count_call(name, flags & ALLOCATES);
    if (code == OK) code = refuse(flags);
    if (code != OK) pthread_mutex_unlock(&the_lock);
    return code;
}

static int end(int code) {
    pthread_mutex_unlock(&the_lock);
    return code;
}

#define BEGIN(flags)                        \
    do {                                    \
        int code_ = begin(__func__, flags); \
        if (code_ != OK) return code_;      \
    } while (0)

/* The declarations of what is exported, checked against the product's own. */
#define X(library, returns, name, arguments) X_##library(returns, name, arguments)
#define X_cuda(returns, name, arguments) EXPORT returns name arguments;
#define X_nvrtc(returns, name, arguments)
#define X_lt(returns, name, arguments)
#define X_dnn(returns, name, arguments)
#define X_change X_cuda
#define X_boxes(returns, name, arguments) /* kernel text that uses them does not run here */
#include "device/cuda_api.list"
#undef X

/* ---- the device and its context ---- */

CUresult cuInit(unsigned flags) {
    pthread_mutex_lock(&the_lock);
    int code = count_call(__func__, false);
    if (code == OK && flags != 0) code = E_INVALID_VALUE;
    if (code == OK && owner_pid != 0 && owner_pid != getpid()) code = E_NOT_INITIALIZED; /* a forked child */
    if (code == OK && owner_pid == 0) {
        const char *seed = getenv("NACRE_STANDIN_SEED");
        owner_pid = getpid();
        if (seed != NULL) queue_seed(strtoull(seed, NULL, 10));
    }
    return end(code);
}

CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {{0, "CUDA_SUCCESS", "no error"},
              {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
              {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
              {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or gone"},
              {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
              {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
              {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
              {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
              {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
              {600, "CUDA_ERROR_NOT_READY", "device not ready"},
              {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
              {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
              {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
              {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
              {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
              {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
              {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate captures"},
              {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
              {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
              {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
              {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capture"},
              {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capture"},
              {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to end a capture from another thread"}};

static int find_error(CUresult r) {
    for (int i = 0; i < (int)(sizeof errors / sizeof *errors); i++)
        if (errors[i].code == r) return i;
    return -1;
}

CUresult cuGetErrorName(CUresult r, const char **s) {
    int i = find_error(r);
    *s = i >= 0 ? errors[i].name : NULL;
    return i >= 0 ? OK : E_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult r, const char **s) {
    int i = find_error(r);
    *s = i >= 0 ? errors[i].text : NULL;
    return i >= 0 ? OK : E_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *n) {
    BEGIN(ANYWHERE);
    *n = 1;
    return end(OK);
}

CUresult cuDeviceGet(CUdevice *d, int ordinal) {
    BEGIN(ANYWHERE);
    *d = 0;
    return end(ordinal == 0 ? OK : E_INVALID_DEVICE);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice d) {
    BEGIN(ANYWHERE);
    snprintf(name, (size_t)bytes, "%s", STANDIN_NAME);
    return end(d == 0 ? OK : E_INVALID_DEVICE);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice d) {
    static const struct {
        int attribute, value;
    } known[] = {{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 3},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
                 {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, MAX_SHARED}};
    BEGIN(ANYWHERE);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return end(d == 0 ? OK : E_INVALID_DEVICE);
        }
    fprintf(stderr, "stand-in GPU: attribute %d is not known here\n", attribute);
    return end(E_INVALID_VALUE);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) {
    BEGIN(ANYWHERE);
    *bytes = MEMORY_TOTAL;
    return end(d == 0 ? OK : E_INVALID_DEVICE);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    BEGIN(ANYWHERE);
    if (d != 0) return end(E_INVALID_DEVICE);
    CUstream zero;
    if (primary.refs++ == 0) stream_open(&zero, false);
    *c = &primary;
    return end(OK);
}

static void release_events(void) {
    while (all_events != NULL) {
        CUevent e = all_events;
        all_events = e->next;
        line_unref(e->line);
        free(e->last.v);
        free(e);
    }
}

static size_t count_live(const char *what) {
    size_t n = 0, n_streams = 0, n_events = 0;
    for (CUstream s = all_streams; s != NULL; s = s->next) n_streams += s != all_streams;
    for (CUevent e = all_events; e != NULL; e = e->next) n_events++;
    const struct {
        const char *name;
        size_t n;
    } all[] = {{"blocks", memory_blocks()},
               {"pinned", pinned_count()},
               {"streams", n_streams},
               {"events", n_events},
               {"modules", module_count()},
               {"graphs", graph_count()},
               {"contexts", (size_t)primary.refs}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (what == NULL || strcmp(what, all[i].name) == 0) n += all[i].n;
    return n;
}

/* The last release ends the context and all that was made in it, also when it is ordered to fail: a lost GPU's too. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    pthread_mutex_lock(&the_lock);
    int code = count_call(__func__, false);
    if (d != 0 || primary.refs == 0) return end(E_INVALID_VALUE);
    if (--primary.refs > 0) return end(code);
    n_left = count_live(NULL) - memory_blocks() - pinned_count();
    capture_release();
    queue_run_all();
    queue_release();
    release_events();
    module_unload_all();
    memory_release_all();
    return end(code);
}

CUresult cuCtxSetCurrent(CUcontext c) {
    BEGIN(ANYWHERE);
    if (c != NULL && c != &primary) return end(E_INVALID_CONTEXT);
    bound = c;
    return end(OK);
}

CUresult cuCtxSynchronize(void) {
    BEGIN(NO_CAPTURE);
    queue_run_all();
    return end(sticky);
}

/* ---- memory ---- */

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    BEGIN(UNSAFE | ALLOCATES);
    uintptr_t at = 0;
    int code = memory_reserve(bytes, true, &at);
    if (code == OK) *p = at;
    return end(code);
}

/* Work that still needs the block is not waited for: it will fault. */
CUresult cuMemFree_v2(CUdeviceptr p) {
    BEGIN(UNSAFE);
    return end(p == 0 || memory_release((uintptr_t)p) ? OK : E_INVALID_VALUE);
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    BEGIN(UNSAFE | ALLOCATES);
    (void)flags;
    return end(pinned_alloc(p, bytes));
}

CUresult cuMemFreeHost(void *p) {
    BEGIN(UNSAFE);
    return end(pinned_free(p) ? OK : E_INVALID_VALUE);
}

/* A stream that the caller may use: NULL where the handle is none. */
static CUstream usable(CUstream s) { return s == NULL || stream_known(s) ? stream_of(s) : NULL; }

/* ---- copies ---- */

static bool is_device(const void *p, size_t bytes) { return memory_find((uintptr_t)p, bytes) != NULL; }
static bool is_host(const void *p) { return p != NULL && !memory_in_span((uintptr_t)p); }

static CUresult add_copy(const char *name, void *dst, const void *src, size_t bytes, bool valid, CUstream s) {
    if (!usable(s)) return end(E_INVALID_HANDLE);
    if (!valid) return end(E_INVALID_VALUE);
    op *o = op_create(OP_COPY, name);
    o->copy.dst = dst, o->copy.src = src, o->copy.bytes = bytes;
    return end(stream_add(usable(s), o));
}

static void *pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream s) {
    BEGIN(CONTEXT);
    return add_copy(__func__, pointer(dst), src, bytes, is_device(pointer(dst), bytes) && is_host(src), s);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream s) {
    BEGIN(CONTEXT);
    return add_copy(__func__, dst, pointer(src), bytes, is_device(pointer(src), bytes) && is_host(dst), s);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s) {
    BEGIN(CONTEXT);
    return add_copy(__func__, pointer(dst), pointer(src), bytes,
                    is_device(pointer(dst), bytes) && is_device(pointer(src), bytes), s);
}

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char byte, size_t n, CUstream s) {
    BEGIN(CONTEXT);
    if (!usable(s)) return end(E_INVALID_HANDLE);
    if (!is_device(pointer(p), n)) return end(E_INVALID_VALUE);
    op *o = op_create(OP_FILL, __func__);
    o->fill.p = pointer(p), o->fill.byte = byte, o->fill.bytes = n;
    return end(stream_add(usable(s), o));
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *s, unsigned flags) {
    BEGIN(CONTEXT);
    return end(flags > CU_STREAM_NON_BLOCKING ? E_INVALID_VALUE : stream_open(s, flags == 0));
}

CUresult cuStreamDestroy_v2(CUstream s) {
    BEGIN(CONTEXT);
    if (s == NULL || !stream_known(s)) return end(E_INVALID_HANDLE);
    if (s->capture != NULL) return end(capture_spoil(s));
    stream_close(s);
    return end(OK);
}

CUresult cuStreamSynchronize(CUstream s) {
    BEGIN(CONTEXT);
    CUstream x = usable(s);
    if (x == NULL) return end(E_INVALID_HANDLE);
    if (x->capture != NULL) return end(capture_spoil(x));
    queue_run(x, x->queued);
    return end(sticky);
}

CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
    BEGIN(CONTEXT);
    if (!usable(s)) return end(E_INVALID_HANDLE);
    return end(mode < 0 || mode > 2 ? E_INVALID_VALUE : capture_begin(usable(s), mode));
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph) {
    BEGIN(CONTEXT);
    return end(usable(s) ? capture_end(usable(s), graph) : E_INVALID_HANDLE);
}

/* ---- events ---- */

static bool event_known(CUevent e) {
    CUevent x = all_events;
    while (x != NULL && x != e) x = x->next;
    return x != NULL;
}

CUresult cuEventCreate(CUevent *e, unsigned flags) {
    BEGIN(CONTEXT);
    (void)flags;
    CUevent x = calloc(1, sizeof *x);
    if (x == NULL) return end(CUDA_ERROR_OUT_OF_MEMORY);
    x->next = all_events;
    *e = all_events = x;
    return end(OK);
}

CUresult cuEventDestroy_v2(CUevent e) {
    BEGIN(CONTEXT);
    CUevent *at = &all_events;
    while (*at != NULL && *at != e) at = &(*at)->next;
    if (*at == NULL) return end(E_INVALID_HANDLE);
    *at = e->next;
    line_unref(e->line);
    free(e->last.v);
    free(e);
    return end(OK);
}

CUresult cuEventRecord(CUevent e, CUstream s) {
    BEGIN(CONTEXT);
    CUstream x = usable(s);
    if (x == NULL || !event_known(e)) return end(E_INVALID_HANDLE);
    if (x->capture != NULL) return end(capture_record(e, x));
    capture_forget(e);
    x->line->refs++;
    line_unref(e->line);
    e->line = x->line, e->position = x->queued;
    return end(OK);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    BEGIN(CONTEXT);
    CUstream x = usable(s);
    if (x == NULL || !event_known(e)) return end(E_INVALID_HANDLE);
    if (flags != 0) return end(E_INVALID_VALUE);
    if (x->capture != NULL || e->capture != NULL) return end(capture_wait(x, e));
    if (e->line == NULL || e->line->done >= e->position) return end(OK);
    op *o = op_create(OP_WAIT, __func__);
    o->wait.line = e->line, o->wait.position = e->position;
    e->line->refs++;
    return end(stream_add(x, o));
}

CUresult cuEventSynchronize(CUevent e) {
    BEGIN(CONTEXT);
    if (!event_known(e)) return end(E_INVALID_HANDLE);
    if (e->capture != NULL) return end(E_CAPTURED_EVENT);
    queue_run_line(e->line, e->position);
    return end(sticky);
}

CUresult cuEventQuery(CUevent e) {
    BEGIN(UNSAFE);
    if (!event_known(e)) return end(E_INVALID_HANDLE);
    if (e->capture != NULL) return end(E_CAPTURED_EVENT);
    bool done = e->line == NULL || e->line->done >= e->position;
    if (!done) queue_nudge();
    return end(sticky != OK ? sticky : done ? OK : E_NOT_READY);
}

CUresult cuLaunchHostFunc(CUstream s, void (*fn)(void *), void *ctx) {
    BEGIN(CONTEXT);
    if (!usable(s)) return end(E_INVALID_HANDLE);
    op *o = op_create(OP_HOST, __func__);
    o->host.fn = fn, o->host.ctx = ctx;
    return end(stream_add(usable(s), o));
}

/* ---- kernels ---- */

CUresult cuModuleLoadData(CUmodule *m, const void *image) {
    BEGIN(UNSAFE);
    return end(module_load(m, image));
}

CUresult cuModuleUnload(CUmodule m) {
    BEGIN(UNSAFE);
    queue_run_all();
    return end(module_unload(m) ? OK : E_INVALID_HANDLE);
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    BEGIN(CONTEXT);
    return end(module_function(f, m, name));
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction f) {
    BEGIN(CONTEXT);
    return end(function_attribute(value, attribute, f));
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value) {
    BEGIN(CONTEXT);
    return end(function_set(f, attribute, value));
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned bytes_shared, CUstream s, void **args, void **extra) {
    BEGIN(CONTEXT);
    void *made = NULL;
    if (!usable(s)) return end(E_INVALID_HANDLE);
    if (extra != NULL) return end(E_INVALID_VALUE);
    int code = function_launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, bytes_shared, args, &made);
    if (code != OK) return end(code);
    op *o = op_create(OP_KERNEL, launch_name(made));
    o->launch = made;
    return end(stream_add(usable(s), o));
}

/* Takes what a launch of a kernel that waits by itself needs, and nothing else. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction f, void **args, void **extra) {
    BEGIN(CONTEXT);
    void *made = NULL;
    if (!usable(how->hStream)) return end(E_INVALID_HANDLE);
    if (extra != NULL || how->numAttrs != 1 ||
        how->attrs[0].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        return end(E_INVALID_VALUE);
    int code =
        function_launch(f, (unsigned[]){how->gridDimX, how->gridDimY, how->gridDimZ},
                        (unsigned[]){how->blockDimX, how->blockDimY, how->blockDimZ}, how->sharedMemBytes, args, &made);
    if (code != OK) return end(code);
    if (how->attrs[0].value.programmaticStreamSerializationAllowed) launch_as_early(made);
    op *o = op_create(OP_KERNEL, launch_name(made));
    o->launch = made;
    return end(stream_add(usable(how->hStream), o));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    BEGIN(CONTEXT);
    return end(flags != 0 ? E_INVALID_VALUE : exec_create(exec, graph));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream s) {
    BEGIN(CONTEXT);
    CUgraph g = exec_graph(exec);
    if (g == NULL || !usable(s)) return end(E_INVALID_HANDLE);
    op *o = op_create(OP_GRAPH, __func__);
    o->graph = graph_ref(g);
    return end(stream_add(usable(s), o));
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    BEGIN(CONTEXT);
    return end(exec_destroy(exec) ? OK : E_INVALID_HANDLE);
}

CUresult cuGraphDestroy(CUgraph graph) {
    BEGIN(CONTEXT);
    return end(graph_destroy(graph) ? OK : E_INVALID_HANDLE);
}

/* ---- changing graphs ---- */

CUresult cuStreamGetCaptureInfo_v2(CUstream s, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **last,
                                   size_t *n_last) {
    BEGIN(CONTEXT);
    if (!usable(s) || id != NULL) return end(E_INVALID_VALUE);
    *status = usable(s)->capture != NULL;
    return end(*status ? capture_info(usable(s), graph, last, n_last) : OK);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *n) {
    BEGIN(CONTEXT);
    if (out != NULL) return end(E_INVALID_VALUE); /* in no particular order: nobody may rely on one */
    return end(graph_size(graph, n));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *before, CUgraphEdgeData *how, size_t *n) {
    BEGIN(CONTEXT);
    memset(how, 0, *n * sizeof *how);
    return end(node_before(node, before, n));
}

/* Work of the libraries is kernels of theirs. */
CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
    BEGIN(CONTEXT);
    const op *o = node_op(node);
    if (o == NULL) return end(E_INVALID_VALUE);
    *type = o->kind == OP_COPY   ? CU_GRAPH_NODE_TYPE_MEMCPY
            : o->kind == OP_FILL ? CU_GRAPH_NODE_TYPE_MEMSET
            : o->kind == OP_HOST ? 3
                                 : CU_GRAPH_NODE_TYPE_KERNEL;
    return end(OK);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    BEGIN(CONTEXT);
    op *o = node_op(node);
    if (o == NULL || (o->kind != OP_KERNEL && o->kind != OP_WORK)) return end(E_INVALID_VALUE);
    memset(p, 0, sizeof *p);
    if (o->kind == OP_KERNEL)
        launch_params(o->launch, p);
    else
        p->kern = o;
    return end(OK);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, CUlaunchAttributeValue *value) {
    BEGIN(CONTEXT);
    if (node_op(node) == NULL || attribute != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return end(E_INVALID_VALUE);
    memset(value, 0, sizeof *value);
    return end(OK);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    BEGIN(CONTEXT);
    void *made = NULL;
    op *old = node_op(node), *o = NULL;
    if (old == NULL || (old->kind != OP_KERNEL && old->kind != OP_WORK)) return end(E_INVALID_VALUE);
    if (p->func == NULL) {
        o = op_ref(p->kern);
    } else {
        int code = function_launch(p->func, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                                   (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                                   p->kernelParams, &made);
        if (code != OK) return end(code);
        if (old->kind == OP_KERNEL && launch_is_early(old->launch)) launch_as_early(made);
        o = op_create(OP_KERNEL, launch_name(made));
        o->launch = made;
    }
    return end(exec_set(exec, node, o));
}

static CUDA_MEMCPY3D_end copy_end(void *p, size_t bytes) {
    bool device = memory_in_span((uintptr_t)p);
    return (CUDA_MEMCPY3D_end){.memoryType = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                               .host = device ? NULL : p,
                               .device = device ? (uintptr_t)p : 0,
                               .pitch = bytes};
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p) {
    BEGIN(CONTEXT);
    const op *o = node_op(node);
    if (o == NULL || o->kind != OP_COPY) return end(E_INVALID_VALUE);
    *p = (CUDA_MEMCPY3D){.src = copy_end((void *)(uintptr_t)o->copy.src, o->copy.bytes),
                         .dst = copy_end(o->copy.dst, o->copy.bytes),
                         .widthInBytes = o->copy.bytes,
                         .height = 1,
                         .depth = 1};
    return end(OK);
}

static void *end_pointer(const CUDA_MEMCPY3D_end *e) {
    return e->memoryType == CU_MEMORYTYPE_DEVICE ? pointer(e->device) : (void *)(uintptr_t)e->host;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext c) {
    BEGIN(CONTEXT);
    const op *old = node_op(node);
    if (old == NULL || old->kind != OP_COPY || c != &primary || p->height != 1) return end(E_INVALID_VALUE);
    op *o = op_create(OP_COPY, old->name);
    o->copy.dst = end_pointer(&p->dst), o->copy.src = end_pointer(&p->src), o->copy.bytes = p->widthInBytes;
    return end(exec_set(exec, node, o));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p) {
    BEGIN(CONTEXT);
    const op *o = node_op(node);
    if (o == NULL || o->kind != OP_FILL) return end(E_INVALID_VALUE);
    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = (uintptr_t)o->fill.p,
                                   .value = (unsigned)o->fill.byte,
                                   .elementSize = 1,
                                   .width = o->fill.bytes,
                                   .height = 1};
    return end(OK);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
                                        CUcontext c) {
    BEGIN(CONTEXT);
    const op *old = node_op(node);
    if (old == NULL || old->kind != OP_FILL || c != &primary || p->elementSize != 1) return end(E_INVALID_VALUE);
    op *o = op_create(OP_FILL, old->name);
    o->fill.p = pointer(p->dst), o->fill.byte = (int)p->value, o->fill.bytes = p->width;
    return end(exec_set(exec, node, o));
}

/* ---- the control ---- */

static uint64_t calls(const char *name) {
    uint64_t n = 0;
    pthread_mutex_lock(&the_lock);
    for (int i = 0; i < N_NAMES; i++)
        if (name == NULL || strcmp(names[i], name) == 0) n += counts[i];
    pthread_mutex_unlock(&the_lock);
    return n;
}

static void reset_calls(void) {
    pthread_mutex_lock(&the_lock);
    memset(counts, 0, sizeof counts);
    pthread_mutex_unlock(&the_lock);
}

static void fail(const char *name, uint64_t nth, int code, bool lasting) {
    pthread_mutex_lock(&the_lock);
    memset(&ordered, 0, sizeof ordered);
    snprintf(ordered.name, sizeof ordered.name, "%s", name ? name : "");
    ordered.countdown = nth, ordered.code = code, ordered.lasting = lasting;
    pthread_mutex_unlock(&the_lock);
}

static const char *failed(void) { return ordered.happened[0] ? ordered.happened : NULL; }

static void order(uint64_t s) {
    pthread_mutex_lock(&the_lock);
    queue_seed(s);
    pthread_mutex_unlock(&the_lock);
}

static size_t live(const char *what) {
    pthread_mutex_lock(&the_lock);
    size_t n = count_live(what);
    pthread_mutex_unlock(&the_lock);
    return n;
}

static size_t left_behind(void) { return n_left; }

static bool pending(void) {
    pthread_mutex_lock(&the_lock);
    bool any = queue_pending();
    pthread_mutex_unlock(&the_lock);
    return any;
}

static int enter(const char *name) {
    pthread_mutex_lock(&the_lock);
    int code = count_call(name, false);
    return end(code);
}

static int enqueue(CUstream s, const char *name, void (*fn)(const void *), const void *bytes, size_t n) {
    pthread_mutex_lock(&the_lock);
    int code = refuse(CONTEXT);
    if (code == OK && !usable(s)) code = E_INVALID_HANDLE;
    if (code != OK) return end(code);
    op *o = op_create(OP_WORK, name);
    o->work.fn = fn;
    if ((o->work.bytes = malloc(n)) == NULL) abort();
    memcpy(o->work.bytes, bytes, n);
    return end(stream_add(usable(s), o));
}

static bool is_device_locked(const void *p, size_t bytes) {
    pthread_mutex_lock(&the_lock);
    bool yes = is_device(p, bytes);
    pthread_mutex_unlock(&the_lock);
    return yes;
}

static const standin_control control = {.calls = calls,
                                        .reset_calls = reset_calls,
                                        .fail = fail,
                                        .failed = failed,
                                        .order = order,
                                        .live = live,
                                        .left_behind = left_behind,
                                        .pending = pending,
                                        .complaint = complaint_text,
                                        .enter = enter,
                                        .enqueue = enqueue,
                                        .is_device = is_device_locked};

EXPORT const standin_control *nacre_standin(void);
const standin_control *nacre_standin(void) { return &control; }
