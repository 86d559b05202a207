/* tests/device.h: what the tests of the devices share: opening by name, a toy kernel for every device, and checks
 * of codes that print the diagnostic. Included by tests only. */
#ifndef NC_TESTS_DEVICE_H
#define NC_TESTS_DEVICE_H

#include "device/device.h"
#include "tests/check.h"

#include <stdlib.h>

/* y = state * x + packed[0], n elements. Input 1, where given, is a host argument that is added too. */
static inline nc_code toy_kernel(const nc_call *c) {
    float scale = *(const float *)c->state;
    int64_t n = c->in[0]->dims[0];
    const float *x = c->in[0]->data, *bias = c->packed ? c->packed[0] : NULL;
    float *y = c->out[0]->data, extra = c->n_in > 1 && c->in[1]->data ? *(const float *)c->in[1]->data : 0;
    if (n > 0 && x[0] < 0)
        return nc_diag_set(c->diag, NC_E_DATA, c->node, c->op, "x[0] is %g, expected >= 0", (double)x[0]);
    for (int64_t i = 0; i < n; i++) {
        if (c->workspace) ((float *)c->workspace)[i] = x[i];
        y[i] = scale * x[i] + (bias ? bias[i] : 0) + extra;
    }
    if (c->sizes) c->sizes[0] = n;
    return NC_OK;
}

static const char toy_text[] =
    "extern \"C\" __global__ void toy(const float *x, const float *bias, float *y, float *ws, long long *sizes,\n"
    "                                float scale, float extra, long long n) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = scale * x[i] + (bias ? bias[i] : 0) + extra;\n"
    "    if (i < n && ws) ws[i] = x[i];\n"
    "    if (i == 0 && sizes) sizes[0] = n;\n"
    "}\n";

static inline nc_code toy_launcher(const nc_call *c) {
    nc_function *f;
    NC_TRY(c->device->table->compile(c->device, toy_text, "toy", &f, c->diag));
    float scale = *(const float *)c->state, extra = c->n_in > 1 && c->in[1]->data ? *(const float *)c->in[1]->data : 0;
    const void *bias = c->packed ? c->packed[0] : NULL;
    void *workspace = c->workspace, *sizes = c->sizes;
    long long n = c->in[0]->dims[0];
    void *args[] = {&c->in[0]->data, &bias, &c->out[0]->data, &workspace, &sizes, &scale, &extra, &n};
    nc_dim3 grid = {(uint32_t)((n + 255) / 256), 1, 1}, block = {256, 1, 1};
    return c->device->table->launch_function(c->device, c->stream, f, grid, block, 0, args, c->diag);
}

static inline nc_kernel toy(const nc_device *d) {
    return strcmp(d->table->kernels, "cuda") == 0 ? toy_launcher : toy_kernel;
}

/* Runs fn on a device of its own, and checks that it leaves no block behind. */
static inline void run_on(const char *name, void (*fn)(nc_device *d)) {
    static char why[512];
    if (strcmp(name, "cuda") == 0 && !nc_device_cuda_available(why, sizeof why)) {
        nc_test_not_run(why);
        return;
    }
    nc_work w;
    nc_work_init(&w);
    nc_device *d = NULL;
    nc_code code = nc_device_open(&w, name, &d);
    if (code != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s", w.diag.text);
    if (code == NC_OK) {
        size_t live = atomic_load(&d->bytes_live);
        if (strcmp(name, "cuda") == 0) nc_test_ran_on(d->description);
        fn(d);
        CHECK_INT(atomic_load(&d->bytes_live), live);
    }
    nc_device_close(d);
    nc_work_release(&w);
}

#define EVERYWHERE(id)                        \
    static void id(nc_device *d);             \
    TEST(id##_cpu) { run_on("cpu", id); }     \
    TEST(id##_guard) { run_on("guard", id); } \
    TEST(id##_cuda) { run_on("cuda", id); }   \
    static void id(nc_device *d)
#define GUARD(id)                     \
    static void id(nc_device *d);     \
    TEST(id) { run_on("guard", id); } \
    static void id(nc_device *d)

static nc_diag diag __attribute__((unused)); /* of the running test */
#define OK(call)                                                                                           \
    do {                                                                                                   \
        diag = (nc_diag){0};                                                                               \
        nc_code code_ = (call);                                                                            \
        if (code_ != NC_OK) nc_test_failed(__FILE__, __LINE__, "%s: %d %s", #call, (int)code_, diag.text); \
    } while (0)
#define FAILS(call, with)           \
    do {                            \
        diag = (nc_diag){0};        \
        CHECK_INT(call, with);      \
        CHECK_INT(diag.code, with); \
    } while (0)

static inline void *take(nc_device *d, nc_stream *s, size_t bytes) {
    void *p = NULL;
    OK(d->table->alloc(d, s, bytes, &p, &diag));
    return p;
}

static inline nc_stream *stream(nc_device *d) {
    nc_stream *s = NULL;
    OK(d->table->stream_create(d, &s, &diag));
    return s;
}

static inline void up(nc_device *d, nc_stream *s, void *dst, const void *src, size_t bytes) {
    OK(d->table->copy(d, s, dst, false, src, true, bytes, &diag));
}

static inline void down(nc_device *d, nc_stream *s, void *dst, const void *src, size_t bytes) {
    OK(d->table->copy(d, s, dst, true, src, false, bytes, &diag));
}

static inline nc_tensor vector(void *data, int64_t n) {
    return (nc_tensor){.data = data, .dtype = NC_FLOAT, .rank = 1, .dims = {n}, .strides = {1}};
}

/* Queues y = scale * x on s. *scale is borrowed until it has run. */
static inline nc_code launch_toy(nc_device *d, nc_stream *s, const float *scale, void *x, void *y, int64_t n) {
    nc_tensor in = vector(x, n), out = vector(y, n);
    nc_call c = {.state = scale,
                 .in = NC_OPERANDS(&in, 1),
                 .out = NC_OPERANDS(&out, 1),
                 .n_in = 1,
                 .n_out = 1,
                 .device = d,
                 .stream = s,
                 .diag = &diag,
                 .node = "toy1",
                 .op = "Toy"};
    return d->table->launch(d, s, toy(d), &c);
}

/* s1 writes 2 over 1, s2 copies it. With `wait`, s2 waits for s1. Returns the byte that arrived. */
static inline int across_streams(nc_device *d, bool wait) {
    nc_stream *s1 = stream(d), *s2 = stream(d);
    nc_event *e = NULL;
    OK(d->table->event_create(d, &e, &diag));
    char *a = take(d, NULL, 4), *b = take(d, NULL, 4), got[4] = {0};
    OK(d->table->fill(d, NULL, a, 1, 4, &diag));
    OK(d->table->event_wait(d, e, s2, &diag)); /* never recorded: no wait */
    OK(d->table->fill(d, s1, a, 2, 4, &diag));
    OK(d->table->event_record(d, e, s1, &diag));
    if (wait) OK(d->table->event_wait(d, e, s2, &diag));
    OK(d->table->copy(d, s2, b, false, a, false, 4, &diag));
    down(d, s2, got, b, 4);
    OK(d->table->stream_sync(d, s2, &diag));
    d->table->stream_destroy(d, s1);
    d->table->stream_destroy(d, s2);
    d->table->event_destroy(d, e);
    d->table->free(d, NULL, a);
    d->table->free(d, NULL, b);
    return got[3];
}

#endif
