/* run/overlap.c: instructions of the host's streams, run beside each other.
 *
 * Workers of the pool share one table: per stream, the instruction that comes next. An instruction may start when every
 * other stream has passed what its clock names; of those that may, the lowest goes first. The lowest of all that are
 * not done may always start, so that one worker alone runs them in the program's order and none ever waits for nothing.
 * A kernel inside has one thread: where only one instruction can run, the program does not come here (nc_instr.beside).
 *
 * When one fails, those that come before it in the program still run and those behind it do not start. So the error
 * that is told is the first in the program's order, whichever came first in time. */
#include "run/frame.h"

typedef struct overlap {
    nc_frame *f;
    bool kept;
    int end;    /* only what comes before it starts; a failure lowers it */
    int failed; /* the stream of the first failure in the program's order; -1: none */
    int n_busy, n_asleep;
    pthread_mutex_t lock; /* all of this and the lanes */
    pthread_cond_t passed;
} overlap;

static bool may_start(const overlap *o, int stream) {
    const nc_program *p = o->f->program;
    const nc_lane *lanes = o->f->lanes;
    if (lanes[stream].busy || lanes[stream].next >= o->end) return false;
    const int *clock = p->instrs[lanes[stream].next].clock;
    for (int s = 0; s < p->n_streams; s++)
        if (s != stream && lanes[s].next <= clock[s]) return false;
    return true;
}

static int next_stream(const overlap *o) {
    int best = -1;
    for (int s = 0; s < o->f->program->n_streams; s++)
        if (may_start(o, s) && (best < 0 || o->f->lanes[s].next < o->f->lanes[best].next)) best = s;
    return best;
}

/* Runs the next instruction of a stream; the lock is let go meanwhile. */
static void step(overlap *o, int stream) {
    nc_lane *l = &o->f->lanes[stream];
    int i = l->next;
    const nc_instr *x = &o->f->program->instrs[i];
    nc_code code = NC_OK;
    if (!(o->kept && x->fixed)) {
        l->busy = true, o->n_busy++;
        pthread_mutex_unlock(&o->lock);
        code = nc_exec_instr(o->f, i, false);
        pthread_mutex_lock(&o->lock);
        l->busy = false, o->n_busy--;
    }
    if (code == NC_OK)
        l->next = x->after;
    else if (i < o->end)
        o->end = i, o->failed = stream, l->code = code;
    if (o->n_asleep) pthread_cond_broadcast(&o->passed);
}

static void work(void *ctx, int64_t i) {
    overlap *o = ctx;
    (void)i;
    pthread_mutex_lock(&o->lock);
    for (;;) {
        int stream = next_stream(o);
        if (stream >= 0) {
            step(o, stream);
        } else if (o->n_busy) {
            o->n_asleep++;
            pthread_cond_wait(&o->passed, &o->lock);
            o->n_asleep--;
        } else {
            break;
        }
    }
    pthread_mutex_unlock(&o->lock);
}

/* Puts every stream to its first instruction of the range; gives how many have one. */
static int set_lanes(nc_frame *f, int first, int end) {
    const nc_program *p = f->program;
    int n = 0;
    for (int s = 0; s < p->n_streams; s++) f->lanes[s].next = end;
    for (int i = end - 1; i >= first; i--) {
        nc_lane *l = &f->lanes[p->instrs[i].stream];
        n += l->next == end;
        l->next = i;
    }
    return n;
}

nc_code nc_exec_overlap(nc_frame *f, int first, int end, bool kept) {
    nc_pool *pool = f->session->env->pool;
    overlap o = {.f = f, .kept = kept, .end = end, .failed = -1};
    int n = set_lanes(f, first, end), threads = nc_pool_threads(pool);
    pthread_mutex_init(&o.lock, NULL);
    pthread_cond_init(&o.passed, NULL);
    nc_parallel(pool, n < threads ? n : threads, work, &o);
    pthread_cond_destroy(&o.passed);
    pthread_mutex_destroy(&o.lock);
    if (o.failed < 0) return NC_OK;
    if (o.failed > 0) f->work.diag = f->lanes[o.failed].work.diag;
    return f->lanes[o.failed].code;
}
