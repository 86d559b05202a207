/* device/guard.c: the device that proves nobody cheats. It runs the CPU kernels, but its addresses fault when the host
 * touches them, fresh memory holds rubbish, and its streams run only when somebody waits for them.
 *
 * So a missing copy, wait or placement fails on any machine, long before a GPU sees it. For tests: it is slow on
 * purpose. This file is the device table; guard_memory.c and guard_queue.c do the work. */
#include "device/guard.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>

static nc_guard *lock(nc_device *d) {
    nc_guard *g = (nc_guard *)d;
    nc_lock_take(&g->lock);
    return g;
}

static void unlock(nc_guard *g) { nc_lock_give(&g->lock); }

static nc_code no_memory(nc_diag *diag) { return nc_diag_set(diag, NC_E_MEMORY, NULL, NULL, "out of memory"); }

/* Tells of a stream's failure, once. */
static nc_code report(nc_stream *s, nc_diag *diag) {
    nc_code code = s->diag.code;
    if (code == NC_OK) return NC_OK;
    *diag = s->diag;
    s->diag = (nc_diag){0};
    return code;
}

static void warn_unreported(nc_stream *s) {
    char line[sizeof(nc_diag)];
    nc_diag diag;
    if (report(s, &diag) != NC_OK)
        nc_log(NC_LOG_WARNING, "guard: a stream ends with a failure nobody asked for: %s",
               nc_diag_print(&diag, line, sizeof line));
}

/* Queues op on s, records it while s captures, runs it now after everything else when s is NULL. Takes op. */
static nc_code submit(nc_guard *g, nc_stream *s, nc_guard_op *op, nc_diag *diag) {
    if (op == NULL) return no_memory(diag);
    nc_code code = nc_guard_check(g, op, diag);
    if (code == NC_OK && s != NULL) {
        nc_guard_list_add(s->capture ? &s->capture->list : &s->queue, op);
        if (s->capture == NULL) s->n_queued++;
        return NC_OK;
    }
    if (code == NC_OK) {
        nc_guard_run_all(g);
        code = nc_guard_execute(g, op, diag);
    }
    nc_free(op);
    return code;
}

static nc_code guard_alloc(nc_device *d, nc_stream *s, size_t bytes, void **out, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    if (s != NULL && s->capture != NULL) {
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: allocation on a stream that captures");
    } else {
        if (s == NULL) nc_guard_run_all(g);
        nc_diag first = {0};
        code = nc_device_take(d, bytes, &first);
        if (code != NC_OK) { /* frees may be waiting in a queue */
            nc_guard_run_all(g);
            code = nc_device_take(d, bytes, diag);
        }
        if (code == NC_OK) {
            code = nc_guard_memory_alloc(&g->memory, bytes, out, diag);
            if (code != NC_OK) nc_device_give(d, bytes);
        }
    }
    unlock(g);
    return code;
}

static void free_now(nc_guard *g, void *p) {
    nc_diag diag = {0};
    nc_guard_op op = {.kind = NC_GUARD_FREE, .free = p};
    nc_guard_run_all(g);
    if (nc_guard_execute(g, &op, &diag) != NC_OK) nc_log(NC_LOG_ERROR, "%s", diag.text);
}

static void guard_free(nc_device *d, nc_stream *s, void *p) {
    if (p == NULL) return;
    nc_guard *g = lock(d);
    bool capturing = s != NULL && s->capture != NULL;
    if (capturing && s->capture->diag.code == NC_OK)
        nc_diag_set(&s->capture->diag, NC_E_DEVICE, NULL, NULL, "guard: free on a stream that captures");
    nc_guard_op *op = s == NULL || capturing ? NULL : nc_guard_op_create(NC_GUARD_FREE);
    if (op == NULL) {
        free_now(g, p);
    } else {
        op->free = p;
        nc_guard_list_add(&s->queue, op);
        s->n_queued++;
    }
    unlock(g);
}

static nc_code guard_fill(nc_device *d, nc_stream *s, void *p, int byte, size_t bytes, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_guard_op *op = nc_guard_op_create(NC_GUARD_FILL);
    if (op != NULL) {
        op->fill.p = p;
        op->fill.byte = byte;
        op->fill.bytes = bytes;
    }
    nc_code code = submit(g, s, op, diag);
    unlock(g);
    return code;
}

static nc_code guard_copy(nc_device *d, nc_stream *s, void *dst, bool dst_host, const void *src, bool src_host,
                          size_t bytes, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_guard_op *op = nc_guard_op_create(NC_GUARD_COPY);
    if (op != NULL) {
        op->copy.dst = dst;
        op->copy.src = src;
        op->copy.dst_host = dst_host;
        op->copy.src_host = src_host;
        op->copy.bytes = bytes;
    }
    nc_code code = submit(g, s, op, diag);
    if (code == NC_OK) atomic_fetch_add(&d->n_copies, 1);
    unlock(g);
    return code;
}

static nc_code guard_stream_create(nc_device *d, nc_stream **out, nc_diag *diag) {
    nc_stream *s = nc_alloc_zero(1, sizeof *s);
    if (s == NULL) return no_memory(diag);
    nc_guard *g = lock(d);
    s->id = ++g->last_id;
    s->next = g->streams;
    g->streams = s;
    unlock(g);
    *out = s;
    return NC_OK;
}

static void destroy_capture(nc_capture *c) {
    nc_guard_list_release(&c->list);
    nc_free(c);
}

/* Streams that captured into c run again. */
static void leave_capture(nc_guard *g, nc_capture *c) {
    for (nc_stream *s = g->streams; s != NULL; s = s->next)
        if (s->capture == c) s->capture = NULL;
    c->origin = NULL;
}

static void guard_stream_destroy(nc_device *d, nc_stream *s) {
    if (s == NULL) return;
    nc_guard *g = lock(d);
    nc_guard_run(g, s, s->n_queued);
    warn_unreported(s);
    nc_capture *c = s->capture;
    if (c != NULL && c->origin == s) {
        leave_capture(g, c);
        destroy_capture(c);
    }
    nc_stream **at = &g->streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    nc_guard_list_release(&s->queue);
    nc_free(s);
    unlock(g);
}

static nc_code guard_stream_sync(nc_device *d, nc_stream *s, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    if (s == NULL) {
        nc_guard_run_all(g);
    } else if (s->capture != NULL) {
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: waiting for a stream that captures");
    } else {
        nc_guard_run(g, s, s->n_queued);
        code = report(s, diag);
    }
    unlock(g);
    return code;
}

static nc_code guard_event_create(nc_device *d, nc_event **out, nc_diag *diag) {
    (void)d;
    nc_event *e = nc_alloc_zero(1, sizeof *e);
    if (e == NULL) return no_memory(diag);
    *out = e;
    return NC_OK;
}

static void guard_event_destroy(nc_device *d, nc_event *e) {
    (void)d;
    nc_free(e);
}

static nc_code guard_event_record(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag) {
    (void)diag;
    nc_guard *g = lock(d);
    *e = (nc_event){0};
    if (s == NULL) {
        nc_guard_run_all(g);
    } else if (s->capture != NULL) {
        e->capture = s->capture->id;
    } else {
        e->stream = s->id;
        e->position = s->n_queued;
    }
    unlock(g);
    return NC_OK;
}

static nc_capture *open_capture(const nc_guard *g, uint64_t id) {
    for (nc_stream *s = g->streams; s != NULL; s = s->next)
        if (s->capture != NULL && s->capture->id == id) return s->capture;
    return NULL;
}

/* An event of a capture orders only what is captured with it; the waiting stream joins the capture. */
static nc_code join_capture(nc_guard *g, nc_event *e, nc_stream *s, nc_diag *diag) {
    nc_capture *c = open_capture(g, e->capture);
    if (c == NULL || s == NULL || (s->capture != NULL && s->capture != c))
        return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: waiting for an event of another capture");
    s->capture = c;
    return NC_OK;
}

static nc_code guard_event_wait(nc_device *d, nc_event *e, nc_stream *s, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    if (e->capture != 0) {
        code = join_capture(g, e, s, diag);
    } else if (e->stream != 0 && s != NULL && s->capture != NULL) {
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: a stream that captures waits for work outside");
    } else if (e->stream != 0) {
        nc_guard_op *op = nc_guard_op_create(NC_GUARD_WAIT);
        if (op != NULL) {
            op->wait.stream = e->stream;
            op->wait.position = e->position;
        }
        code = submit(g, s, op, diag);
    }
    unlock(g);
    return code;
}

static bool guard_event_done(nc_device *d, nc_event *e) {
    nc_guard *g = lock(d);
    const nc_stream *s = e->stream ? nc_guard_stream(g, e->stream) : NULL;
    bool done = s == NULL || s->n_done >= e->position;
    unlock(g);
    return done;
}

/* Plain host memory: copies of this device take any. */
static nc_code guard_host_alloc(nc_device *d, size_t bytes, void **out, nc_diag *diag) {
    (void)d;
    *out = nc_alloc_aligned(bytes ? bytes : 1, 64);
    return *out != NULL ? NC_OK : no_memory(diag);
}

static void guard_host_free(nc_device *d, void *p) {
    (void)d;
    nc_free(p);
}

static nc_code guard_event_sync(nc_device *d, nc_event *e, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    nc_stream *s = e->stream ? nc_guard_stream(g, e->stream) : NULL;
    if (e->capture != 0) {
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: the event was recorded while capturing");
    } else if (s != NULL) {
        nc_guard_run(g, s, e->position);
        code = report(s, diag);
    }
    unlock(g);
    return code;
}

static nc_code guard_host_call(nc_device *d, nc_stream *s, void (*fn)(void *), void *ctx, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_guard_op *op = nc_guard_op_create(NC_GUARD_CALL);
    if (op != NULL) {
        op->call.fn = fn;
        op->call.ctx = ctx;
    }
    nc_code code = submit(g, s, op, diag);
    unlock(g);
    return code;
}

static nc_code guard_launch(nc_device *d, nc_stream *s, nc_kernel k, const nc_call *c) {
    nc_call call = *c;
    call.device = d;
    call.stream = s;
    nc_diag own = {0}, *diag = c->diag ? c->diag : &own;
    nc_guard *g = lock(d);
    nc_code code = submit(g, s, nc_guard_op_launch(k, &call), diag);
    if (code == NC_OK) atomic_fetch_add(&d->n_launches, 1);
    unlock(g);
    return code;
}

static uint64_t guard_stream_id(const nc_stream *s) { return s->id; }

static nc_code guard_capture_begin(nc_device *d, nc_stream *s, nc_diag *diag) {
    if (s == NULL) return nc_diag_set(diag, NC_E_ARGUMENT, NULL, NULL, "guard: capture needs a stream");
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    nc_capture *c = NULL;
    if (s->capture != NULL)
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: the stream captures already");
    else if ((c = nc_alloc_zero(1, sizeof *c)) == NULL)
        code = no_memory(diag);
    if (c != NULL) {
        c->id = ++g->last_id;
        c->origin = s;
        s->capture = c;
    }
    unlock(g);
    return code;
}

static nc_code guard_capture_end(nc_device *d, nc_stream *s, nc_capture **out, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_code code = NC_OK;
    nc_capture *c = s ? s->capture : NULL;
    if (c == NULL || c->origin != s) {
        code = nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: no capture began on this stream");
    } else {
        leave_capture(g, c);
        code = c->diag.code;
        if (code == NC_OK) {
            *out = c;
        } else {
            *diag = c->diag;
            destroy_capture(c);
        }
    }
    unlock(g);
    return code;
}

/* All or nothing: copies are made before any of them is queued. */
static nc_code guard_capture_replay(nc_device *d, nc_stream *s, nc_capture *c, nc_diag *diag) {
    nc_guard *g = lock(d);
    nc_guard_list copies = {0};
    nc_code code = NC_OK;
    for (const nc_guard_op *op = c->list.head; op != NULL && code == NC_OK; op = op->next) {
        nc_guard_op *copy = nc_guard_op_clone(op);
        if (copy == NULL)
            code = no_memory(diag);
        else
            nc_guard_list_add(&copies, copy);
    }
    if (code != NC_OK) nc_guard_list_release(&copies);
    for (nc_guard_op *op = copies.head, *next; op != NULL; op = next) {
        next = op->next;
        op->next = NULL;
        if (code == NC_OK)
            code = submit(g, s, op, diag);
        else
            nc_free(op);
    }
    unlock(g);
    return code;
}

static void guard_capture_destroy(nc_device *d, nc_capture *c) {
    (void)d;
    if (c != NULL) destroy_capture(c);
}

static void guard_destroy(nc_device *d) {
    nc_guard *g = lock(d);
    nc_guard_run_all(g);
    unlock(g);
    while (g->streams != NULL) guard_stream_destroy(d, g->streams);
    nc_guard_memory_release(&g->memory);
    nc_lock_release(&g->lock);
    nc_free(g);
}

static const nc_device_table table = {
    .name = "guard",
    .kernels = "cpu",
    .host_memory = false,
    .destroy = guard_destroy,
    .alloc = guard_alloc,
    .free = guard_free,
    .fill = guard_fill,
    .copy = guard_copy,
    .host_alloc = guard_host_alloc,
    .host_free = guard_host_free,
    .stream_create = guard_stream_create,
    .stream_destroy = guard_stream_destroy,
    .stream_sync = guard_stream_sync,
    .event_create = guard_event_create,
    .event_destroy = guard_event_destroy,
    .event_record = guard_event_record,
    .event_wait = guard_event_wait,
    .event_sync = guard_event_sync,
    .event_done = guard_event_done,
    .host_call = guard_host_call,
    .launch = guard_launch,
    .stream_id = guard_stream_id,
    .capture_begin = guard_capture_begin,
    .capture_end = guard_capture_end,
    .capture_replay = guard_capture_replay,
    .capture_destroy = guard_capture_destroy,
};

nc_code nc_device_guard_create(nc_work *w, nc_device **out) {
    nc_guard *g = nc_alloc_zero(1, sizeof *g);
    NC_NEED(w, g);
    nc_code code = nc_guard_memory_init(&g->memory, w);
    if (code != NC_OK) {
        nc_free(g);
        return code;
    }
    nc_lock_init_recursive(&g->lock, NC_LOCK_DEVICE);
    g->base.table = &table;
    snprintf(g->base.description, sizeof g->base.description, "guard: host memory out of reach, streams run late");
    *out = &g->base;
    return NC_OK;
}

bool nc_device_guard_pending(nc_device *d) {
    nc_guard *g = lock(d);
    nc_stream *s = g->streams;
    while (s != NULL && s->queue.head == NULL) s = s->next;
    unlock(g);
    return s != NULL;
}

size_t nc_device_guard_live_blocks(nc_device *d) {
    nc_guard *g = lock(d);
    size_t n = g->memory.live.n;
    unlock(g);
    return n;
}
