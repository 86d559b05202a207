/* device/device_test.c: one body of tests, run on every device: what the table promises wherever it is. */
#include "tests/device.h"

EVERYWHERE(round_trip) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4097, 100003};
    nc_stream *s = stream(d);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        unsigned char *host = malloc(n + 1), *back = calloc(n + 8, 1);
        for (size_t k = 0; k < n; k++) host[k] = (unsigned char)(k * 7 + 1);
        char *a = take(d, s, n), *b = take(d, s, n + 3);
        CHECK_INT((uintptr_t)a % 64, 0);
        CHECK_INT((uintptr_t)b % 64, 0);
        CHECK(a != b);
        up(d, s, a, host, n);
        OK(d->table->fill(d, s, b, 0x5A, n + 3, &diag));
        OK(d->table->copy(d, s, b + 3, false, a, false, n, &diag)); /* an interior address, not aligned */
        down(d, s, back, b, n + 3);
        OK(d->table->stream_sync(d, s, &diag));
        CHECK(back[0] == 0x5A && back[1] == 0x5A && back[2] == 0x5A);
        CHECK(memcmp(back + 3, host, n) == 0);
        d->table->free(d, s, a);
        d->table->free(d, NULL, b);
        free(host);
        free(back);
    }
    d->table->stream_destroy(d, s);
}

EVERYWHERE(without_stream_done_at_once) {
    nc_stream *s = stream(d);
    char *p = take(d, NULL, 8), back[8] = {0};
    OK(d->table->fill(d, s, p, 1, 8, &diag));
    OK(d->table->fill(d, NULL, p, 2, 4, &diag));
    down(d, NULL, back, p, 8);
    CHECK(back[0] == 2 && back[3] == 2 && back[4] == 1 && back[7] == 1);
    d->table->free(d, NULL, p);
    d->table->free(d, NULL, NULL);
    d->table->stream_destroy(d, s);
}

EVERYWHERE(kernel_launch) {
    enum { N = 1001 };
    static float x[N], bias[N], y[N], kept[N];
    int64_t size = 0;
    for (int i = 0; i < N; i++) x[i] = (float)i, bias[i] = (float)(2 * i);
    x[5] = NAN, x[6] = INFINITY;
    nc_stream *s = stream(d);
    void *dx = take(d, s, sizeof x), *db = take(d, s, sizeof bias), *dy = take(d, s, sizeof y);
    void *ws = take(d, s, sizeof x);
    int64_t *ds = take(d, s, NC_MAX_RANK * sizeof *ds);
    up(d, s, dx, x, sizeof x);
    up(d, s, db, bias, sizeof bias);
    float scale = 3, extra = 0.5f;
    uint64_t before = atomic_load(&d->n_launches);
    {
        nc_tensor in[2] = {vector(dx, N), vector(&extra, 1)}, out[1] = {vector(dy, N)};
        const void *packed[1] = {db};
        char node[] = "node7";
        nc_call c = {.state = &scale,
                     .in = NC_OPERANDS(in, 2),
                     .out = NC_OPERANDS(out, 1),
                     .n_in = 2,
                     .n_out = 1,
                     .workspace = ws,
                     .bytes_workspace = sizeof x,
                     .packed = packed,
                     .n_packed = 1,
                     .sizes = ds,
                     .device = d,
                     .stream = s,
                     .diag = &diag,
                     .node = node,
                     .op = "Toy"};
        OK(d->table->launch(d, s, toy(d), &c));
        memset(in, 0x77, sizeof in); /* the call's own arrays need not outlive it */
        memset(out, 0x77, sizeof out);
        memset((void *)packed, 0x77, sizeof packed);
        memset(node, 'x', 5);
    }
    down(d, s, y, dy, sizeof y);
    down(d, s, kept, ws, sizeof kept);
    down(d, s, &size, ds, sizeof size);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(atomic_load(&d->n_launches), before + 1);
    CHECK_INT(size, N);
    for (int i = 0; i < N; i++) CHECK_NEAR(y[i], 3 * x[i] + bias[i] + extra, 0);
    CHECK(kept[17] == 17 && isnan(kept[5]));
    void *blocks[] = {dx, db, dy, ws, ds};
    for (int i = 0; i < 5; i++) d->table->free(d, s, blocks[i]);
    d->table->stream_destroy(d, s);
}

EVERYWHERE(event_orders_streams) { CHECK_INT(across_streams(d, true), 2); }

EVERYWHERE(event_sync_waits_for_its_work) {
    nc_stream *s = stream(d);
    nc_event *e = NULL;
    OK(d->table->event_create(d, &e, &diag));
    OK(d->table->event_sync(d, e, &diag));
    char *p = take(d, s, 3), got[3] = {0};
    OK(d->table->fill(d, s, p, 4, 3, &diag));
    down(d, s, got, p, 3);
    OK(d->table->event_record(d, e, s, &diag));
    OK(d->table->event_sync(d, e, &diag));
    CHECK_INT(got[2], 4);
    d->table->free(d, s, p);
    d->table->stream_destroy(d, s);
    d->table->event_destroy(d, e);
}

EVERYWHERE(free_on_stream_comes_after_its_use) {
    nc_stream *s = stream(d);
    float *x = take(d, s, 4 * sizeof *x), *y = take(d, s, 4 * sizeof *y), got[4] = {0}, scale = 2;
    const float host[4] = {1, 2, 3, 4};
    up(d, s, x, host, sizeof host);
    OK(launch_toy(d, s, &scale, x, y, 4));
    d->table->free(d, s, x);
    void *again = take(d, s, 4 * sizeof *x); /* may be the same block: its use comes after the free */
    OK(d->table->fill(d, s, again, 0xFF, 4 * sizeof *x, &diag));
    down(d, s, got, y, sizeof got);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(got[0] == 2 && got[3] == 8);
    d->table->free(d, s, y);
    d->table->free(d, s, again);
    d->table->stream_destroy(d, s);
}

static void add_one(void *ctx) { ++*(int *)ctx; }

EVERYWHERE(host_call_runs_in_order) {
    nc_stream *s = stream(d);
    int count = 0;
    OK(d->table->host_call(d, s, add_one, &count, &diag));
    OK(d->table->host_call(d, s, add_one, &count, &diag));
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(count, 2);
    OK(d->table->host_call(d, NULL, add_one, &count, &diag));
    CHECK_INT(count, 3);
    d->table->stream_destroy(d, s);
}

/* x doubles itself: capturing runs nothing, every replay doubles once more. */
EVERYWHERE(capture_and_replay) {
    if (d->table->capture_begin == NULL) {
        nc_test_not_run("this device does not capture");
        return;
    }
    nc_stream *s = stream(d);
    nc_capture *c = NULL;
    float *x = take(d, s, 3 * sizeof *x), *y = take(d, s, 3 * sizeof *y), got[3] = {0}, scale = 2;
    const float host[3] = {1, 2, 3};
    up(d, s, x, host, sizeof host);
    OK(launch_toy(d, s, &scale, x, y, 3)); /* compiled before the capture */
    OK(d->table->stream_sync(d, s, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    OK(launch_toy(d, s, &scale, x, y, 3));
    OK(d->table->copy(d, s, x, false, y, false, sizeof host, &diag));
    OK(d->table->capture_end(d, s, &c, &diag));
    REQUIRE(c != NULL);
    OK(d->table->stream_sync(d, s, &diag));
    down(d, s, got, x, sizeof got);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(got[0] == 1 && got[2] == 3);
    for (int i = 0; i < 3; i++) OK(d->table->capture_replay(d, s, c, &diag));
    down(d, s, got, x, sizeof got);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(got[0] == 8 && got[1] == 16 && got[2] == 24);
    d->table->capture_destroy(d, c);
    d->table->free(d, s, x);
    d->table->free(d, s, y);
    d->table->stream_destroy(d, s);
}

/* A second stream joins by waiting for an event of the capture, and is joined again before its end. */
EVERYWHERE(capture_of_two_streams) {
    if (d->table->capture_begin == NULL) {
        nc_test_not_run("this device does not capture");
        return;
    }
    nc_stream *s = stream(d), *side = stream(d);
    nc_event *fork = NULL, *join = NULL;
    nc_capture *c = NULL;
    OK(d->table->event_create(d, &fork, &diag));
    OK(d->table->event_create(d, &join, &diag));
    char *p = take(d, NULL, 2), *q = take(d, NULL, 2), got[2] = {0};
    OK(d->table->fill(d, NULL, q, 0, 2, &diag));
    OK(d->table->capture_begin(d, s, &diag));
    OK(d->table->fill(d, s, p, 6, 2, &diag));
    OK(d->table->event_record(d, fork, s, &diag));
    OK(d->table->event_wait(d, fork, side, &diag));
    OK(d->table->copy(d, side, q, false, p, false, 2, &diag));
    OK(d->table->event_record(d, join, side, &diag));
    OK(d->table->event_wait(d, join, s, &diag));
    OK(d->table->capture_end(d, s, &c, &diag));
    REQUIRE(c != NULL);
    down(d, NULL, got, q, 2);
    CHECK_INT(got[1], 0);
    OK(d->table->capture_replay(d, s, c, &diag));
    down(d, s, got, q, 2);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK_INT(got[1], 6);
    d->table->capture_destroy(d, c);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, side);
    d->table->event_destroy(d, fork);
    d->table->event_destroy(d, join);
    d->table->free(d, NULL, p);
    d->table->free(d, NULL, q);
}

EVERYWHERE(limit_is_hard) {
    size_t before = d->bytes_limit, live = atomic_load(&d->bytes_live);
    d->bytes_limit = live + 100;
    void *p = take(d, NULL, 60), *q = NULL;
    CHECK_INT(atomic_load(&d->bytes_live), live + 60);
    FAILS(d->table->alloc(d, NULL, 41, &q, &diag), NC_E_MEMORY);
    FAILS(d->table->alloc(d, NULL, SIZE_MAX, &q, &diag), NC_E_MEMORY);
    CHECK(q == NULL);
    CHECK_INT(atomic_load(&d->bytes_live), live + 60);
    q = take(d, NULL, 40);
    CHECK(atomic_load(&d->bytes_peak) >= live + 100);
    d->table->free(d, NULL, p);
    d->table->free(d, NULL, q);
    d->bytes_limit = before;
}

EVERYWHERE(too_much_memory_is_an_error) {
    void *p = NULL;
    diag = (nc_diag){0};
    CHECK(d->table->alloc(d, NULL, SIZE_MAX / 2, &p, &diag) != NC_OK);
    CHECK(p == NULL && diag.text[0] != '\0');
}

EVERYWHERE(buffer_counts_and_frees) {
    size_t before = d->bytes_limit, live = atomic_load(&d->bytes_live);
    diag = (nc_diag){0};
    nc_buffer *b = nc_device_buffer(d, NULL, 77, &diag);
    REQUIRE(b != NULL);
    CHECK(b->device == d && b->bytes == 77);
    CHECK_INT(b->kind, d->table->host_memory ? NC_MEM_HOST : NC_MEM_DEVICE);
    CHECK_INT(atomic_load(&d->bytes_live), live + 77);
    nc_buffer_unref(b);
    CHECK_INT(atomic_load(&d->bytes_live), live);
    d->bytes_limit = live + 10;
    CHECK(nc_device_buffer(d, NULL, 77, &diag) == NULL);
    CHECK_INT(diag.code, NC_E_MEMORY);
    d->bytes_limit = before;
}

TEST(device_open_by_name) {
    static const char *unknown[] = {"rocm", "tensorrt", "coreml", "directml", "qnn", "webgpu", "", "CUDA", "cpu:0"};
    nc_work w;
    nc_work_init(&w);
    nc_device *d = NULL;
    CHECK_INT(nc_device_open(&w, "cpu", &d), NC_OK);
    CHECK(d == nc_device_cpu() && d->description[0] != '\0');
    nc_device_close(d);
    d = NULL;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        w.diag = (nc_diag){0};
        CHECK_INT(nc_device_open(&w, unknown[i], &d), NC_E_DEVICE);
        CHECK(strstr(w.diag.text, "cpu, guard and cuda") != NULL);
    }
    static const char *malformed[] = {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999999999999"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        w.diag = (nc_diag){0};
        CHECK_INT(nc_device_open(&w, malformed[i], &d), NC_E_ARGUMENT);
    }
    w.diag = (nc_diag){0};
    CHECK_INT(nc_device_open(&w, "cuda:4096", &d), NC_E_DEVICE);
    CHECK(d == NULL && w.diag.text[0] != '\0');
    nc_device_close(NULL);
    nc_work_release(&w);
}
