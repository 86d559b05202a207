/* base/log.c: one message, one line, to standard error or to the sink of the host program.
 * The sink is called without a lock held, so it may log itself; a message that began before nc_log_set_sink may still
 * reach the old sink. Long messages are cut. */
#include "base/log.h"

#include "base/lock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int lowest = NC_LOG_WARNING;
static _Thread_local nc_log_scope scope;
static nc_lock sink_lock;
static nc_log_sink current_sink;
static void *current_user;

/* When the library is loaded: the first message may come from under another lock, where none may be made. */
__attribute__((constructor)) static void init(void) { nc_lock_init(&sink_lock, NC_LOCK_LEAF, NULL, NULL); }

nc_log_scope nc_log_enter(nc_log_scope s) {
    nc_log_scope before = scope;
    scope = s;
    return before;
}

nc_log_scope nc_log_current(void) { return scope; }

static bool wanted(nc_log_level level) {
    int least = scope.has_level ? (int)scope.level : atomic_load_explicit(&lowest, memory_order_relaxed);
    return (int)level >= least && (int)level >= NC_LOG_VERBOSE && level < NC_LOG_OFF;
}

static void print_line(nc_log_level level, const char *text) {
    static const char *const words[] = {
        [NC_LOG_VERBOSE] = "verbose", [NC_LOG_INFO] = "info", [NC_LOG_WARNING] = "warning", [NC_LOG_ERROR] = "error"};
    fprintf(stderr, "nacre: %s: %s\n", words[level], text);
}

void nc_log(nc_log_level level, const char *fmt, ...) {
    if (!wanted(level)) return;
    char text[2048];
    bool named = scope.id && *scope.id;
    int at = named ? snprintf(text, 256, "[%.200s] ", scope.id) : 0;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text + at, sizeof text - (size_t)at, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    nc_lock_take(&sink_lock);
    nc_log_sink sink = current_sink;
    void *user = current_user;
    nc_lock_give(&sink_lock);
    if (sink)
        sink(user, level, text);
    else
        print_line(level, text);
}

void nc_log_set_level(nc_log_level level) { atomic_store_explicit(&lowest, (int)level, memory_order_relaxed); }

void nc_log_set_sink(nc_log_sink sink, void *user) {
    nc_lock_take(&sink_lock);
    current_sink = sink;
    current_user = user;
    nc_lock_give(&sink_lock);
}
