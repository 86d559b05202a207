/* base/log.h: messages for people. Level and sink can change while running; nothing is written by default below
 * WARNING. What a thread does for one session or run may have a level and a name of its own: a scope. */
#ifndef NC_BASE_LOG_H
#define NC_BASE_LOG_H

#include <stdbool.h>

typedef enum nc_log_level { NC_LOG_VERBOSE, NC_LOG_INFO, NC_LOG_WARNING, NC_LOG_ERROR, NC_LOG_OFF } nc_log_level;
typedef void (*nc_log_sink)(void *user, nc_log_level level, const char *text);

void nc_log(nc_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nc_log_set_level(nc_log_level level);
void nc_log_set_sink(nc_log_sink sink, void *user); /* NULL: standard error */

/* Zeros: no scope. The id is borrowed while the scope is entered; it stands before the text of each message. */
typedef struct nc_log_scope {
    bool has_level;
    nc_log_level level;
    const char *id;
} nc_log_scope;
nc_log_scope nc_log_enter(nc_log_scope s); /* for this thread; gives the scope before, to be entered again at the end */
nc_log_scope nc_log_current(void);

#endif
