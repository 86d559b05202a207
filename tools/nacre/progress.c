/* tools/nacre/progress.c: says how far a long piece of work is. A thread of its own prints, so that one long run shows
 * too; there is none where standard error is no terminal. */
#include "cli.h"

#include <time.h>
#include <unistd.h>

static void print(progress *p, double seconds) {
    long long done = atomic_load(&p->done);
    if (p->total > 0)
        fprintf(stderr, "\r%s: %lld of %lld, %.0f s\033[K", p->what, done, p->total, seconds);
    else
        fprintf(stderr, "\r%s: %.0f s\033[K", p->what, seconds);
    fflush(stderr);
}

static void *watch(void *given) {
    progress *p = given;
    double start = now_ms();
    bool shown = false;
    pthread_mutex_lock(&p->lock);
    while (!p->ended) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 250000000;
        t.tv_sec += t.tv_nsec / 1000000000, t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->end, &p->lock, &t);
        double ms = now_ms() - start;
        if (p->ended || ms < 2000) continue;
        print(p, ms / 1e3);
        shown = true;
    }
    pthread_mutex_unlock(&p->lock);
    if (shown) fprintf(stderr, "\r\033[K");
    return NULL;
}

void progress_start(progress *p, const char *what, long long total) {
    *p = (progress){.what = what, .total = total};
    if (!isatty(STDERR_FILENO)) return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->end, NULL);
    p->runs = pthread_create(&p->thread, NULL, watch, p) == 0;
}

void progress_end(progress *p) {
    if (!p->runs) return;
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_signal(&p->end);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->runs = false;
}
