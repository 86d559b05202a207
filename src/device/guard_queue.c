/* device/guard_queue.c: operations of the guard device: copied when queued, run when somebody waits.
 *
 * A stream runs only as far as somebody waits for it, and other streams only as far as its events ask: whatever is not
 * ordered by an event happens as late as it can. No threads, no clock: the same calls give the same order. Hidden
 * addresses exist only between translation and the end of an operation. */
#include "device/guard.h"

#include "base/mem.h"

#include <string.h>

nc_guard_op *nc_guard_op_create(nc_guard_kind kind) {
    nc_guard_op *op = nc_alloc_zero(1, sizeof *op);
    if (op != NULL) op->kind = kind;
    return op;
}

static size_t text_bytes(const char *s) { return s ? strlen(s) + 1 : 0; }

/* Copies bytes to *at, moves *at on and returns the copy; NULL stays NULL. */
static void *append(char **at, const void *p, size_t bytes) {
    if (p == NULL || bytes == 0) return NULL;
    void *copy = memcpy(*at, p, bytes);
    *at += bytes;
    return copy;
}

/* Copies of the tensors that a call points to, behind pointers to them. */
static const size_t bytes_operand = sizeof(nc_tensor *) + sizeof(nc_tensor);
static nc_tensor **append_operands(char **at, nc_tensor *const *from, int n) {
    nc_tensor **to = (nc_tensor **)(void *)*at, *tensors = (nc_tensor *)(void *)(to + n);
    for (int i = 0; i < n; i++) {
        nc_tensor_copy(&tensors[i], from[i]);
        to[i] = &tensors[i];
    }
    *at = (char *)(tensors + n);
    return to;
}

nc_guard_op *nc_guard_op_launch(nc_kernel k, const nc_call *c) {
    size_t in = (size_t)c->n_in * bytes_operand, out = (size_t)c->n_out * bytes_operand;
    size_t packed = c->packed ? (size_t)c->n_packed * sizeof *c->packed : 0;
    size_t node = text_bytes(c->node), name = text_bytes(c->op);
    nc_guard_op *op = nc_alloc(sizeof *op + in + out + packed + node + name);
    if (op == NULL) return NULL;
    memset(op, 0, sizeof *op);
    op->kind = NC_GUARD_LAUNCH;
    op->launch.kernel = k;
    op->launch.call = *c;
    char *at = (char *)(op + 1);
    op->launch.call.in = append_operands(&at, c->in, c->n_in);
    op->launch.call.out = append_operands(&at, c->out, c->n_out);
    op->launch.call.packed = append(&at, c->packed, packed);
    op->launch.call.node = append(&at, c->node, node);
    op->launch.call.op = append(&at, c->op, name);
    return op;
}

nc_guard_op *nc_guard_op_clone(const nc_guard_op *op) {
    if (op->kind == NC_GUARD_LAUNCH) return nc_guard_op_launch(op->launch.kernel, &op->launch.call);
    nc_guard_op *copy = nc_guard_op_create(op->kind);
    if (copy == NULL) return NULL;
    *copy = *op;
    copy->next = NULL;
    return copy;
}

void nc_guard_list_add(nc_guard_list *l, nc_guard_op *op) {
    if (l->tail != NULL)
        l->tail->next = op;
    else
        l->head = op;
    l->tail = op;
}

void nc_guard_list_release(nc_guard_list *l) {
    for (nc_guard_op *op = l->head, *next; op != NULL; op = next) {
        next = op->next;
        nc_free(op);
    }
    *l = (nc_guard_list){0};
}

/* A kernel's address: device memory is translated, host arguments and NULL stay. */
static nc_code translate(const nc_guard *g, const nc_call *c, const char *what, int i, size_t bytes, void **p,
                         nc_diag *diag) {
    nc_guard_place place = nc_guard_memory_find(&g->memory, *p, bytes, p);
    if (place == NC_GUARD_HOST || place == NC_GUARD_LIVE) return NC_OK;
    return nc_diag_set(diag, NC_E_DEVICE, c->node, c->op, "guard: %s %d at %p %s", what, i, *p,
                       nc_guard_place_text(place));
}

/* Translates the addresses of c. Its arrays are written, so they must be the operation's own. */
static nc_code translate_call(const nc_guard *g, nc_call *c, nc_diag *diag) {
    for (int i = 0; i < c->n_in; i++) NC_TRY(translate(g, c, "input", i, 0, &c->in[i]->data, diag));
    for (int i = 0; i < c->n_out; i++) NC_TRY(translate(g, c, "output", i, 0, &c->out[i]->data, diag));
    NC_TRY(translate(g, c, "workspace", 0, c->workspace ? c->bytes_workspace : 0, &c->workspace, diag));
    for (int i = 0; i < c->n_packed && c->packed != NULL; i++)
        NC_TRY(translate(g, c, "packed constant", i, 0, (void **)(uintptr_t)&c->packed[i], diag));
    void *sizes = c->sizes;
    NC_TRY(translate(g, c, "sizes", 0, 0, &sizes, diag));
    c->sizes = sizes;
    return NC_OK;
}

static nc_code check_call(const nc_guard *g, const nc_guard_op *op, nc_diag *diag) {
    const nc_call *c = &op->launch.call;
    if (c->packed == NULL && c->n_packed > 0)
        return nc_diag_set(diag, NC_E_DEVICE, c->node, c->op, "guard: packed is NULL, n_packed is %d", c->n_packed);
    nc_guard_op *trial = nc_guard_op_clone(op);
    if (trial == NULL) return nc_diag_set(diag, NC_E_MEMORY, c->node, c->op, "out of memory");
    nc_code code = translate_call(g, &trial->launch.call, diag);
    nc_free(trial);
    return code;
}

/* One side of a copy or fill: exactly what the caller said it is. */
static nc_code find_range(const nc_guard *g, const char *what, const void *p, bool host, size_t bytes, void **out,
                          nc_diag *diag) {
    nc_guard_place place = nc_guard_memory_find(&g->memory, p, bytes, out);
    if (bytes == 0 || place == (host ? NC_GUARD_HOST : NC_GUARD_LIVE)) return NC_OK;
    return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: %s, %zu bytes at %p, should be %s memory but %s", what,
                       bytes, p, host ? "host" : "device", nc_guard_place_text(place));
}

static nc_code find_copy(const nc_guard *g, const nc_guard_op *op, void **dst, void **src, nc_diag *diag) {
    NC_TRY(find_range(g, "target of a copy", op->copy.dst, op->copy.dst_host, op->copy.bytes, dst, diag));
    return find_range(g, "source of a copy", op->copy.src, op->copy.src_host, op->copy.bytes, src, diag);
}

nc_code nc_guard_check(const nc_guard *g, const nc_guard_op *op, nc_diag *diag) {
    void *a, *b;
    switch (op->kind) {
    case NC_GUARD_LAUNCH: return check_call(g, op, diag);
    case NC_GUARD_COPY: return find_copy(g, op, &a, &b, diag);
    case NC_GUARD_FILL: return find_range(g, "target of a fill", op->fill.p, false, op->fill.bytes, &a, diag);
    case NC_GUARD_FREE:
    case NC_GUARD_WAIT:
    case NC_GUARD_CALL: return NC_OK;
    }
    return NC_OK;
}

static nc_code execute_launch(nc_guard *g, nc_guard_op *op, nc_diag *diag) {
    nc_call *c = &op->launch.call;
    NC_TRY(translate_call(g, c, diag));
    nc_diag said = {0};
    c->diag = &said;
    nc_code code = op->launch.kernel(c);
    if (code == NC_OK) return NC_OK;
    *diag = said;
    if (diag->code == NC_OK) nc_diag_set(diag, code, c->node, c->op, "kernel failed: %s", nc_code_text(code));
    diag->code = code;
    return code;
}

static nc_code execute_copy(nc_guard *g, nc_guard_op *op, nc_diag *diag) {
    void *dst, *src;
    NC_TRY(find_copy(g, op, &dst, &src, diag));
    if (op->copy.bytes > 0) memmove(dst, src, op->copy.bytes);
    return NC_OK;
}

static nc_code execute_fill(nc_guard *g, nc_guard_op *op, nc_diag *diag) {
    void *p;
    NC_TRY(find_range(g, "target of a fill", op->fill.p, false, op->fill.bytes, &p, diag));
    if (op->fill.bytes > 0) memset(p, op->fill.byte, op->fill.bytes);
    return NC_OK;
}

static nc_code execute_free(nc_guard *g, nc_guard_op *op, nc_diag *diag) {
    size_t bytes;
    if (!nc_guard_memory_free(&g->memory, op->free, &bytes))
        return nc_diag_set(diag, NC_E_DEVICE, NULL, NULL, "guard: free of %p, where no live block starts", op->free);
    nc_device_give(&g->base, bytes);
    return NC_OK;
}

nc_code nc_guard_execute(nc_guard *g, nc_guard_op *op, nc_diag *diag) {
    switch (op->kind) {
    case NC_GUARD_LAUNCH: return execute_launch(g, op, diag);
    case NC_GUARD_COPY: return execute_copy(g, op, diag);
    case NC_GUARD_FILL: return execute_fill(g, op, diag);
    case NC_GUARD_FREE: return execute_free(g, op, diag);
    case NC_GUARD_WAIT: {
        nc_stream *other = nc_guard_stream(g, op->wait.stream);
        if (other != NULL) nc_guard_run(g, other, op->wait.position);
        return NC_OK;
    }
    case NC_GUARD_CALL: op->call.fn(op->call.ctx); return NC_OK;
    }
    return NC_OK;
}

/* After a failure nothing that works on data runs until somebody was told: it would only see rubbish. */
static bool skipped(const nc_stream *s, const nc_guard_op *op) {
    return s->diag.code != NC_OK &&
           (op->kind == NC_GUARD_LAUNCH || op->kind == NC_GUARD_COPY || op->kind == NC_GUARD_FILL);
}

/* Depth: a stream that is running never runs again inside itself, so at most one level per stream. */
void nc_guard_run(nc_guard *g, nc_stream *s, uint64_t position) {
    if (s->running) return;
    s->running = true;
    while (s->n_done < position && s->queue.head != NULL) {
        nc_guard_op *op = s->queue.head;
        s->queue.head = op->next;
        if (op->next == NULL) s->queue.tail = NULL;
        nc_diag diag = {0};
        if (!skipped(s, op) && nc_guard_execute(g, op, &diag) != NC_OK && s->diag.code == NC_OK) s->diag = diag;
        nc_free(op);
        s->n_done++;
    }
    s->running = false;
}

void nc_guard_run_all(nc_guard *g) {
    for (nc_stream *s = g->streams; s != NULL; s = s->next) nc_guard_run(g, s, s->n_queued);
}

nc_stream *nc_guard_stream(const nc_guard *g, uint64_t id) {
    nc_stream *s = g->streams;
    while (s != NULL && s->id != id) s = s->next;
    return s;
}
