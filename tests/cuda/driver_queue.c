/* tests/cuda/driver_queue.c: streams. Work is queued by a call and runs when somebody waits: with seed 0 only what they
 * wait for and what its events ask for; with another seed other streams get their turn in between, drawn by it. No
 * threads, no clock: the same calls give the same order. Running work is done under the_lock, but for host functions,
 * around which memory is closed and the lock is free. */
#include "tests/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_QUEUED = 4096 };

pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t host_function_done = PTHREAD_COND_INITIALIZER;
CUstream all_streams;
int sticky;
static uint64_t seed, random_state;
static _Thread_local bool in_host_function;

uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

void queue_seed(uint64_t s) { seed = random_state = s; }

op *op_create(op_kind kind, const char *name) {
    op *o = calloc(1, sizeof *o);
    if (o == NULL) abort();
    o->kind = kind, o->refs = 1, o->name = name;
    return o;
}

op *op_ref(op *o) {
    o->refs++;
    return o;
}

void op_unref(op *o) {
    if (--o->refs > 0) return;
    if (o->kind == OP_KERNEL) free(o->launch);
    if (o->kind == OP_WORK) free(o->work.bytes);
    if (o->kind == OP_WAIT) line_unref(o->wait.line);
    if (o->kind == OP_GRAPH) graph_unref(o->graph);
    free(o);
}

void line_unref(line *l) {
    if (l != NULL && --l->refs == 0) free(l);
}

bool stream_known(CUstream s) {
    CUstream x = all_streams;
    while (x != NULL && x != s) x = x->next;
    return x != NULL;
}

CUstream stream_of(CUstream s) { return s ? s : all_streams; }

int stream_open(CUstream *out, bool blocking) {
    CUstream s = calloc(1, sizeof *s), *at = &all_streams;
    if (s == NULL || (s->line = calloc(1, sizeof *s->line)) == NULL) abort();
    s->line->refs = 1, s->blocking = blocking;
    while (*at != NULL) at = &(*at)->next;
    *at = s;
    *out = s;
    return OK;
}

void stream_close(CUstream s) {
    queue_run(s, s->queued);
    CUstream *at = &all_streams;
    while (*at != NULL && *at != s) at = &(*at)->next;
    if (*at != NULL) *at = s->next;
    line_unref(s->line);
    free(s->last.v);
    free(s);
}

static void append(CUstream s, op *o) {
    if (s->tail != NULL)
        s->tail->next = o;
    else
        s->head = o;
    s->tail = o;
    s->queued++;
}

static void add_wait(CUstream s, CUstream other) {
    if (other->line->done == other->queued) return;
    op *o = op_create(OP_WAIT, "wait");
    o->wait.line = other->line, o->wait.position = other->queued;
    other->line->refs++;
    append(s, o);
}

/* Stream 0 and the streams that were not made NON_BLOCKING wait for each other. */
static int order_with_zero(CUstream s) {
    if (s == all_streams) {
        for (CUstream o = all_streams->next; o != NULL; o = o->next) {
            if (o->blocking && o->capture) return E_CAPTURE_IMPLICIT;
            if (o->blocking) add_wait(s, o);
        }
    } else if (s->blocking) {
        add_wait(s, all_streams);
    }
    return OK;
}

int stream_add(CUstream s, op *takes) {
    if (s->capture != NULL) return capture_add(s, takes);
    int code = order_with_zero(s);
    if (code != OK) {
        op_unref(takes);
        return code;
    }
    append(s, takes);
    if (s->queued - s->line->done > MAX_QUEUED) queue_run(s, s->line->done + MAX_QUEUED / 2);
    return OK;
}

static CUstream owner(const line *l) {
    CUstream s = all_streams;
    while (s != NULL && s->line != l) s = s->next;
    return s;
}

static bool blocked(CUstream s) {
    return s->head->kind == OP_WAIT && s->head->wait.line->done < s->head->wait.position;
}

/* Whose turn it is, for s to come on: s, or the one that its next operation waits for. */
static CUstream needed(CUstream s) {
    while (s->head != NULL && blocked(s)) s = owner(s->head->wait.line);
    return s;
}

static CUstream drawn(CUstream wanted) {
    CUstream ready[64];
    int n = 0;
    if (seed == 0 || next_random(&random_state) % 2) return wanted;
    for (CUstream s = all_streams; s != NULL && n < 64; s = s->next)
        if (s->head != NULL && !s->busy && !blocked(s)) ready[n++] = s;
    return n ? ready[next_random(&random_state) % (uint64_t)n] : wanted;
}

static void run_fill(const void *p) {
    const op *o = p;
    memset(o->fill.p, o->fill.byte, o->fill.bytes);
}
static void run_copy(const void *p) {
    const op *o = p;
    memmove(o->copy.dst, o->copy.src, o->copy.bytes);
}

static void close_memory(void) {
    if (!memory_close() && sticky == OK) sticky = E_ILLEGAL_ADDRESS;
    device_end();
}

/* The host sees closed memory and a free lock; the stream stands still meanwhile. */
static void run_host_function(CUstream s, const op *o) {
    close_memory();
    s->busy = true;
    pthread_mutex_unlock(&the_lock);
    in_host_function = true;
    o->host.fn(o->host.ctx);
    in_host_function = false;
    pthread_mutex_lock(&the_lock);
    s->busy = false;
    pthread_cond_broadcast(&host_function_done);
    device_begin();
}

int run_op(CUstream s, op *o, uint64_t with) {
    device_work(o->name);
    switch (o->kind) {
    case OP_COPY: return run_guarded(run_copy, o);
    case OP_FILL: return run_guarded(run_fill, o);
    case OP_KERNEL: return launch_run(o->launch, with);
    case OP_WORK: return run_guarded(o->work.fn, o->work.bytes);
    case OP_GRAPH: return graph_run(s, o->graph, with);
    case OP_HOST: run_host_function(s, o); return OK;
    case OP_WAIT: return OK;
    }
    return OK;
}

static void run_one(CUstream s) {
    op *o = s->head;
    s->head = o->next;
    if (s->head == NULL) s->tail = NULL;
    o->next = NULL;
    int code = sticky == OK ? run_op(s, o, seed ? next_random(&random_state) | 1 : 0) : OK;
    if (sticky == OK) sticky = code;
    s->line->done++;
    op_unref(o);
}

/* Runs until the line, which is that of s, has come to position. */
static void run_until(CUstream s, const line *l, uint64_t position) {
    device_begin();
    while (l->done < position) {
        CUstream turn = drawn(needed(s));
        if (turn->busy || turn->head == NULL) {
            close_memory();
            pthread_cond_wait(&host_function_done, &the_lock);
            device_begin();
        } else {
            run_one(turn);
        }
    }
    close_memory();
}

void queue_run(CUstream s, uint64_t position) {
    if (s->line->done < position) run_until(s, s->line, position);
}

void queue_run_line(const line *l, uint64_t position) {
    CUstream s = l != NULL && l->done < position ? owner(l) : NULL;
    if (s != NULL) run_until(s, l, position);
}

void queue_run_all(void) {
    for (CUstream s = all_streams; s != NULL; s = s->next) queue_run(s, s->queued);
}

void queue_nudge(void) {
    for (CUstream s = all_streams; s != NULL; s = s->next) {
        if (s->head == NULL || s->busy || blocked(s)) continue;
        if (seed != 0 && next_random(&random_state) % 2) continue;
        queue_run(s, s->line->done + 1);
        if (seed == 0) return;
    }
}

bool queue_pending(void) {
    for (CUstream s = all_streams; s != NULL; s = s->next)
        if (s->head != NULL) return true;
    return false;
}

bool queue_in_host_function(void) { return in_host_function; }

void queue_release(void) {
    while (all_streams != NULL) {
        CUstream s = all_streams;
        for (op *o = s->head, *next; o != NULL; o = next) {
            next = o->next;
            op_unref(o);
        }
        all_streams = s->next;
        line_unref(s->line);
        free(s->last.v);
        free(s);
    }
    sticky = OK;
}
