/* tests/cuda/standin_test.c: the stand-ins themselves: each kind of fault that they are there to find is made on
 * purpose and found, and what CUDA promises holds in every order. Not run where they are not in use. */
#include "tests/cuda/standin.h"
#include "tests/device.h"
#include "tests/fault.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const standin_control *control(void) {
    nc_cuda_api_get();
    const standin_control *c = standin_find();
    if (c == NULL) nc_test_not_run("needs the stand-ins of tests/cuda: NACRE_CUDA_PATH=build/release/cuda");
    return c;
}

/* Back to the order that the environment asks for. */
static void calm(void) {
    const char *seed = getenv("NACRE_STANDIN_SEED");
    control()->order(seed ? strtoull(seed, NULL, 10) : 0);
    control()->fail(NULL, 0, 0, false);
}

/* On a device of its own, in the order that is latest of all. keep: of NACRE_CUDA_KEEP. */
static void run_standin(const char *keep, void (*fn)(nc_device *d)) {
    if (control() == NULL) return;
    const char *before = getenv("NACRE_CUDA_KEEP");
    control()->order(0);
    setenv("NACRE_CUDA_KEEP", keep, 1);
    run_on("cuda", fn);
    if (before != NULL)
        setenv("NACRE_CUDA_KEEP", before, 1);
    else
        unsetenv("NACRE_CUDA_KEEP");
    calm();
}

/* Blocks are the driver's own, so that their ends are seen. */
#define STANDIN(id)                              \
    static void id(nc_device *d);                \
    TEST(standin_##id) { run_standin("0", id); } \
    static void id(nc_device *d)
/* With the blocks that the device keeps. */
#define KEEPING(id)                                \
    static void id(nc_device *d);                  \
    TEST(standin_##id) { run_standin("all", id); } \
    static void id(nc_device *d)

static nc_code launch(nc_device *d, nc_stream *s, const char *text, const char *name, uint32_t blocks, uint32_t threads,
                      unsigned bytes_shared, void **args) {
    nc_function *f = NULL;
    OK(d->table->compile(d, text, name, &f, &diag));
    if (f == NULL) return NC_E_DEVICE;
    return d->table->launch_function(d, s, f, (nc_dim3){blocks, 1, 1}, (nc_dim3){threads, 1, 1}, bytes_shared, args,
                                     &diag);
}

static void says(const char *part) {
    if (strstr(diag.text, part) == NULL) nc_test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", diag.text, part);
}

static void complains(const char *part) {
    const char *text = control()->complaint();
    if (strstr(text, part) == NULL) nc_test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", text, part);
}

/* After a fault the context is lost with all that it has: nothing can be given back but the book's entry. */
static void lost(nc_device *d) {
    nc_diag ignored = {0};
    CHECK(d->table->stream_sync(d, NULL, &ignored) == NC_E_DEVICE);
}

/* ---- memory ---- */

STANDIN(host_touch_faults) {
    volatile char *p = take(d, NULL, 100);
    OK(d->table->fill(d, NULL, (void *)(uintptr_t)p, 7, 100, &diag));
    for (int k = 0; k < 2; k++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            signal(SIGSEGV, SIG_DFL);
            if (k == 0) _exit(p[0]);
            p[99] = 1;
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    d->table->free(d, NULL, (void *)(uintptr_t)p);
}

static const char poke[] = "extern \"C\" __global__ void poke(char *p, long long at) { p[at] = 1; }\n"
                           "struct inside { long long n; const int *host; };\n"
                           "extern \"C\" __global__ void peek(int *to, inside from) { *to = *from.host; }\n";

static void poke_at(nc_device *d, char *p, long long at) {
    nc_stream *s = stream(d);
    void *args[] = {&p, &at};
    OK(launch(d, s, poke, "poke", 1, 1, 0, args));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_ILLEGAL_ADDRESS");
    lost(d);
    d->table->stream_destroy(d, s);
    d->table->free(d, NULL, p);
}

STANDIN(out_of_bounds_is_an_illegal_address) {
    poke_at(d, take(d, NULL, 100), 256);
    complains("poke: touched address");
}

STANDIN(a_byte_behind_the_end_is_seen) {
    poke_at(d, take(d, NULL, 100), 100);
    complains("poke: something wrote byte 100 of a block of 100 bytes");
}

STANDIN(a_freed_block_is_an_illegal_address) {
    nc_stream *s = stream(d);
    char *p = take(d, s, 64);
    long long at = 0;
    void *args[] = {&p, &at};
    d->table->free(d, s, p);
    OK(launch(d, s, poke, "poke", 1, 1, 0, args));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_ILLEGAL_ADDRESS");
    d->table->stream_destroy(d, s);
}

STANDIN(host_addresses_in_arguments_are_seen) {
    int on_host = 5, *to = take(d, NULL, sizeof *to);
    struct {
        long long n;
        const int *host;
    } from = {1, &on_host};
    nc_stream *s = stream(d);
    void *args[] = {&to, &from};
    OK(launch(d, s, poke, "peek", 1, 1, 0, args));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_ILLEGAL_ADDRESS");
    complains("peek: argument 1 holds");
    d->table->stream_destroy(d, s);
    d->table->free(d, NULL, to);
}

STANDIN(page_locked_memory_may_be_read_by_kernels) {
    int *host = NULL, *to = take(d, NULL, sizeof *to), got = 0;
    OK(d->table->host_alloc(d, sizeof *host, (void **)&host, &diag));
    *host = 77;
    struct {
        long long n;
        const int *host;
    } from = {1, host};
    void *args[] = {&to, &from};
    OK(launch(d, NULL, poke, "peek", 1, 1, 0, args));
    down(d, NULL, &got, to, sizeof got);
    CHECK_INT(got, 77);
    d->table->host_free(d, host);
    d->table->free(d, NULL, to);
}

STANDIN(copies_know_host_from_device) {
    const nc_cuda_api *api = nc_cuda_api_get();
    char host[8] = {0}, *p = take(d, NULL, 8);
    CUdeviceptr device = (CUdeviceptr)(uintptr_t)p, not_device = (CUdeviceptr)(uintptr_t)host;
    CHECK_INT(api->cuMemcpyHtoDAsync_v2(not_device, host, 8, NULL), 1);
    CHECK_INT(api->cuMemcpyHtoDAsync_v2(device, p, 8, NULL), 1);
    CHECK_INT(api->cuMemcpyHtoDAsync_v2(device + 1, host, 8, NULL), 1);
    CHECK_INT(api->cuMemcpyDtoHAsync_v2(p, device, 8, NULL), 1);
    CHECK_INT(api->cuMemcpyDtoDAsync_v2(device, not_device, 8, NULL), 1);
    CHECK_INT(api->cuMemsetD8Async(device, 0, 9, NULL), 1);
    CHECK_INT(api->cuMemFree_v2(device + 1), 1);
    CHECK_INT(api->cuMemFreeHost(host), 1);
    CHECK_INT(api->cuMemAlloc_v2(&device, 0), 1);
    d->table->free(d, NULL, p);
}

/* ---- streams ---- */

STANDIN(a_missing_wait_shows) {
    CHECK_INT(across_streams(d, false), 1); /* the old byte */
    CHECK_INT(across_streams(d, true), 2);
}

STANDIN(every_order_keeps_waits) {
    int early = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        control()->order(seed);
        CHECK_INT(across_streams(d, true), 2);
        early += across_streams(d, false) == 2;
    }
    CHECK(early > 4 && early < 36); /* orders differ */
}

static void count_up(void *p) { ++*(int *)p; }

STANDIN(work_waits_until_it_is_asked_for) {
    nc_stream *s = stream(d);
    nc_event *e = NULL;
    int n = 0;
    OK(d->table->event_create(d, &e, &diag));
    for (int i = 0; i < 5; i++) OK(d->table->host_call(d, s, count_up, &n, &diag));
    OK(d->table->event_record(d, e, s, &diag));
    CHECK(n == 0 && control()->pending());
    int asked = 0;
    while (!d->table->event_done(d, e) && asked < 50) asked++; /* asking gets on */
    CHECK(n == 5 && asked > 1 && asked < 50 && !control()->pending());
    d->table->event_destroy(d, e);
    d->table->stream_destroy(d, s);
}

static int code_of_call;
static void call_cuda(void *p) {
    (void)p;
    code_of_call = nc_cuda_api_get()->cuCtxSynchronize();
}

STANDIN(host_functions_may_not_call_cuda) {
    nc_stream *s = stream(d);
    OK(d->table->host_call(d, s, call_cuda, NULL, &diag));
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(code_of_call, 800);
    d->table->stream_destroy(d, s);
}

/* ---- capture ---- */

STANDIN(waiting_in_a_capture_spoils_it) {
    nc_stream *s = stream(d);
    nc_capture *c = NULL;
    char *p = take(d, NULL, 4), got[4] = {0};
    OK(d->table->capture_begin(d, s, &diag));
    OK(d->table->fill(d, s, p, 1, 4, &diag));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    FAILS(d->table->fill(d, s, p, 2, 4, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    CHECK(c == NULL);
    OK(d->table->fill(d, s, p, 3, 4, &diag)); /* the stream is good again */
    down(d, s, got, p, 4);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(got[3], 3);
    d->table->stream_destroy(d, s);
    d->table->free(d, NULL, p);
}

STANDIN(allocating_in_a_capture_spoils_it) {
    nc_stream *s = stream(d);
    nc_capture *c = NULL;
    void *p = NULL;
    CUmodule module;
    const nc_cuda_api *api = nc_cuda_api_get();
    OK(d->table->capture_begin(d, s, &diag));
    FAILS(d->table->alloc(d, NULL, 64, &p, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    CHECK_INT(api->cuModuleLoadData(&module, "text"), 900);
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE);
    d->table->stream_destroy(d, s);
}

STANDIN(captures_know_their_streams) {
    nc_stream *s = stream(d), *other = stream(d);
    nc_event *e = NULL;
    nc_capture *c = NULL;
    char *p = take(d, NULL, 4);
    OK(d->table->event_create(d, &e, &diag));
    OK(d->table->event_record(d, e, other, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    FAILS(d->table->event_wait(d, e, s, &diag), NC_E_DEVICE); /* recorded outside */
    says("CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE);
    OK(d->table->capture_begin(d, s, &diag));
    OK(d->table->event_record(d, e, s, &diag));
    FAILS(d->table->event_sync(d, e, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_CAPTURED_EVENT");
    OK(d->table->event_wait(d, e, other, &diag));
    OK(d->table->fill(d, other, p, 1, 4, &diag));
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE); /* other was not joined again */
    says("CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
    d->table->event_destroy(d, e);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, other);
    d->table->free(d, NULL, p);
}

typedef struct ended {
    nc_device *d;
    nc_stream *s;
    int code;
} ended;

static void *end_capture(void *p) {
    ended *e = p;
    CUgraph g = NULL;
    const nc_cuda_api *api = nc_cuda_api_get();
    api->cuCtxSetCurrent(nc_device_cuda(e->d)->context);
    e->code = api->cuStreamEndCapture(nc_cuda_stream(e->s), &g);
    return NULL;
}

STANDIN(a_capture_ends_on_its_thread) {
    ended e = {d, stream(d), 0};
    nc_capture *c = NULL;
    pthread_t t;
    OK(d->table->capture_begin(d, e.s, &diag));
    REQUIRE(pthread_create(&t, NULL, end_capture, &e) == 0);
    pthread_join(t, NULL);
    CHECK_INT(e.code, 908);
    OK(d->table->capture_end(d, e.s, &c, &diag));
    d->table->capture_destroy(d, c);
    d->table->stream_destroy(d, e.s);
}

/* Another thread's free waits for all work, which a capture does not allow: one of them has to wait for the other. */
static _Atomic bool began;
static void *free_meanwhile(void *p) {
    ended *e = p;
    nc_diag own = {0};
    void *block = NULL;
    began = true;
    e->code = e->d->table->alloc(e->d, NULL, 64, &block, &own);
    e->d->table->free(e->d, NULL, block);
    return NULL;
}

STANDIN(a_capture_survives_another_threads_free) {
    ended e = {d, stream(d), 0};
    nc_capture *c = NULL;
    pthread_t t;
    char *p = take(d, NULL, 4);
    began = false;
    OK(d->table->capture_begin(d, e.s, &diag));
    REQUIRE(pthread_create(&t, NULL, free_meanwhile, &e) == 0);
    while (!began) usleep(100);
    for (int i = 0; i < 100; i++) {
        OK(d->table->fill(d, e.s, p, i, 4, &diag));
        usleep(100);
    }
    OK(d->table->capture_end(d, e.s, &c, &diag));
    pthread_join(t, NULL);
    CHECK(c != NULL && e.code == NC_OK);
    d->table->capture_destroy(d, c);
    d->table->stream_destroy(d, e.s);
    d->table->free(d, NULL, p);
}

/* Two branches between a fork and a join, and a host function: any order of the branches, never of the ends. */
STANDIN(graphs_run_in_any_order_of_their_edges) {
    nc_stream *s = stream(d), *side = stream(d);
    nc_event *fork_event = NULL, *join_event = NULL;
    nc_capture *c = NULL;
    char *p = take(d, NULL, 4), got[4] = {0};
    int n = 0;
    OK(d->table->event_create(d, &fork_event, &diag));
    OK(d->table->event_create(d, &join_event, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    OK(d->table->fill(d, s, p, 1, 4, &diag));
    OK(d->table->event_record(d, fork_event, s, &diag));
    OK(d->table->event_wait(d, fork_event, side, &diag));
    OK(d->table->fill(d, side, p, 2, 1, &diag));
    OK(d->table->fill(d, s, p + 1, 3, 1, &diag));
    OK(d->table->event_record(d, join_event, side, &diag));
    OK(d->table->event_wait(d, join_event, s, &diag));
    OK(d->table->host_call(d, s, count_up, &n, &diag));
    OK(d->table->copy(d, s, p + 2, false, p, false, 2, &diag));
    OK(d->table->capture_end(d, s, &c, &diag));
    for (uint64_t seed = 0; seed < 12; seed++) {
        control()->order(seed);
        OK(d->table->fill(d, s, p, 9, 4, &diag));
        OK(d->table->capture_replay(d, s, c, &diag));
        down(d, s, got, p, 4);
        OK(d->table->stream_sync(d, s, &diag));
        CHECK(got[0] == 2 && got[1] == 3 && got[2] == 2 && got[3] == 3 && n == (int)seed + 1);
    }
    d->table->capture_destroy(d, c);
    d->table->event_destroy(d, fork_event);
    d->table->event_destroy(d, join_event);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, side);
    d->table->free(d, NULL, p);
}

/* ---- kernels ---- */

static const char words[] =
    "extern \"C\" __global__ void sums(const int *x, int *y, int barrier) {\n"
    "    __shared__ int tile[64];\n"
    "    tile[threadIdx.x] = x[threadIdx.x];\n"
    "    if (barrier) __syncthreads();\n"
    "    int sum = 0;\n"
    "    for (int i = 0; i < 64; i++) sum += tile[i];\n"
    "    y[threadIdx.x] = sum;\n"
    "}\n"
    "extern \"C\" __global__ void diverges() { if (threadIdx.x == 3) __syncthreads(); else __syncwarp(); }\n"
    "extern \"C\" __global__ __launch_bounds__(32) void warps(int *y, float *z) {\n"
    "    int t = threadIdx.x, v = t * t;\n"
    "    y[t] = __shfl_down_sync(0xffffffffu, v, 1);\n"
    "    y[32 + t] = __shfl_up_sync(0xffffffffu, v, 2);\n"
    "    y[64 + t] = __shfl_sync(0xffffffffu, v, 5, 8);\n"
    "    y[96 + t] = (int)__ballot_sync(0xffffffffu, t % 3 == 0);\n"
    "    y[128 + t] = __reduce_max_sync(0xffffffffu, -v);\n"
    "    y[160 + t] = __any_sync(0xffffffffu, t == 31) + 2 * __all_sync(0xffffffffu, t < 31);\n"
    "    y[192 + t] = __syncthreads_count(t < 7);\n"
    "    atomicAdd(&y[224], t);\n"
    "    atomicMax(&y[225], v);\n"
    "    float h;\n"
    "    unsigned short bits;\n"
    "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"((float)v + 0.3f));\n"
    "    asm volatile(\"cvt.f32.f16 %0, %1;\" : \"=f\"(h) : \"h\"(bits));\n"
    "    z[t] = h;\n"
    "}\n"
    "extern \"C\" __global__ void dynamic(int *y) {\n"
    "    extern __shared__ int room[];\n"
    "    room[threadIdx.x] = (int)threadIdx.x;\n"
    "    __syncthreads();\n"
    "    y[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];\n"
    "}\n";

static int sum_of_tile(nc_device *d, int barrier, uint64_t seed) {
    int x[64], *dx = take(d, NULL, sizeof x), *dy = take(d, NULL, sizeof x), got[64] = {0}, right = 0;
    for (int i = 0; i < 64; i++) x[i] = i;
    up(d, NULL, dx, x, sizeof x);
    control()->order(seed);
    void *args[] = {&dx, &dy, &barrier};
    OK(launch(d, NULL, words, "sums", 1, 64, 0, args));
    down(d, NULL, got, dy, sizeof got);
    for (int i = 0; i < 64; i++) right += got[i] == 63 * 64 / 2;
    d->table->free(d, NULL, dx);
    d->table->free(d, NULL, dy);
    return right;
}

STANDIN(a_missing_barrier_shows) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        CHECK_INT(sum_of_tile(d, 1, seed), 64);
        CHECK(sum_of_tile(d, 0, seed) < 64);
    }
}

STANDIN(threads_that_wait_for_each_other_are_seen) {
    nc_stream *s = stream(d);
    OK(launch(d, s, words, "diverges", 1, 32, 0, (void *[]){NULL}));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_LAUNCH_FAILED");
    complains("wait for each other");
    d->table->stream_destroy(d, s);
}

/* A text that begins early, with and without its wait. */
static const char early_text[] = "#define BEGINS_EARLY 1\n"
                                 "extern \"C\" __global__ void waits(int n) {\n"
                                 "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
                                 "}\n"
                                 "extern \"C\" __global__ void hurries(int n) {\n"
                                 "    if (n == 0) asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
                                 "}\n";

STANDIN(early_kernels_must_wait) {
    nc_stream *s = stream(d);
    int n = 1;
    void *args[] = {&n};
    control()->reset_calls();
    OK(launch(d, s, early_text, "waits", 2, 32, 0, args));
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(control()->calls("cuLaunchKernelEx"), 1);
    OK(launch(d, s, early_text, "hurries", 2, 32, 0, args));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_LAUNCH_FAILED");
    complains("launched early");
    d->table->stream_destroy(d, s);
}

STANDIN(words_of_warps_and_atomics) {
    int got[226] = {0}, *y = take(d, NULL, sizeof got);
    float z[32], *dz = take(d, NULL, sizeof z);
    OK(d->table->fill(d, NULL, y, 0, sizeof got, &diag));
    void *args[] = {&y, &dz};
    OK(launch(d, NULL, words, "warps", 1, 32, 0, args));
    down(d, NULL, got, y, sizeof got);
    down(d, NULL, z, dz, sizeof z);
    for (int t = 0; t < 32; t++) {
        CHECK_INT(got[t], t < 31 ? (t + 1) * (t + 1) : t * t);
        CHECK_INT(got[32 + t], t >= 2 ? (t - 2) * (t - 2) : t * t);
        CHECK_INT(got[64 + t], (t / 8 * 8 + 5) * (t / 8 * 8 + 5));
        CHECK_INT((unsigned)got[96 + t], 0x49249249u);
        CHECK(got[128 + t] == 0 && got[160 + t] == 1 && got[192 + t] == 7);
        CHECK_NEAR(z[t], (double)nc_f16_to_f32(nc_f32_to_f16((float)(t * t) + 0.3f)), 0);
    }
    CHECK(got[224] == 496 && got[225] == 961);
    nc_function *f = NULL;
    OK(d->table->compile(d, words, "warps", &f, &diag));
    FAILS(d->table->launch_function(d, NULL, f, (nc_dim3){1, 1, 1}, (nc_dim3){33, 1, 1}, 0, args, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    FAILS(d->table->launch_function(d, NULL, f, (nc_dim3){1, 65536, 1}, (nc_dim3){32, 1, 1}, 0, args, &diag),
          NC_E_DEVICE);
    says("CUDA_ERROR_INVALID_VALUE");
    d->table->free(d, NULL, y);
    d->table->free(d, NULL, dz);
}

STANDIN(shared_memory_by_size) {
    enum { N = 100 };
    int got[N] = {0}, *y = take(d, NULL, sizeof got);
    void *args[] = {&y};
    OK(launch(d, NULL, words, "dynamic", 1, N, N * sizeof(int), args));
    down(d, NULL, got, y, sizeof got);
    for (int i = 0; i < N; i++) CHECK_INT(got[i], N - 1 - i);
    FAILS(launch(d, NULL, words, "dynamic", 1, N, 1 << 20, args), NC_E_DEVICE);
    d->table->free(d, NULL, y);
}

/* ---- cuBLASLt ---- */

typedef struct lt {
    const nc_cuda_api *api;
    cublasLtMatmulDesc desc;
    cublasLtMatrixLayout a, b, c;
    cublasLtMatmulPreference preference;
} lt;

/* C (2,2) = A (2,K) * B (K,2), f32. */
static lt lt_open(nc_device *d, uint64_t K) {
    lt x = {.api = nc_cuda_api_get()};
    OK(nc_cuda_need_lt(d, &diag));
    CHECK_INT(x.api->cublasLtMatmulDescCreate(&x.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    CHECK_INT(x.api->cublasLtMatrixLayoutCreate(&x.a, CUDA_R_32F, 2, K, 2), 0);
    CHECK_INT(x.api->cublasLtMatrixLayoutCreate(&x.b, CUDA_R_32F, K, 2, (int64_t)K), 0);
    CHECK_INT(x.api->cublasLtMatrixLayoutCreate(&x.c, CUDA_R_32F, 2, 2, 2), 0);
    CHECK_INT(x.api->cublasLtMatmulPreferenceCreate(&x.preference), 0);
    return x;
}

static void lt_close(lt *x) {
    x->api->cublasLtMatmulDescDestroy(x->desc);
    x->api->cublasLtMatrixLayoutDestroy(x->a);
    x->api->cublasLtMatrixLayoutDestroy(x->b);
    x->api->cublasLtMatrixLayoutDestroy(x->c);
    x->api->cublasLtMatmulPreferenceDestroy(x->preference);
}

static int lt_algo(nc_device *d, lt *x, cublasLtMatrixLayout b, cublasLtMatmulAlgo *algo) {
    cublasLtMatmulHeuristicResult r = {0};
    int n = 0, code = x->api->cublasLtMatmulAlgoGetHeuristic(nc_device_cuda(d)->lt, x->desc, x->a, b, x->c, x->c,
                                                             x->preference, 1, &r, &n);
    if (code == 0) *algo = r.algo;
    return code;
}

static int lt_run(nc_device *d, lt *x, float *p, const cublasLtMatmulAlgo *algo) {
    const float one = 1, zero = 0;
    return x->api->cublasLtMatmul(nc_device_cuda(d)->lt, x->desc, &one, p, x->a, p + 64, x->b, &zero, p + 128, x->c,
                                  p + 128, x->c, algo, NULL, 0, NULL);
}

STANDIN(products_refuse_what_does_not_fit) {
    lt x = lt_open(d, 3), longer = lt_open(d, 4);
    cublasLtMatmulAlgo algo, other;
    float *p = take(d, NULL, 132 * sizeof *p);
    CHECK_INT(lt_algo(d, &x, longer.b, &algo), 7);
    CHECK_INT(lt_algo(d, &x, x.b, &algo), 0);
    CHECK_INT(lt_algo(d, &longer, longer.b, &other), 0);
    CHECK_INT(lt_run(d, &x, p, &other), 7);     /* chosen for another product */
    CHECK_INT(lt_run(d, &x, p + 1, &algo), 7);  /* less aligned than was said */
    CHECK_INT(lt_run(d, &x, p + 64, &algo), 7); /* reaches behind the block */
    CHECK_INT(lt_run(d, &x, p, &algo), 0);
    int unknown = 1 << 12, size_of_int = 8;
    CHECK_INT(x.api->cublasLtMatmulDescSetAttribute(x.desc, CUBLASLT_MATMUL_DESC_TRANSA, &unknown, 8), 7);
    CHECK_INT(x.api->cublasLtMatmulDescSetAttribute(x.desc, 1000, &size_of_int, 4), 7);
    CHECK_INT(x.api->cublasLtMatmulDescSetAttribute(x.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &unknown, 4), 0);
    CHECK_INT(lt_algo(d, &x, x.b, &algo), 15);
    lt_close(&x);
    lt_close(&longer);
    d->table->free(d, NULL, p);
}

STANDIN(products_have_epilogues) {
    static const int epilogues[] = {CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_RELU,
                                    CUBLASLT_EPILOGUE_GELU};
    const float a[4] = {1, -1, 2, -2}, b[4] = {1, 0.5f, -0.25f, 1}, bias[2] = {0.5f, -0.25f};
    float got[4], *p = take(d, NULL, 260 * sizeof *p);
    up(d, NULL, p, a, sizeof a);
    up(d, NULL, p + 64, b, sizeof b);
    up(d, NULL, p + 192, bias, sizeof bias);
    for (int e = 0; e < 4; e++) {
        lt x = lt_open(d, 2);
        cublasLtMatmulAlgo algo;
        const void *at = p + 192;
        CHECK_INT(x.api->cublasLtMatmulDescSetAttribute(x.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[e], 4), 0);
        CHECK_INT(lt_algo(d, &x, x.b, &algo), 0);
        if (e < 2) CHECK_INT(lt_run(d, &x, p, &algo), 7); /* a bias without an address */
        CHECK_INT(x.api->cublasLtMatmulDescSetAttribute(x.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at), 0);
        CHECK_INT(lt_run(d, &x, p, &algo), 0);
        down(d, NULL, got, p + 128, sizeof got);
        for (int i = 0; i < 4; i++) {
            double v = (double)(a[i % 2] * b[i / 2 * 2] + a[i % 2 + 2] * b[i / 2 * 2 + 1] + (e < 2 ? bias[i % 2] : 0));
            double gelu = 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
            CHECK_CLOSE(got[i], e % 2 ? gelu : v > 0 ? v : 0, nc_tol_device_f32);
        }
        lt_close(&x);
    }
    d->table->free(d, NULL, p);
}

/* ---- blocks that are kept ---- */

enum { MUCH = 64 }; /* a question about an event lets one piece of queued work run: so many are not run by a test's */

KEEPING(a_block_freed_on_a_stream_is_used_again_there_at_once) {
    nc_stream *s = stream(d), *other = stream(d);
    char *p = take(d, s, 5000), back[8] = {0};
    for (int i = 0; i < MUCH; i++) OK(d->table->fill(d, s, p, 1, 5000, &diag));
    d->table->free(d, s, p);
    control()->reset_calls();
    char *elsewhere = take(d, other, 5000), *again = take(d, s, 4990);
    CHECK(again == p && elsewhere != p); /* the fill is still queued */
    CHECK_INT(control()->calls("cuMemAlloc_v2"), 1);
    OK(d->table->fill(d, s, again, 2, 8, &diag));
    down(d, s, back, again, 8);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(back[7], 2);
    d->table->free(d, s, again);
    char *third = take(d, other, 5000); /* nothing is under way on s */
    CHECK(third == p);
    CHECK_INT(control()->calls("cuCtxSynchronize"), 0);
    d->table->free(d, NULL, third);
    d->table->free(d, other, elsewhere);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, other);
}

KEEPING(a_block_freed_without_a_stream_waits_for_all_of_them) {
    nc_stream *s = stream(d), *other = stream(d);
    char *p = take(d, NULL, 70000);
    for (int i = 0; i < MUCH; i++) {
        OK(d->table->fill(d, s, p, 1, 70000, &diag));
        OK(d->table->fill(d, other, p, 2, 70000, &diag));
    }
    d->table->free(d, NULL, p);
    char *here = take(d, s, 70000), *any = take(d, NULL, 70000);
    CHECK(here != p && any != p); /* `other` may still write it */
    OK(d->table->stream_sync(d, other, &diag));
    char *again = take(d, s, 70000);
    CHECK(again == p);
    d->table->free(d, s, here);
    d->table->free(d, s, again);
    d->table->free(d, NULL, any);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, other);
}

KEEPING(a_block_shown_outside_waits_for_stream_zero) {
    const nc_cuda_api *api = nc_cuda_api_get();
    char *p = take(d, NULL, 70000), *q = take(d, NULL, 70000);
    d->table->lend(d, p + 100);
    for (int i = 0; i < MUCH; i++) /* another library's work */
        CHECK_INT(api->cuMemsetD8Async((CUdeviceptr)(uintptr_t)p, 3, 70000, NULL), 0);
    control()->reset_calls();
    d->table->free(d, NULL, q);
    CHECK_INT(control()->calls("cuEventRecord"), 0);
    d->table->free(d, NULL, p);
    CHECK_INT(control()->calls("cuEventRecord"), 1);
    char *first = take(d, NULL, 70000), *second = take(d, NULL, 70000);
    CHECK(first == q && second != p);
    OK(d->table->stream_sync(d, NULL, &diag));
    char *third = take(d, NULL, 70000);
    CHECK(third == p);
    d->table->free(d, NULL, first);
    d->table->free(d, NULL, second);
    d->table->free(d, NULL, third);
}

KEEPING(a_block_freed_in_a_capture_waits_until_it_ends) {
    nc_stream *s = stream(d);
    char *p = take(d, NULL, 9000);
    nc_capture *c = NULL;
    for (int i = 0; i < MUCH; i++) OK(d->table->fill(d, s, p, 1, 9000, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    char *q = NULL;
    OK(d->table->fill(d, s, p, 2, 9000, &diag));
    d->table->free(d, NULL, p);
    OK(d->table->capture_end(d, s, &c, &diag));
    q = take(d, NULL, 9000);
    CHECK(q != p);
    OK(d->table->stream_sync(d, s, &diag));
    char *again = take(d, NULL, 9000);
    CHECK(again == p);
    d->table->free(d, NULL, q);
    d->table->free(d, NULL, again);
    d->table->capture_destroy(d, c);
    d->table->stream_destroy(d, s);
}

KEEPING(kept_blocks_go_back_when_memory_is_short_or_trimmed) {
    char *p = take(d, NULL, 3 << 20);
    size_t before = control()->live("blocks");
    d->table->free(d, NULL, p);
    CHECK_INT(control()->live("blocks"), before);
    control()->fail("cuMemAlloc_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    p = take(d, NULL, 5 << 20); /* asked for twice */
    CHECK_STR(control()->failed(), "cuMemAlloc_v2");
    CHECK_INT(control()->live("blocks"), before);
    d->table->free(d, NULL, p);
    CHECK(d->table->trim(d) >= 5 << 20);
    CHECK_INT(control()->live("blocks"), before - 1);
    CHECK_INT(d->table->trim(d), 0);
}

/* Parameters of some MiB share pieces of the driver's, which go back with the last of them. */
KEEPING(blocks_of_some_mib_are_parts_of_slabs) {
    enum { N = 40 };
    const size_t bytes = (2 << 20) + (1 << 18);
    char *p[N];
    d->table->trim(d);
    size_t before = control()->live("blocks");
    for (int i = 0; i < N; i++) p[i] = take(d, NULL, bytes);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++) CHECK(p[i] + bytes <= p[k] || p[k] + bytes <= p[i]);
    CHECK(control()->live("blocks") - before < N / 2);
    for (int i = 1; i < N; i++) d->table->free(d, NULL, p[i]);
    control()->reset_calls();
    char *again = take(d, NULL, bytes);
    CHECK_INT(control()->calls("cuMemAlloc_v2"), 0);
    d->table->trim(d);
    OK(d->table->fill(d, NULL, p[0], 1, bytes, &diag)); /* slabs with a part in use are still there */
    OK(d->table->fill(d, NULL, again, 1, bytes, &diag));
    d->table->free(d, NULL, p[0]);
    d->table->free(d, NULL, again);
    d->table->trim(d);
    CHECK_INT(control()->live("blocks"), before);
}

KEEPING(large_blocks_are_hardly_larger_than_asked_for) {
    const size_t bytes = ((size_t)100 << 20) + 1;
    d->table->trim(d);
    d->table->free(d, NULL, take(d, NULL, bytes));
    size_t room = d->table->trim(d);
    CHECK(room >= bytes && room - bytes <= bytes / 64);
}

static void keeps_little(nc_device *d) {
    char *small = take(d, NULL, 1000), *large = take(d, NULL, 100000);
    size_t before = control()->live("blocks");
    d->table->free(d, NULL, small);
    CHECK_INT(control()->live("blocks"), before);
    d->table->free(d, NULL, large);
    CHECK_INT(control()->live("blocks"), before - 1);
}
TEST(standin_kept_blocks_have_a_cap) { run_standin("4096", keeps_little); }

/* ---- kernels of a session ---- */

static const char *const few_texts[] = {"extern \"C\" __global__ void one(int *p) { *p = 1; }\n",
                                        "extern \"C\" __global__ void two(int *p) { *p = 2; }\n",
                                        "extern \"C\" __global__ void three(int *p) { *p = 3; }\n"};
static const char *const few_names[] = {"one", "two", "three"};

static void compile_few(nc_device *d, uint64_t compiled) {
    nc_function *f[3] = {0}, *bad = NULL;
    int *p = take(d, NULL, sizeof *p), got = 0;
    void *args[] = {&p};
    control()->reset_calls();
    for (int i = 0; i < 3; i++) OK(d->table->compile(d, few_texts[i], few_names[i], &f[i], &diag));
    CHECK_INT(control()->calls("nvrtcCompileProgram"), 0);
    OK(d->table->compile_wait(d, &diag));
    CHECK_INT(control()->calls("nvrtcCompileProgram"), compiled);
    OK(d->table->compile_wait(d, &diag));
    CHECK_INT(control()->calls("nvrtcCompileProgram"), compiled);
    OK(d->table->compile(d, "__global__ void k() { nonsense; }", "k", &bad, &diag));
    FAILS(d->table->compile_wait(d, &diag), NC_E_DEVICE);
    says("nonsense");
    for (int i = 0; i < 3; i++) { /* what failed keeps nothing else from running */
        OK(d->table->launch_function(d, NULL, f[i], (nc_dim3){1, 1, 1}, (nc_dim3){1, 1, 1}, 0, args, &diag));
        down(d, NULL, &got, p, sizeof got);
        CHECK_INT(got, i + 1);
    }
    d->table->free(d, NULL, p);
}
static void compiles_three(nc_device *d) { compile_few(d, 3); }
static void compiles_none(nc_device *d) { compile_few(d, 0); }

TEST(standin_a_second_start_compiles_nothing) {
    if (control() == NULL) return;
    char folder[] = "/tmp/nacre_kernels_XXXXXX", command[64];
    const char *before = getenv("NACRE_CACHE");
    REQUIRE(mkdtemp(folder) != NULL);
    setenv("NACRE_CACHE", folder, 1);
    run_standin("all", compiles_three);
    run_standin("all", compiles_none);
    if (before != NULL)
        setenv("NACRE_CACHE", before, 1);
    else
        unsetenv("NACRE_CACHE");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}

/* ---- counting and failing ---- */

STANDIN(calls_are_counted_and_fail_as_ordered) {
    void *p = NULL;
    control()->reset_calls();
    p = take(d, NULL, 16);
    CHECK_INT(control()->calls("cuMemAlloc_v2"), 1);
    CHECK(control()->calls(NULL) >= 2);
    d->table->free(d, NULL, p);
    control()->fail("alloc", 2, CUDA_ERROR_OUT_OF_MEMORY, false);
    p = take(d, NULL, 16);
    d->table->free(d, NULL, p);
    FAILS(d->table->alloc(d, NULL, 16, &p, &diag), NC_E_MEMORY);
    says("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY");
    CHECK_STR(control()->failed(), "cuMemAlloc_v2");
    p = take(d, NULL, 16);
    d->table->free(d, NULL, p);
}

STANDIN(a_lost_gpu_stays_lost) {
    nc_stream *s = stream(d);
    char *p = take(d, s, 16);
    control()->fail("cuMemsetD8Async", 1, 46, true);
    FAILS(d->table->fill(d, s, p, 1, 16, &diag), NC_E_DEVICE);
    says("CUDA_ERROR_DEVICE_UNAVAILABLE");
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    d->table->free(d, s, p);
    d->table->stream_destroy(d, s);
}

/* Every call of a life fails once: the library says so, gives back what it had, and the next try succeeds. */
static void fail_call(uint64_t n) { control()->fail(NULL, n, 999, false); }
static bool call_failed(void) { return control()->failed() != NULL; }
static uint64_t count_calls(void) { return control()->calls(NULL); }

static char last_failed[64];

static const char *left_of_life(void) {
    static char text[200];
    const char *name = control()->failed();
    snprintf(last_failed, sizeof last_failed, "%s", name ? name : "nothing");
    size_t n = control()->left_behind(), contexts = control()->live("contexts");
    bool gives_back = name && (strstr(name, "Destroy") || strstr(name, "Free") || strstr(name, "Unload") ||
                               strstr(name, "SetCurrent") || strstr(name, "Release"));
    if (contexts == 0 && (n == 0 || gives_back)) return NULL;
    snprintf(text, sizeof text, "after a failure of %s: %zu contexts, %zu objects left", name ? name : "nothing",
             contexts, n);
    return text;
}

static const nc_fault_source driver_calls = {.name = "CUDA call",
                                             .fail_at = fail_call,
                                             .hit = call_failed,
                                             .count = count_calls,
                                             .code = NC_E_DEVICE,
                                             .left = left_of_life};

static void sweep(nc_fault_job job) {
    nc_fault_result r;
    if (control() == NULL) return;
    control()->order(0);
    nc_fault_sweep(&job, &r);
    calm();
    if (r.wrong[0]) nc_test_failed(job.path, 0, "%s (%s failed)", r.wrong, last_failed);
    uint64_t most = job.most && (uint64_t)job.most < r.n_allocs ? (uint64_t)job.most : r.n_allocs;
    CHECK(r.n_allocs > 100 && r.n_tried > most / 2);
}

TEST(standin_every_call_of_a_forward_pass_fails) {
    sweep((nc_fault_job){.path = "tests/fuzz/plan/mlp.nct", .device = "cuda", .source = &driver_calls});
}
TEST(standin_calls_of_captured_runs_fail) {
    sweep((nc_fault_job){.path = "tests/faults/attention.onnx",
                         .device = "cuda",
                         .capture = true,
                         .source = &driver_calls,
                         .most = 400});
}
TEST(standin_every_call_of_captured_training_fails) {
    sweep((nc_fault_job){.path = "tests/faults/training.onnx",
                         .loss = "loss",
                         .device = "cuda",
                         .capture = true,
                         .source = &driver_calls});
}
TEST(standin_every_allocation_of_training_fails) {
    sweep((nc_fault_job){.path = "tests/faults/training.onnx", .loss = "loss", .device = "cuda", .capture = true});
}
TEST(standin_every_allocation_of_control_flow_fails) {
    sweep((nc_fault_job){.path = "tests/faults/control.onnx", .device = "cuda", .most = 300});
}
