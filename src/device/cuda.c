/* device/cuda.c: NVIDIA GPUs through the driver's interface. Memory, copies, streams, events and launches; the
 * libraries are found by cuda_load.c, kernel text is compiled by cuda_compile.c, cuda_capture.c records.
 *
 * The device's primary context is shared with other users of the GPU in this process (PyTorch), and made current in
 * every call, since calls come from any thread. Streams do not wait for CUDA's stream 0. */
#include "base/log.h"
#include "base/mem.h"
#include "device/cuda_capture.h"
#include "device/cuda_dnn.h"
#include "device/cuda_memory.h"
#include "device/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cuda_device {
    nc_device base;
    nc_cuda cuda;
    nc_cuda_memory *memory;
    nc_cuda_room room; /* of work without a stream */
    nc_cuda_fault *fault;
    nc_cuda_modules *modules;
    pthread_mutex_t mutex; /* of the libraries' handles and the rooms */
    bool asked_lt, asked_dnn;
} cuda_device;

struct nc_event {
    CUevent handle;
    nc_cuda_fault *fault; /* of the stream it was last recorded on, which may be gone */
    int n_told;           /* by that record, when it was */
};

#define TRY_CU(function, arguments, diag) NC_TRY(nc_cuda_check(c->api->function arguments, #function, (diag)))
/* For calls that have no one to tell. */
#define WARN_CU(function, arguments) warn(c->api->function arguments, #function)

static void warn(CUresult r, const char *function) {
    nc_diag diag = {0};
    if (nc_cuda_check(r, function, &diag) != NC_OK) nc_log(NC_LOG_WARNING, "cuda: %s", diag.text);
}

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

/* The device's own part, with its context current. */
static cuda_device *enter(nc_device *d) {
    cuda_device *g = (cuda_device *)d;
    g->cuda.api->cuCtxSetCurrent(g->cuda.context);
    return g;
}

CUstream nc_cuda_stream(const nc_stream *s) { return s ? s->handle : NULL; }

/* All work of the context, other users' too. */
static CUresult sync_all(const nc_cuda *c) {
    nc_cuda_turn_wait();
    CUresult r = c->api->cuCtxSynchronize();
    nc_cuda_turn_wait_end();
    return r;
}

/* Around an operation with stream NULL: all earlier work is done before it, and it is done when the call returns. A
 * wait that fails is tried once more: whoever is told frees what the work would still read. */
static nc_code sync_if_no_stream(const nc_cuda *c, const nc_stream *s, nc_diag *diag) {
    if (s != NULL) return NC_OK;
    CUresult r = sync_all(c);
    if (r != 0) warn(sync_all(c), "cuCtxSynchronize");
    return nc_cuda_check(r, "cuCtxSynchronize", diag);
}

static nc_code cuda_alloc(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag) {
    cuda_device *g = enter(d);
    NC_TRY(nc_device_take(d, bytes, diag));
    CUdeviceptr p = 0;
    nc_code code = nc_cuda_memory_alloc(g->memory, s, bytes, &p, diag);
    if (code == NC_OK)
        *out = (void *)(uintptr_t)p;
    else
        nc_device_give(d, bytes);
    return code;
}

static void cuda_free(nc_device *d, nc_stream *s, void *p) {
    size_t bytes;
    if (p == NULL) return;
    if (nc_cuda_memory_free(enter(d)->memory, s, address(p), &bytes))
        nc_device_give(d, bytes);
    else
        nc_log(NC_LOG_ERROR, "cuda: free of %p, where no block starts", p);
}

static void cuda_lend(nc_device *d, void *p) { nc_cuda_memory_lend(((cuda_device *)d)->memory, address(p)); }

static size_t cuda_trim(nc_device *d) {
    cuda_device *g = enter(d);
    size_t kept = nc_cuda_memory_kept(g->memory);
    nc_cuda_memory_trim(g->memory);
    return kept - nc_cuda_memory_kept(g->memory);
}

static nc_code cuda_fill(nc_device *d, nc_stream *s, void *p, int byte, size_t bytes, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    NC_TRY(sync_if_no_stream(c, s, diag));
    if (bytes > 0) TRY_CU(cuMemsetD8Async, (address(p), (unsigned char)byte, bytes, nc_cuda_stream(s)), diag);
    nc_cuda_issued(s);
    return sync_if_no_stream(c, s, diag);
}

static nc_code cuda_copy(nc_device *d, nc_stream *s, void *dst, bool dst_host, const void *src, bool src_host,
                         size_t bytes, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    CUstream h = nc_cuda_stream(s);
    if (dst_host && src_host)
        return nc_diag_set(diag, NC_E_ARGUMENT, NULL, NULL, "cuda: a copy from host to host is not the device's work");
    NC_TRY(sync_if_no_stream(c, s, diag));
    if (bytes > 0 && dst_host)
        TRY_CU(cuMemcpyDtoHAsync_v2, (dst, address(src), bytes, h), diag);
    else if (bytes > 0 && src_host)
        TRY_CU(cuMemcpyHtoDAsync_v2, (address(dst), src, bytes, h), diag);
    else if (bytes > 0)
        TRY_CU(cuMemcpyDtoDAsync_v2, (address(dst), address(src), bytes, h), diag);
    nc_cuda_issued(s);
    atomic_fetch_add(&d->n_copies, 1);
    return sync_if_no_stream(c, s, diag);
}

static nc_code cuda_host_alloc(nc_device *d, size_t bytes, void **out, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    TRY_CU(cuMemHostAlloc, (out, bytes ? bytes : 1, 0), diag);
    return NC_OK;
}

static void cuda_host_free(nc_device *d, void *p) {
    const nc_cuda *c = &enter(d)->cuda;
    if (p != NULL) WARN_CU(cuMemFreeHost, (p));
}

static nc_cuda_room *room_of(nc_device *d, nc_stream *s) { return s ? &s->room : &((cuda_device *)d)->room; }

/* A stream has its room from the first kernel on: one that only copies needs none. */
static nc_code need_room(cuda_device *g, nc_stream *s, nc_diag *diag) {
    nc_code code = NC_OK;
    nc_cuda_room *r = room_of(&g->base, s);
    if (atomic_load(&r->small) != NULL) return NC_OK;
    pthread_mutex_lock(&g->mutex);
    if (atomic_load(&r->small) == NULL) code = nc_cuda_room_make(&g->base, s, r, diag);
    pthread_mutex_unlock(&g->mutex);
    return code;
}

nc_code nc_cuda_scratch(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag) {
    cuda_device *g = enter(d);
    pthread_mutex_lock(&g->mutex);
    nc_code code = nc_cuda_room_scratch(d, s, room_of(d, s), bytes, out, diag);
    pthread_mutex_unlock(&g->mutex);
    return code;
}

/* Takes the handle, also on failure, unless it is lent. */
static nc_code make_stream(cuda_device *g, CUstream handle, bool lent, nc_stream **out, nc_diag *diag) {
    const nc_cuda *c = &g->cuda;
    nc_stream *s = nc_alloc_zero(1, sizeof *s);
    nc_code code = s == NULL ? no_memory(diag) : NC_OK;
    if (code == NC_OK) code = nc_cuda_fault_create(c, &s->fault, diag);
    if (code != NC_OK) {
        if (!lent) WARN_CU(cuStreamDestroy_v2, (handle));
        nc_free(s);
        return code;
    }
    s->handle = handle, s->lent = lent;
    nc_cuda_memory_add_stream(g->memory, s);
    *out = s;
    return NC_OK;
}

static nc_code cuda_stream_create(nc_device *d, nc_stream **out, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    CUstream handle;
    TRY_CU(cuStreamCreate, (&handle, CU_STREAM_NON_BLOCKING), diag);
    return make_stream((cuda_device *)d, handle, false, out, diag);
}

static nc_code cuda_stream_wrap(nc_device *d, void *handle, nc_stream **out, nc_diag *diag) {
    return make_stream(enter(d), handle, true, out, diag);
}

static void *cuda_stream_handle(const nc_stream *s) { return s->handle; }

static void cuda_stream_destroy(nc_device *d, nc_stream *s) {
    if (s == NULL) return;
    cuda_device *g = enter(d);
    const nc_cuda *c = &g->cuda;
    WARN_CU(cuStreamSynchronize, (s->handle));
    nc_cuda_memory_remove_stream(g->memory, s);
    if (!s->lent) WARN_CU(cuStreamDestroy_v2, (s->handle));
    nc_cuda_room_release(d, s, &s->room); /* nobody else has touched it */
    nc_cuda_fault_unref(c, s->fault);
    nc_cuda_capture_forget(s);
    nc_free(s);
}

static nc_code cuda_stream_sync(nc_device *d, nc_stream *s, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    if (s == NULL) {
        NC_TRY(sync_if_no_stream(c, s, diag));
    } else {
        uint64_t issued = nc_cuda_wait_begin(s);
        TRY_CU(cuStreamSynchronize, (s->handle), diag);
        nc_cuda_wait_end(s, issued);
    }
    return nc_cuda_fault_check(nc_cuda_fault_of(d, s), diag);
}

static nc_code cuda_event_create(nc_device *d, nc_event **out, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    nc_event *e = nc_alloc_zero(1, sizeof *e);
    if (e == NULL) return no_memory(diag);
    nc_code code = nc_cuda_check(c->api->cuEventCreate(&e->handle, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag);
    if (code == NC_OK)
        *out = e;
    else
        nc_free(e);
    return code;
}

static void cuda_event_destroy(nc_device *d, nc_event *e) {
    if (e == NULL) return;
    const nc_cuda *c = &enter(d)->cuda;
    WARN_CU(cuEventDestroy_v2, (e->handle));
    nc_cuda_fault_unref(c, e->fault);
    nc_free(e);
}

static nc_code cuda_event_record(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    NC_TRY(sync_if_no_stream(c, s, diag));
    TRY_CU(cuEventRecord, (e->handle, nc_cuda_stream(s)), diag);
    nc_cuda_fault *old = e->fault;
    e->fault = nc_cuda_fault_ref(nc_cuda_fault_of(d, s));
    e->n_told = atomic_load(&e->fault->n_told);
    nc_cuda_fault_unref(c, old);
    return NC_OK;
}

static nc_code cuda_event_wait(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    TRY_CU(cuStreamWaitEvent, (nc_cuda_stream(s), e->handle, 0), diag);
    nc_cuda_issued(s);
    return NC_OK;
}

static nc_code cuda_event_sync(nc_device *d, nc_event *e, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    TRY_CU(cuEventSynchronize, (e->handle), diag);
    return nc_cuda_fault_check(e->fault, diag);
}

static bool cuda_event_spoilt(nc_device *d, const nc_event *e) {
    (void)d;
    return e->fault != NULL && atomic_load(&e->fault->n_told) != e->n_told;
}

static bool cuda_event_done(nc_device *d, nc_event *e) { return enter(d)->cuda.api->cuEventQuery(e->handle) == 0; }

static nc_code cuda_host_call(nc_device *d, nc_stream *s, void (*fn)(void *), void *ctx, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    NC_TRY(sync_if_no_stream(c, s, diag));
    TRY_CU(cuLaunchHostFunc, (nc_cuda_stream(s), fn, ctx), diag);
    nc_cuda_issued(s);
    return sync_if_no_stream(c, s, diag);
}

static nc_code cuda_launch(nc_device *d, nc_stream *s, nc_kernel k, const nc_call *call) {
    const nc_cuda *c = &enter(d)->cuda;
    nc_diag own = {0}, *diag = call->diag ? call->diag : &own;
    nc_call copy = *call;
    copy.device = d;
    copy.stream = s;
    copy.diag = diag;
    NC_TRY(need_room((cuda_device *)d, s, diag));
    NC_TRY(sync_if_no_stream(c, s, diag));
    atomic_fetch_add_explicit(&d->n_launches, 1, memory_order_relaxed);
    nc_code code = k(&copy);
    nc_cuda_issued(s);
    if (code != NC_OK) return code;
    NC_TRY(sync_if_no_stream(c, s, diag));
    return s == NULL ? nc_cuda_fault_check(((cuda_device *)d)->fault, diag) : NC_OK;
}

static nc_code cuda_compile(nc_device *d, const char *source, const char *entry, nc_function **out, nc_diag *diag) {
    return nc_cuda_modules_find(enter(d)->modules, source, entry, out, diag);
}

static nc_code cuda_compile_wait(nc_device *d, nc_diag *diag) { return nc_cuda_modules_wait(enter(d)->modules, diag); }

/* A kernel that waits for those before it by itself may be placed on the GPU while they run. cluster: blocks along y */
static CUresult launch_early(const nc_cuda *c, CUfunction f, nc_dim3 grid, nc_dim3 block, unsigned cluster,
                             unsigned bytes_shared, CUstream s, void **args) {
    CUlaunchAttribute how_else[2] = {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                      .value.programmaticStreamSerializationAllowed = 1},
                                     {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                      .value.clusterDim = {1, cluster, 1}}};
    CUlaunchConfig how = {.gridDimX = grid.x,
                          .gridDimY = grid.y,
                          .gridDimZ = grid.z,
                          .blockDimX = block.x,
                          .blockDimY = block.y,
                          .blockDimZ = block.z,
                          .sharedMemBytes = bytes_shared,
                          .hStream = s,
                          .attrs = how_else,
                          .numAttrs = cluster > 1 ? 2 : 1};
    return c->api->cuLaunchKernelEx(&how, f, args, NULL);
}

enum { EARLY_MAJOR = 9 }; /* compute capability that has such launches */

nc_code nc_cuda_launch_clusters(nc_device *d, nc_stream *s, nc_function *f, nc_dim3 grid, nc_dim3 block,
                                unsigned cluster, unsigned bytes_shared, void **args, nc_diag *diag) {
    cuda_device *g = enter(d);
    const nc_cuda *c = &g->cuda;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return NC_OK;
    if (atomic_load(&f->handle) == NULL) NC_TRY(nc_cuda_modules_need(g->modules, f, diag));
    CUfunction handle = atomic_load(&f->handle);
    NC_TRY(sync_if_no_stream(c, s, diag));
    if (f->early && c->major >= EARLY_MAJOR)
        NC_TRY(nc_cuda_check(launch_early(c, handle, grid, block, cluster, bytes_shared, nc_cuda_stream(s), args),
                             "cuLaunchKernelEx", diag));
    else
        TRY_CU(cuLaunchKernel,
               (handle, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes_shared, nc_cuda_stream(s), args, NULL),
               diag);
    nc_cuda_issued(s);
    return sync_if_no_stream(c, s, diag);
}

static nc_code cuda_launch_function(nc_device *d, nc_stream *s, nc_function *f, nc_dim3 grid, nc_dim3 block,
                                    unsigned bytes_shared, void **args, nc_diag *diag) {
    return nc_cuda_launch_clusters(d, s, f, grid, block, 1, bytes_shared, args, diag);
}

static uint64_t cuda_stream_id(const nc_stream *s) { return s->id; }

static nc_code cuda_capture_begin(nc_device *d, nc_stream *s, nc_diag *diag) {
    cuda_device *g = enter(d);
    if (s == NULL) return nc_diag_set(diag, NC_E_ARGUMENT, NULL, NULL, "cuda: capture needs a stream");
    NC_TRY(need_room(g, s, diag)); /* in a capture nothing can be allocated, and no module be loaded */
    nc_cuda_modules_retry(g->modules);
    return nc_cuda_capture_begin(&g->cuda, s, diag);
}

static nc_code cuda_capture_mark(nc_device *d, nc_stream *s, nc_diag *diag) {
    return nc_cuda_capture_mark(&enter(d)->cuda, s, diag);
}

static nc_code cuda_capture_end(nc_device *d, nc_stream *s, nc_capture **out, nc_diag *diag) {
    if (s == NULL) return nc_diag_set(diag, NC_E_ARGUMENT, NULL, NULL, "cuda: capture needs a stream");
    return nc_cuda_capture_end(&enter(d)->cuda, s, out, diag);
}

static bool cuda_capture_patch(nc_device *d, nc_stream *s, nc_capture *capture, const int *pieces, int n) {
    return nc_cuda_capture_patch(&enter(d)->cuda, s, capture, pieces, n);
}

static nc_code cuda_capture_replay(nc_device *d, nc_stream *s, nc_capture *capture, nc_diag *diag) {
    const nc_cuda *c = &enter(d)->cuda;
    NC_TRY(sync_if_no_stream(c, s, diag));
    NC_TRY(nc_cuda_capture_launch(c, s, capture, diag));
    nc_cuda_issued(s);
    return sync_if_no_stream(c, s, diag);
}

static void cuda_capture_destroy(nc_device *d, nc_capture *capture) {
    nc_cuda_capture_destroy(&enter(d)->cuda, capture);
}

/* Also for a device that was only begun. */
static void cuda_destroy(nc_device *d) {
    cuda_device *g = enter(d);
    const nc_cuda *c = &g->cuda;
    warn(sync_all(c), "cuCtxSynchronize");
    nc_cuda_modules_destroy(g->modules);
    nc_cuda_dnn_destroy(c->dnn);
    if (c->lt != NULL) c->api->cublasLtDestroy(c->lt);
    nc_cuda_fault_unref(c, g->fault);
    nc_cuda_room_release(d, NULL, &g->room);
    nc_cuda_memory_destroy(g->memory);
    WARN_CU(cuCtxSetCurrent, (NULL));
    WARN_CU(cuDevicePrimaryCtxRelease_v2, (c->device));
    pthread_mutex_destroy(&g->mutex);
    nc_free(g);
}

static void cuda_describe(nc_device *d, char *text, size_t bytes);

static const nc_device_table table = {
    .name = "cuda",
    .kernels = "cuda",
    .host_memory = false,
    .one_memory = true,
    .destroy = cuda_destroy,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .lend = cuda_lend,
    .trim = cuda_trim,
    .fill = cuda_fill,
    .copy = cuda_copy,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .stream_create = cuda_stream_create,
    .stream_wrap = cuda_stream_wrap,
    .stream_handle = cuda_stream_handle,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_done = cuda_event_done,
    .event_spoilt = cuda_event_spoilt,
    .host_call = cuda_host_call,
    .launch = cuda_launch,
    .compile = cuda_compile,
    .compile_wait = cuda_compile_wait,
    .launch_function = cuda_launch_function,
    .stream_id = cuda_stream_id,
    .capture_begin = cuda_capture_begin,
    .capture_mark = cuda_capture_mark,
    .capture_end = cuda_capture_end,
    .capture_patch = cuda_capture_patch,
    .capture_replay = cuda_capture_replay,
    .capture_destroy = cuda_capture_destroy,
};

nc_cuda *nc_device_cuda(nc_device *d) { return d != NULL && d->table == &table ? &((cuda_device *)d)->cuda : NULL; }

void *nc_cuda_partials(nc_device *d, nc_stream *s) { return atomic_load(&room_of(d, s)->small); }

void *nc_cuda_counters(nc_device *d, nc_stream *s) {
    char *small = nc_cuda_partials(d, s);
    return small != NULL ? small + NC_CUDA_PARTIALS : NULL;
}

nc_cuda_fault *nc_cuda_fault_of(nc_device *d, const nc_stream *s) { return s ? s->fault : ((cuda_device *)d)->fault; }

/* Fills c up to the properties; needs no context. */
static nc_code identify(nc_cuda *c, int ordinal, nc_diag *diag) {
    const char *why = nc_cuda_missing(NC_CUDA_cuda);
    if (why == NULL) why = nc_cuda_missing(NC_CUDA_nvrtc); /* its version is part of every kernel's key */
    if (why != NULL) return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "cuda: %s", why);
    *c = (nc_cuda){.api = nc_cuda_api_get(), .ordinal = ordinal};
    int n = 0;
    TRY_CU(cuInit, (0), diag);
    TRY_CU(cuDeviceGetCount, (&n), diag);
    if (ordinal >= n) return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "cuda:%d is not there: %d GPUs", ordinal, n);
    TRY_CU(cuDeviceGet, (&c->device, ordinal), diag);
    TRY_CU(cuDeviceGetName, (c->name, (int)sizeof c->name, c->device), diag);
    TRY_CU(cuDriverGetVersion, (&c->driver_version), diag);
    const struct {
        int attribute, *value;
    } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &c->major},
                  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &c->minor},
                  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &c->n_multiprocessors},
                  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &c->bytes_shared_max}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        TRY_CU(cuDeviceGetAttribute, (wanted[i].value, wanted[i].attribute, c->device), diag);
    return NC_OK;
}

bool nc_device_cuda_available(char *why, size_t bytes_why) {
    nc_cuda c;
    nc_diag diag = {0};
    bool ok = identify(&c, 0, &diag) == NC_OK;
    if (bytes_why > 0) snprintf(why, bytes_why, "%s", ok ? "" : diag.text);
    return ok;
}

/* How many bytes of free blocks stay with us: NACRE_CUDA_KEEP, else all. */
static size_t bytes_to_keep(void) {
    const char *text = getenv("NACRE_CUDA_KEEP");
    if (text == NULL || *text < '0' || *text > '9') return SIZE_MAX;
    errno = 0;
    unsigned long long bytes = strtoull(text, NULL, 10);
    return errno != 0 || bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

/* ---- libraries by need ---- */

static void add_library(char *text, size_t bytes, const char *name, nc_cuda_library l, size_t version,
                        const char *without) {
    const char *why = nc_cuda_missing(l);
    size_t n = strlen(text);
    if (why == NULL)
        snprintf(text + n, bytes - n, ", %s %zu.%zu.%zu", name, version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(text + n, bytes - n, "; %s without %s: %s", without, name, why);
}

/* The libraries' versions behind the description of the device, or what their absence costs and why they are not
 * there. */
static void cuda_describe(nc_device *d, char *text, size_t bytes) {
    const nc_cuda_api *a = enter(d)->cuda.api;
    bool lt = nc_cuda_missing(NC_CUDA_lt) == NULL, dnn = nc_cuda_missing(NC_CUDA_dnn) == NULL;
    add_library(text, bytes, "cuBLASLt", NC_CUDA_lt, lt ? a->cublasLtGetVersion() : 0, "slow products");
    add_library(text, bytes, "cuDNN", NC_CUDA_dnn, dnn ? a->cudnnGetVersion() : 0, "slow convolutions");
}

static nc_code make_lt(cuda_device *g, nc_diag *diag) {
    nc_cuda *c = &g->cuda;
    const char *why = nc_cuda_missing(NC_CUDA_lt);
    if (why == NULL)
        NC_TRY(nc_cuda_check_lt(c->api->cublasLtCreate(&c->lt), "cublasLtCreate", diag));
    else
        nc_log(NC_LOG_WARNING, "cuda: products run without cuBLASLt, slowly: %s", why);
    g->asked_lt = true;
    return NC_OK;
}

nc_code nc_cuda_need_lt(nc_device *d, nc_diag *diag) {
    if (nc_device_cuda(d) == NULL) return NC_OK;
    cuda_device *g = enter(d);
    pthread_mutex_lock(&g->mutex);
    nc_code code = g->asked_lt ? NC_OK : make_lt(g, diag);
    pthread_mutex_unlock(&g->mutex);
    return code;
}

void nc_cuda_need_dnn(nc_device *d) {
    if (nc_device_cuda(d) == NULL) return;
    cuda_device *g = enter(d);
    pthread_mutex_lock(&g->mutex);
    if (!g->asked_dnn) g->cuda.dnn = nc_cuda_dnn_create(&g->cuda);
    g->asked_dnn = true;
    pthread_mutex_unlock(&g->mutex);
}

static nc_code equip(cuda_device *g, nc_diag *diag) {
    nc_cuda *c = &g->cuda;
    size_t bytes = 0;
    TRY_CU(cuCtxSetCurrent, (c->context), diag);
    TRY_CU(cuDeviceTotalMem_v2, (&bytes, c->device), diag);
    snprintf(g->base.description, sizeof g->base.description, "%s, compute %d.%d, %zu GiB", c->name, c->major, c->minor,
             bytes >> 30);
    if ((g->memory = nc_cuda_memory_create(c, bytes_to_keep())) == NULL) return no_memory(diag);
    NC_TRY(nc_cuda_fault_create(c, &g->fault, diag));
    g->modules = nc_cuda_modules_create(c);
    return g->modules ? NC_OK : no_memory(diag);
}

static nc_code create(cuda_device **out, int ordinal, nc_diag *diag) {
    nc_cuda found, *c = &found;
    NC_TRY(identify(&found, ordinal, diag));
    cuda_device *g = nc_alloc_zero(1, sizeof *g);
    if (g == NULL) return no_memory(diag);
    nc_code code =
        nc_cuda_check(c->api->cuDevicePrimaryCtxRetain(&c->context, c->device), "cuDevicePrimaryCtxRetain", diag);
    if (code != NC_OK) {
        nc_free(g);
        return code;
    }
    pthread_mutex_init(&g->mutex, NULL); /* of this kind it cannot fail */
    g->base.table = &table;
    g->base.number = ordinal;
    g->cuda = found;
    code = equip(g, diag);
    if (code == NC_OK)
        *out = g;
    else
        cuda_destroy(&g->base);
    return code;
}

nc_code nc_device_cuda_create(nc_work *w, int ordinal, nc_device **out) {
    nc_diag diag = {0};
    cuda_device *g = NULL;
    nc_code code = create(&g, ordinal, &diag);
    if (code != NC_OK) NC_FAIL(w, code, "%s", diag.text);
    *out = &g->base;
    return NC_OK;
}
