/* device/cuda_order.h: where the streams of a CUDA device stand: which have work that is not known to be done, points
 * in that work, and the turns that captures and waits for everything take. Private to the CUDA device.
 *
 * A point is a pooled event: in the steady state none is made. Functions that take an nc_cuda_order are called with its
 * device's lock held, but for those of turns and counts. */
#ifndef NC_DEVICE_CUDA_ORDER_H
#define NC_DEVICE_CUDA_ORDER_H

#include "device/cuda_api.h"

/* Memory for kernels on a stream that is not booked by plans (cuda_room.c). */
typedef struct nc_cuda_room {
    void *_Atomic small;             /* NC_CUDA_PARTIALS bytes and counters; NULL: no kernel has run on it */
    struct nc_cuda_scratch *scratch; /* the largest first; NULL: no library has needed any */
} nc_cuda_room;

struct nc_stream {
    CUstream handle;
    nc_cuda_room room;
    nc_cuda_fault *fault;
    bool lent;                         /* the caller's: only the room and the fault are ours */
    uint64_t id;                       /* from 1 on, of no other stream, also of none that is gone */
    _Atomic uint64_t n_issued, n_done; /* calls that queued work; how many of them a wait has covered */
    int *marks, n_marks, cap_marks;    /* of its capture: how many nodes there were at each */
    struct nc_stream *next, *prev;
};

typedef struct nc_cuda_point {
    CUevent event;
    uint64_t stream; /* its id; 0: CUDA's stream 0 */
    struct nc_cuda_point *next;
} nc_cuda_point;

typedef struct nc_cuda_order {
    const nc_cuda *cuda;
    nc_stream *streams;
    nc_cuda_point *spare;
} nc_cuda_order;

void nc_cuda_order_add(nc_cuda_order *o, nc_stream *s);
void nc_cuda_order_remove(nc_cuda_order *o, nc_stream *s);
void nc_cuda_order_release(nc_cuda_order *o); /* of the events; streams are their owners' */

/* Work was queued on s: called after it was. NULL: stream 0, which is waited for at once. */
static inline void nc_cuda_issued(nc_stream *s) {
    if (s != NULL) atomic_fetch_add_explicit(&s->n_issued, 1, memory_order_release);
}
/* Around a wait for all of s: what was issued before it is done after. */
static inline uint64_t nc_cuda_wait_begin(const nc_stream *s) {
    return atomic_load_explicit(&s->n_issued, memory_order_acquire);
}
void nc_cuda_wait_end(nc_stream *s, uint64_t n);

/* Points behind all that `only` has to do, or every stream where it is NULL, and, where `outside`, behind what others
 * queued on CUDA's stream 0. *out NULL: nothing is under way. On failure none is given. */
CUresult nc_cuda_points_take(nc_cuda_order *o, const nc_stream *only, bool outside, nc_cuda_point **out);
/* Gives back the points that were passed; true: those left are of stream `at` (0: none are left), whose later work
 * comes after them. */
bool nc_cuda_points_passed(nc_cuda_order *o, nc_cuda_point **list, uint64_t at);
/* The host waits, then gives them back. */
CUresult nc_cuda_points_wait(nc_cuda_order *o, nc_cuda_point **list);
void nc_cuda_points_drop(nc_cuda_order *o, nc_cuda_point **list);

/* ---- cuda_room.c; the device's mutex is held, or nobody else is there ---- */

NC_MUST nc_code nc_cuda_room_make(nc_device *d, nc_stream *s, nc_cuda_room *r, nc_diag *diag);
NC_MUST nc_code nc_cuda_room_scratch(nc_device *d, nc_stream *s, nc_cuda_room *r, size_t bytes, void **out,
                                     nc_diag *diag);
void nc_cuda_room_release(nc_device *d, nc_stream *s, nc_cuda_room *r);

/* While any stream of the process is being captured, CUDA refuses to wait for all work, and a recorded event becomes a
 * part of the capture. So captures and waits take turns; a thread that captures itself does not wait, and CUDA tells
 * it. */
void nc_cuda_turn_capture(void);
void nc_cuda_turn_wait(void);
bool nc_cuda_turn_try_wait(void); /* false: something is being captured */
void nc_cuda_turn_capture_end(void);
void nc_cuda_turn_wait_end(void);
void nc_cuda_own_capture(int by); /* this thread began (1) or ended (-1) one */
/* What this thread captures cannot be captured yet, since it must be made ready by a run first: its end fails. */
void nc_cuda_capture_unfit(void);
bool nc_cuda_capture_was_unfit(void); /* asked once, at the end */

#endif
