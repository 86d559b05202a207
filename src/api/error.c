/* api/error.c: codes, errors, versions and the log, as the public header has them. */
#include "api/api.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define X(name, number, text) _Static_assert((int)NACRE_##name == (int)NC_E_##name, "public and private codes agree");
#include "base/codes.list"
#undef X

nacre_code nc_api_error(nacre_error *err, nc_code code, const nc_diag *d) {
    if (!err) return (nacre_code)code;
    memset(err, 0, sizeof *err);
    err->code = (nacre_code)code;
    if (d && d->code) {
        memcpy(err->node, d->node, sizeof err->node);
        memcpy(err->op, d->op, sizeof err->op);
        memcpy(err->text, d->text, sizeof err->text);
    } else {
        snprintf(err->text, sizeof err->text, "%s", nc_code_text(code));
    }
    return (nacre_code)code;
}

nacre_code nc_api_end(nc_work *w, nc_code code, nacre_error *err) {
    if (code != NC_OK) nc_api_error(err, code, &w->diag);
    nc_work_release(w);
    return (nacre_code)code;
}

nacre_code nc_api_fail(nacre_error *err, nc_code code, const char *fmt, ...) {
    if (!err) return (nacre_code)code;
    memset(err, 0, sizeof *err);
    err->code = (nacre_code)code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return (nacre_code)code;
}

nacre_code nc_api_text(nc_text *t, char **out, nacre_error *err) {
    if (!t->s && !t->failed) nc_text_add(t, "");
    if (t->failed || !t->s) {
        nc_text_release(t);
        return nc_api_error(err, NC_E_MEMORY, NULL);
    }
    *out = t->s;
    return NACRE_OK;
}

const char *nacre_code_name(nacre_code code) { return nc_code_name((nc_code)code); }
const char *nacre_version(void) { return "0.1.0"; }

void nacre_log(nacre_log_level level, const char *text) { nc_log((nc_log_level)level, "%s", text); }

void nacre_log_set_level(nacre_log_level level) { nc_log_set_level((nc_log_level)level); }

/* The two level enums have the same numbers, so the sink can be passed on as it is. */
void nacre_log_set_sink(void (*sink)(void *user, nacre_log_level level, const char *text), void *user) {
    nc_log_set_sink((nc_log_sink)(void (*)(void))sink, user);
}

void nacre_free(void *p) { nc_free(p); }

nacre_code nc_api_read_struct(nacre_error *err, const char *name, const void *given, void *own, size_t bytes_own) {
    size_t bytes;
    memcpy(&bytes, given, sizeof bytes);
    if (bytes < sizeof bytes || bytes > (size_t)1 << 16)
        return nc_api_fail(err, NC_E_ARGUMENT, "%s.size is %zu, expected %zu", name, bytes, bytes_own);
    memset(own, 0, bytes_own);
    memcpy(own, given, bytes < bytes_own ? bytes : bytes_own);
    memcpy(own, &bytes_own, sizeof bytes_own);
    return NACRE_OK;
}
