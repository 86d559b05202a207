/* base/log.h: messages for people. Level and sink can change while running; nothing is written by default below
 * WARNING. */
#ifndef NC_BASE_LOG_H
#define NC_BASE_LOG_H

typedef enum nc_log_level { NC_LOG_VERBOSE, NC_LOG_INFO, NC_LOG_WARNING, NC_LOG_ERROR, NC_LOG_OFF } nc_log_level;
typedef void (*nc_log_sink)(void *user, nc_log_level level, const char *text);

void nc_log(nc_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void nc_log_set_level(nc_log_level level);
void nc_log_set_sink(nc_log_sink sink, void *user); /* NULL: standard error */

#endif
