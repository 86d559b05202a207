/* device/cuda_order.c: points in the work of streams and the turns of captures, see cuda_order.h. */
#include "device/cuda_order.h"

#include "base/mem.h"

#include <pthread.h>

/* ---- turns ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int n_captures, n_waits;
} turns = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
static _Thread_local int own_captures;
static _Thread_local bool unfit;

static void take_turn(int *mine, const int *others) {
    pthread_mutex_lock(&turns.mutex);
    while (*others > 0 && own_captures == 0) pthread_cond_wait(&turns.changed, &turns.mutex);
    ++*mine;
    pthread_mutex_unlock(&turns.mutex);
}

static void end_turn(int *mine) {
    pthread_mutex_lock(&turns.mutex);
    --*mine;
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.mutex);
}

void nc_cuda_turn_capture(void) { take_turn(&turns.n_captures, &turns.n_waits); }
void nc_cuda_turn_wait(void) { take_turn(&turns.n_waits, &turns.n_captures); }
void nc_cuda_turn_capture_end(void) { end_turn(&turns.n_captures); }
void nc_cuda_turn_wait_end(void) { end_turn(&turns.n_waits); }

bool nc_cuda_turn_try_wait(void) {
    pthread_mutex_lock(&turns.mutex);
    bool free = turns.n_captures == 0;
    if (free) turns.n_waits++;
    pthread_mutex_unlock(&turns.mutex);
    return free;
}

void nc_cuda_own_capture(int by) { own_captures += by; }
bool nc_cuda_captures_itself(void) { return own_captures > 0; }

void nc_cuda_capture_unfit(void) { unfit = true; }

bool nc_cuda_capture_was_unfit(void) {
    bool was = unfit;
    unfit = false;
    return was;
}

/* ---- streams ---- */

void nc_cuda_order_add(nc_cuda_order *o, nc_stream *s) {
    static atomic_uint_fast64_t n_streams; /* of all devices */
    s->id = atomic_fetch_add(&n_streams, 1) + 1;
    s->next = o->streams;
    if (s->next != NULL) s->next->prev = s;
    o->streams = s;
}

void nc_cuda_order_remove(nc_cuda_order *o, nc_stream *s) {
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        o->streams = s->next;
    if (s->next != NULL) s->next->prev = s->prev;
}

void nc_cuda_wait_end(nc_stream *s, uint64_t n) {
    uint64_t done = atomic_load_explicit(&s->n_done, memory_order_relaxed);
    while (done < n && !atomic_compare_exchange_weak(&s->n_done, &done, n)) {}
}

/* The caller's own work on a lent stream is not counted, so that one is never known to be idle. */
static bool is_idle(nc_stream *s) {
    return !s->lent && atomic_load_explicit(&s->n_done, memory_order_acquire) ==
                           atomic_load_explicit(&s->n_issued, memory_order_acquire);
}

/* ---- points ---- */

void nc_cuda_order_release(nc_cuda_order *o) {
    while (o->spare != NULL) {
        nc_cuda_point *p = o->spare;
        o->spare = p->next;
        o->cuda->api->cuEventDestroy_v2(p->event);
        nc_free(p);
    }
}

static void give_point(nc_cuda_order *o, nc_cuda_point *p) {
    p->next = o->spare;
    o->spare = p;
}

static CUresult take_point(nc_cuda_order *o, nc_cuda_point **out) {
    nc_cuda_point *p = o->spare;
    if (p != NULL) {
        o->spare = p->next;
    } else {
        p = nc_alloc_zero(1, sizeof *p);
        if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        CUresult r = o->cuda->api->cuEventCreate(&p->event, CU_EVENT_DISABLE_TIMING);
        if (r != 0) {
            nc_free(p);
            return r;
        }
    }
    *out = p;
    return 0;
}

static CUresult add_point(nc_cuda_order *o, CUstream at, uint64_t id, nc_cuda_point **list) {
    nc_cuda_point *p = NULL;
    CUresult r = take_point(o, &p);
    if (r != 0) return r;
    r = o->cuda->api->cuEventRecord(p->event, at);
    if (r != 0) {
        give_point(o, p);
        return r;
    }
    p->stream = id;
    p->next = *list;
    *list = p;
    return 0;
}

CUresult nc_cuda_points_take(nc_cuda_order *o, const nc_stream *only, bool outside, nc_cuda_point **out) {
    nc_cuda_point *list = NULL;
    CUresult r = outside ? add_point(o, NULL, 0, &list) : 0;
    for (nc_stream *s = o->streams; s != NULL && r == 0; s = s->next)
        if ((only == NULL || only == s) && !is_idle(s)) r = add_point(o, s->handle, s->id, &list);
    if (r != 0) nc_cuda_points_drop(o, &list);
    *out = list;
    return r;
}

bool nc_cuda_points_passed(nc_cuda_order *o, nc_cuda_point **list, uint64_t at) {
    bool asks = !nc_cuda_captures_itself(), others = false; /* in a capture CUDA answers no question */
    for (nc_cuda_point **next = list; *next != NULL;) {
        nc_cuda_point *p = *next;
        if (asks && o->cuda->api->cuEventQuery(p->event) == 0) {
            *next = p->next;
            give_point(o, p);
        } else {
            others |= at == 0 || p->stream != at;
            next = &p->next;
        }
    }
    return !others;
}

CUresult nc_cuda_points_wait(nc_cuda_order *o, nc_cuda_point **list) {
    CUresult first = 0;
    while (*list != NULL) {
        nc_cuda_point *p = *list;
        CUresult r = o->cuda->api->cuEventSynchronize(p->event);
        if (first == 0) first = r;
        *list = p->next;
        give_point(o, p);
    }
    return first;
}

void nc_cuda_points_drop(nc_cuda_order *o, nc_cuda_point **list) {
    while (*list != NULL) {
        nc_cuda_point *p = *list;
        *list = p->next;
        give_point(o, p);
    }
}
