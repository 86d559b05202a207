/* python/ext/interrupt.c: Ctrl-C while the main thread waits in a run.
 *
 * CPython's handler only notes the signal; the exception comes when the main thread runs Python again, which would be
 * after the run. So a handler stands before it that cancels the run and passes the signal on. It is put there by the
 * first run that finds it missing, where SIGINT means KeyboardInterrupt (a program with a handler of its own is not
 * disturbed), and stays: putting it up and down would cost a small run more than its nodes. Outside of runs it only
 * passes the signal on. */
#include "ext.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(nacre_run_options *) running;
static atomic_int interrupted;
static struct sigaction python_action;
static PyObject *getsignal, *default_handler, *sigint;
static atomic_uint n_forks = 1; /* before this process began, and one more */

static void count_fork(void) { atomic_fetch_add(&n_forks, 1); }

int ncx_interrupt_init(void) {
    PyObject *m = PyImport_ImportModule("_signal"); /* what `signal` wraps: it makes no enum of the answer */
    if (!m) return -1;
    getsignal = PyObject_GetAttrString(m, "getsignal");
    sigint = PyLong_FromLong(SIGINT);
    default_handler = PyObject_GetAttrString(m, "default_int_handler");
    Py_DECREF(m);
    if (pthread_atfork(NULL, NULL, count_fork) != 0) return -1;
    return getsignal && default_handler && sigint ? 0 : -1;
}

static void on_signal(int number) {
    int keep = errno;
    nacre_run_options *r = atomic_load(&running);
    if (r) {
        atomic_store(&interrupted, 1);
        nacre_run_options_cancel(r, 1);
    }
    python_action.sa_handler(number);
    errno = keep;
}

static bool means_interrupt(void) {
    PyObject *handler = PyObject_CallFunctionObjArgs(getsignal, sigint, NULL);
    bool yes = handler == default_handler;
    Py_XDECREF(handler);
    if (!handler) PyErr_Clear();
    return yes;
}

/* Asked of the system once per thread; in a child the thread that forked is the main one. */
static bool on_main_thread(void) {
    static _Thread_local unsigned asked;
    static _Thread_local bool is_main;
    unsigned now = atomic_load_explicit(&n_forks, memory_order_relaxed);
    if (asked != now) asked = now, is_main = syscall(SYS_gettid) == getpid();
    return is_main;
}

/* Is the handler there, or can it be put there? */
static bool stands(void) {
    struct sigaction now, ours = {.sa_handler = on_signal};
    if (sigaction(SIGINT, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO)) return false;
    if (now.sa_handler == on_signal) return true;
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return false;
    python_action = now;
    sigemptyset(&ours.sa_mask);
    ours.sa_flags = now.sa_flags;
    return sigaction(SIGINT, &ours, NULL) == 0;
}

void ncx_guard_begin(ncx_guard *g, nacre_run_options *r) {
    *g = (ncx_guard){.outer = atomic_load(&running), .interrupted_outer = atomic_load(&interrupted)};
    if (!on_main_thread() || !means_interrupt() || (!g->outer && !stands())) return;
    atomic_store(&interrupted, 0);
    atomic_store(&running, r);
    g->on = true;
}

bool ncx_guard_end(ncx_guard *g) {
    if (!g->on) return false;
    atomic_store(&running, g->outer);
    int hit = atomic_load(&interrupted);
    atomic_store(&interrupted, g->interrupted_outer || hit);
    if (hit && g->outer) nacre_run_options_cancel(g->outer, 1);
    return hit != 0;
}
