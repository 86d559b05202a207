/* base/log.c: one message, one line, to standard error or to the sink of the host program.
 * The sink is called without a lock held, so it may log itself; a message that began before nc_log_set_sink may still
 * reach the old sink. Long messages are cut. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int lowest = NC_LOG_WARNING;
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static nc_log_sink current_sink;
static void *current_user;

static void print_line(nc_log_level level, const char *text) {
    static const char *const words[] = {
        [NC_LOG_VERBOSE] = "verbose", [NC_LOG_INFO] = "info", [NC_LOG_WARNING] = "warning", [NC_LOG_ERROR] = "error"};
    fprintf(stderr, "nacre: %s: %s\n", words[level], text);
}

void nc_log(nc_log_level level, const char *fmt, ...) {
    if ((int)level < atomic_load_explicit(&lowest, memory_order_relaxed)) return;
    if ((int)level < NC_LOG_VERBOSE || level >= NC_LOG_OFF) return;
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    pthread_mutex_lock(&sink_lock);
    nc_log_sink sink = current_sink;
    void *user = current_user;
    pthread_mutex_unlock(&sink_lock);
    if (sink) sink(user, level, text);
    else print_line(level, text);
}

void nc_log_set_level(nc_log_level level) {
    atomic_store_explicit(&lowest, (int)level, memory_order_relaxed);
}

void nc_log_set_sink(nc_log_sink sink, void *user) {
    pthread_mutex_lock(&sink_lock);
    current_sink = sink;
    current_user = user;
    pthread_mutex_unlock(&sink_lock);
}
