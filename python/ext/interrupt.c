/* python/ext/interrupt.c: Ctrl-C while the main thread waits in a run.
 *
 * CPython's handler only notes the signal; the exception comes when the main thread runs Python again, which would be
 * after the run. So for the time of a run a handler stands before it that cancels the run and passes the signal on. It
 * does so only where SIGINT means KeyboardInterrupt: a program with a handler of its own is not disturbed. */
#include "ext.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(nacre_run_options *) running;
static atomic_int interrupted;
static struct sigaction python_action;
static PyObject *getsignal, *default_handler, *sigint;

int ncx_interrupt_init(void) {
    PyObject *m = PyImport_ImportModule("_signal"); /* what `signal` wraps: it makes no enum of the answer */
    if (!m) return -1;
    getsignal = PyObject_GetAttrString(m, "getsignal");
    sigint = PyLong_FromLong(SIGINT);
    default_handler = PyObject_GetAttrString(m, "default_int_handler");
    Py_DECREF(m);
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

void ncx_guard_begin(ncx_guard *g, nacre_run_options *r) {
    struct sigaction now, ours = {.sa_handler = on_signal};
    *g = (ncx_guard){.outer = atomic_load(&running), .interrupted_outer = atomic_load(&interrupted)};
    if (syscall(SYS_gettid) != getpid() || !means_interrupt()) return;
    if (!g->outer) {
        if (sigaction(SIGINT, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO)) return;
        if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || now.sa_handler == on_signal) return;
        python_action = now;
        sigemptyset(&ours.sa_mask);
        ours.sa_flags = now.sa_flags;
    }
    atomic_store(&interrupted, 0);
    atomic_store(&running, r);
    g->on = true;
    if (!g->outer) sigaction(SIGINT, &ours, NULL);
}

bool ncx_guard_end(ncx_guard *g) {
    if (!g->on) return false;
    if (!g->outer) sigaction(SIGINT, &python_action, NULL);
    atomic_store(&running, g->outer);
    int hit = atomic_load(&interrupted);
    atomic_store(&interrupted, g->interrupted_outer || hit);
    if (hit && g->outer) nacre_run_options_cancel(g->outer, 1);
    return hit != 0;
}
