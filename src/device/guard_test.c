/* device/guard_test.c: what only the guard promises: its bytes are out of reach, work runs late, cheating fails. */
#include "base/mem.h"
#include "tests/device.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* The signal that ends a child which touches p; 0: none did. */
static int touch_in_child(char *p, bool write) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        volatile char *at = p;
        if (write) *at = 1;
        volatile char c = *at;
        (void)c;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

GUARD(guard_host_touch_faults) {
    char *p = take(d, NULL, 100);
    CHECK_INT(touch_in_child(p, false), SIGSEGV);
    CHECK_INT(touch_in_child(p + 99, true), SIGSEGV);
    d->table->free(d, NULL, p);
    CHECK_INT(touch_in_child(p, false), SIGSEGV);
}

GUARD(guard_missing_wait_shows_stale_bytes) {
    CHECK_INT(across_streams(d, false), 1);
    CHECK_INT(across_streams(d, true), 2);
}

GUARD(guard_fresh_memory_is_rubbish) {
    unsigned char *p = take(d, NULL, 65), got[65] = {0};
    down(d, NULL, got, p, 65);
    CHECK(got[0] == 0xA5 && got[64] == 0xA5);
    d->table->free(d, NULL, p);
}

GUARD(guard_runs_late) {
    nc_stream *s = stream(d);
    char *p = take(d, s, 4), got[4] = {0}, source[4] = {1, 1, 1, 1};
    CHECK(!nc_device_guard_pending(d));
    up(d, s, p, source, 4);
    down(d, s, got, p, 4);
    CHECK(nc_device_guard_pending(d));
    CHECK_INT(got[0], 0);
    source[0] = 7; /* host memory is read when the copy runs, not when it is queued */
    d->table->free(d, s, p);
    CHECK_INT(nc_device_guard_live_blocks(d), 1);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(!nc_device_guard_pending(d));
    CHECK_INT(got[0], 7);
    CHECK_INT(nc_device_guard_live_blocks(d), 0);
    d->table->stream_destroy(d, s);
}

/* Waiting for an event runs the other stream up to it and no further, also through a third stream. */
GUARD(guard_event_runs_no_further) {
    nc_stream *s[3] = {stream(d), stream(d), stream(d)};
    nc_event *e[2] = {NULL, NULL};
    char *p = take(d, NULL, 1), got = 0;
    for (int i = 0; i < 2; i++) {
        OK(d->table->event_create(d, &e[i], &diag));
        OK(d->table->fill(d, s[i], p, 10 + i, 1, &diag));
        OK(d->table->event_record(d, e[i], s[i], &diag));
        OK(d->table->fill(d, s[i], p, 90, 1, &diag));
        OK(d->table->event_wait(d, e[i], s[i + 1], &diag));
    }
    down(d, s[2], &got, p, 1);
    OK(d->table->stream_sync(d, s[2], &diag));
    CHECK_INT(got, 11);
    CHECK(nc_device_guard_pending(d));
    OK(d->table->event_sync(d, e[0], &diag));
    CHECK(nc_device_guard_pending(d));
    d->table->event_destroy(d, e[0]);
    d->table->event_destroy(d, e[1]);
    for (int i = 0; i < 3; i++) d->table->stream_destroy(d, s[i]);
    d->table->free(d, NULL, p);
}

/* A wait outlives the stream and the event that it was made with. */
GUARD(guard_wait_outlives_event_and_stream) {
    nc_stream *a = stream(d), *b = stream(d);
    nc_event *e = NULL;
    char *p = take(d, NULL, 1), got = 0;
    OK(d->table->event_create(d, &e, &diag));
    OK(d->table->fill(d, a, p, 5, 1, &diag));
    OK(d->table->event_record(d, e, a, &diag));
    OK(d->table->event_wait(d, e, b, &diag));
    down(d, b, &got, p, 1);
    d->table->stream_destroy(d, a);
    OK(d->table->event_sync(d, e, &diag));
    d->table->event_destroy(d, e);
    OK(d->table->stream_sync(d, b, &diag));
    CHECK_INT(got, 5);
    d->table->stream_destroy(d, b);
    d->table->free(d, NULL, p);
}

GUARD(guard_kernel_error_surfaces_once) {
    nc_stream *s = stream(d);
    nc_event *e = NULL;
    OK(d->table->event_create(d, &e, &diag));
    float *x = take(d, s, 4), bad = -1, good = 1, scale = 2, got = 0;
    up(d, s, x, &bad, 4);
    OK(launch_toy(d, s, &scale, x, x, 1));
    down(d, s, &got, x, 4);
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DATA);
    CHECK_STR(diag.node, "toy1");
    CHECK_STR(diag.text, "x[0] is -1, expected >= 0");
    CHECK(got == 0); /* what follows a failure does not run */
    OK(d->table->stream_sync(d, s, &diag));
    OK(launch_toy(d, s, &scale, x, x, 1));
    OK(d->table->event_record(d, e, s, &diag));
    FAILS(d->table->event_sync(d, e, &diag), NC_E_DATA);
    up(d, s, x, &good, 4);
    OK(launch_toy(d, s, &scale, x, x, 1));
    down(d, s, &got, x, 4);
    OK(d->table->stream_sync(d, s, &diag));
    CHECK(got == 2);
    d->table->free(d, s, x);
    d->table->stream_destroy(d, s);
    d->table->event_destroy(d, e);
}

TEST(cpu_kernel_error_comes_back_at_once) {
    float bad = -1, scale = 1;
    FAILS(launch_toy(nc_device_cpu(), NULL, &scale, &bad, &bad, 1), NC_E_DATA);
}

GUARD(guard_dead_and_foreign_addresses_are_named) {
    nc_work w;
    nc_work_init(&w);
    nc_device *other = NULL;
    REQUIRE(nc_device_guard_create(&w, &other) == NC_OK);
    nc_stream *s = stream(d);
    char *live = take(d, NULL, 64), *dead = take(d, NULL, 64), *foreign = take(other, NULL, 64), host[64] = {0};
    d->table->free(d, NULL, dead);
    float scale = 1;
    FAILS(launch_toy(d, s, &scale, dead, live, 1), NC_E_DEVICE);
    CHECK_STR(diag.node, "toy1");
    CHECK(strstr(diag.text, "input 0") != NULL);
    FAILS(launch_toy(d, s, &scale, live, foreign, 1), NC_E_DEVICE);
    CHECK(strstr(diag.text, "output 0") != NULL && strstr(diag.text, "another guard") != NULL);
    FAILS(d->table->copy(d, s, live, false, live + 64, false, 1, &diag), NC_E_DEVICE);
    FAILS(d->table->copy(d, s, live + 1, false, host, true, 64, &diag), NC_E_DEVICE);
    FAILS(d->table->copy(d, s, host, false, live, false, 8, &diag), NC_E_DEVICE);
    FAILS(d->table->copy(d, s, live, true, host, true, 8, &diag), NC_E_DEVICE);
    FAILS(d->table->copy(d, s, host, true, foreign, true, 8, &diag), NC_E_DEVICE);
    FAILS(d->table->fill(d, s, host, 0, 8, &diag), NC_E_DEVICE);
    OK(d->table->copy(d, s, live + 64, false, NULL, true, 0, &diag));
    /* Freed between queueing and running, on a stream that nobody ordered. */
    nc_stream *t = stream(d);
    OK(launch_toy(d, s, &scale, live, live, 1));
    d->table->free(d, t, live);
    OK(d->table->stream_sync(d, t, &diag));
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    CHECK_STR(diag.node, "toy1");
    d->table->free(d, t, live);
    FAILS(d->table->stream_sync(d, t, &diag), NC_E_DEVICE);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, t);
    nc_device_close(other);
    nc_work_release(&w);
}

GUARD(guard_capture_refuses_what_cuda_refuses) {
    nc_stream *s = stream(d), *t = stream(d);
    nc_event *outside = NULL, *inside = NULL;
    nc_capture *c = NULL;
    void *p = take(d, NULL, 8), *q = NULL;
    OK(d->table->event_create(d, &outside, &diag));
    OK(d->table->event_create(d, &inside, &diag));
    OK(d->table->event_record(d, outside, t, &diag));
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE);
    OK(d->table->capture_begin(d, s, &diag));
    FAILS(d->table->capture_begin(d, s, &diag), NC_E_DEVICE);
    FAILS(d->table->alloc(d, s, 8, &q, &diag), NC_E_DEVICE);
    FAILS(d->table->stream_sync(d, s, &diag), NC_E_DEVICE);
    FAILS(d->table->event_wait(d, outside, s, &diag), NC_E_DEVICE);
    OK(d->table->event_record(d, inside, s, &diag));
    FAILS(d->table->event_sync(d, inside, &diag), NC_E_DEVICE);
    d->table->free(d, s, p);
    FAILS(d->table->capture_end(d, s, &c, &diag), NC_E_DEVICE);
    FAILS(d->table->event_wait(d, inside, t, &diag), NC_E_DEVICE);
    CHECK(c == NULL && q == NULL);
    OK(d->table->capture_begin(d, s, &diag)); /* left open: the stream's end drops it */
    d->table->event_destroy(d, outside);
    d->table->event_destroy(d, inside);
    d->table->stream_destroy(d, s);
    d->table->stream_destroy(d, t);
}

/* Queued frees count as live bytes, but give way before an allocation is refused. */
GUARD(guard_limit_lets_queued_frees_run) {
    nc_stream *s = stream(d);
    d->bytes_limit = 100;
    void *p = take(d, s, 80);
    d->table->free(d, s, p);
    CHECK_INT(atomic_load(&d->bytes_live), 80);
    p = take(d, s, 90);
    CHECK_INT(diag.code, NC_OK);
    d->table->free(d, s, p);
    d->table->stream_destroy(d, s);
}

/* Every allocation fails once; nothing leaks, the device stays usable. */
TEST(guard_out_of_memory) {
    uint64_t before = nc_mem_live();
    for (uint64_t n = 1; n < 200; n++) {
        nc_work w;
        nc_work_init(&w);
        nc_device *d = NULL;
        nc_stream *s = NULL;
        nc_event *e = NULL;
        nc_capture *c = NULL;
        void *p = NULL;
        float scale = 1;
        nc_mem_fail_at(n);
        nc_code code = nc_device_guard_create(&w, &d);
        if (code == NC_OK) code = d->table->stream_create(d, &s, &diag);
        if (code == NC_OK) code = d->table->event_create(d, &e, &diag);
        if (code == NC_OK) code = d->table->alloc(d, s, 4, &p, &diag);
        if (code == NC_OK) code = d->table->capture_begin(d, s, &diag);
        if (code == NC_OK) code = launch_toy(d, s, &scale, p, p, 0);
        if (code == NC_OK) code = d->table->capture_end(d, s, &c, &diag);
        if (code == NC_OK) code = d->table->capture_replay(d, s, c, &diag);
        if (code == NC_OK) code = d->table->event_record(d, e, s, &diag);
        if (code == NC_OK) code = d->table->event_wait(d, e, s, &diag);
        if (p != NULL) d->table->free(d, s, p);
        if (code == NC_OK) code = d->table->stream_sync(d, s, &diag);
        bool hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(code == NC_OK || code == NC_E_MEMORY);
        CHECK(hit || code == NC_OK);
        if (c != NULL) d->table->capture_destroy(d, c);
        if (e != NULL) d->table->event_destroy(d, e);
        nc_device_close(d);
        nc_work_release(&w);
        if (!hit) break;
        CHECK(n < 199);
    }
    CHECK_INT(nc_mem_live(), before);
}

static void *use_from_thread(void *ctx) {
    nc_device *d = ctx;
    nc_diag own = {0};
    nc_stream *s = NULL;
    long failures = d->table->stream_create(d, &s, &own) != NC_OK;
    for (int i = 0; i < 100 && failures == 0; i++) {
        void *p = NULL;
        int sent = i, got = -1;
        failures += d->table->alloc(d, i % 3 ? s : NULL, sizeof sent, &p, &own) != NC_OK;
        failures += d->table->copy(d, s, p, false, &sent, true, sizeof sent, &own) != NC_OK;
        failures += d->table->copy(d, s, &got, true, p, false, sizeof got, &own) != NC_OK;
        d->table->free(d, s, p);
        failures += d->table->stream_sync(d, s, &own) != NC_OK || got != i;
    }
    if (s != NULL) d->table->stream_destroy(d, s);
    return (void *)failures;
}

GUARD(guard_several_threads) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_INT(pthread_create(&threads[i], NULL, use_from_thread, d), 0);
    for (int i = 0; i < 4; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        CHECK_INT((intptr_t)failures, 0);
    }
}
