/* ir/assume.c: the model's list of what was taken for granted: one text of each kind. */
#include "ir/assume.h"

#include "base/log.h"

#include <stdio.h>

const char *nc_assumption_text(nc_assumption kind) {
    static const char *const texts[] = {
#define A(name, text) text,
#include "ir/assumptions.list"
#undef A
    };
    return texts[kind];
}

static nc_code refuse(nc_work *w, nc_assumption kind, const char *detail) {
    NC_FAIL(w, NC_E_BAD_MODEL, "%s; only without 'strict' %s", detail, nc_assumption_text(kind));
}

nc_code nc_assume(nc_work *w, nc_model *m, nc_assumption kind, const char *fmt, ...) {
    char detail[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    if (nc_assumes_not(m, kind)) return refuse(w, kind, detail);
    nc_log(m->assumed[kind] ? NC_LOG_INFO : NC_LOG_WARNING, "%s: %s", detail, nc_assumption_text(kind));
    if (!m->assumed[kind]) NC_NEED(w, m->assumed[kind] = nc_arena_str(&m->arena, detail));
    return NC_OK;
}

nc_code nc_assume_strictly(nc_work *w, nc_model *m, unsigned kinds) {
    m->strict = kinds;
    for (nc_assumption k = 0; k < NC_N_ASSUMPTIONS; k++)
        if (m->assumed[k] && nc_assumes_not(m, k)) return refuse(w, k, m->assumed[k]);
    return NC_OK;
}
