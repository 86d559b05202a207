/* base/status.c: codes to words, and the one diagnostic that travels with a failure.
 * Writes only into fixed storage. Text that is too long is cut on a UTF-8 boundary, so that bindings can decode it. */
#include "base/status.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void nc_work_init(nc_work *w) {
    memset(w, 0, sizeof *w);
    nc_arena_init(&w->scratch);
}

void nc_work_release(nc_work *w) { nc_arena_release(&w->scratch); }

const char *nc_code_name(nc_code code) {
    switch (code) {
#define X(name, number, text) \
    case NC_E_##name:         \
        return #name;
#include "base/codes.list"
#undef X
    }
    return "?";
}

const char *nc_code_text(nc_code code) {
    switch (code) {
#define X(name, number, text) \
    case NC_E_##name:         \
        return text;
#include "base/codes.list"
#undef X
    }
    return "unknown error";
}

/* Removes a multi-byte character that was cut at the end of s. */
static void trim_cut_character(char *s) {
    size_t n = strlen(s), start = n;
    while (start > 0 && n - start < 3 && ((unsigned char)s[start - 1] & 0xC0) == 0x80) start--;
    if (start == 0) return;
    unsigned char lead = (unsigned char)s[start - 1];
    size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (n - start < want) s[start - 1] = '\0';
}

static void copy_text(char *dst, size_t bytes, const char *src) {
    size_t n = src ? strlen(src) : 0;
    bool cut = n >= bytes;
    if (cut) n = bytes - 1;
    if (n > 0) memcpy(dst, src, n);
    dst[n] = '\0';
    if (cut) trim_cut_character(dst);
}

NC_PRINTF(5, 0)
static nc_code set_diag(nc_diag *d, nc_code code, const char *node, const char *op, const char *fmt, va_list ap) {
    d->code = code;
    copy_text(d->node, sizeof d->node, node);
    copy_text(d->op, sizeof d->op, op);
    int n = vsnprintf(d->text, sizeof d->text, fmt, ap);
    if (n < 0) d->text[0] = '\0';
    if (n >= (int)sizeof d->text) trim_cut_character(d->text);
    return code;
}

nc_code nc_fail(nc_work *w, nc_code code, const char *fmt, ...) {
    if (code == NC_OK) code = NC_E_FAIL;
    if (w == NULL || w->diag.code != NC_OK) return code;
    va_list ap;
    va_start(ap, fmt);
    set_diag(&w->diag, code, w->at_node, w->at_op, fmt, ap);
    va_end(ap);
    return code;
}

nc_code nc_diag_set(nc_diag *d, nc_code code, const char *node, const char *op, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_diag(d, code, node, op, fmt, ap);
    va_end(ap);
    return code;
}

const char *nc_diag_print(const nc_diag *d, char *buf, size_t bytes) {
    if (bytes == 0) return buf;
    const char *text = d->text[0] ? d->text : nc_code_text(d->code);
    bool op = d->op[0] != '\0', node = d->node[0] != '\0';
    int n = snprintf(buf, bytes, "%s%s%s%s%s%s%s [%s]", d->op, op && node ? " " : "", node ? "'" : "", d->node,
                     node ? "'" : "", op || node ? ": " : "", text, nc_code_name(d->code));
    if (n < 0) buf[0] = '\0';
    if (n > 0 && (size_t)n >= bytes) trim_cut_character(buf);
    return buf;
}

nc_code nc_work_finish(nc_work *w, nc_code code, uint64_t failures) {
    if (code == NC_E_MEMORY || nc_mem_failures() == failures) return code;
    w->diag = (nc_diag){.code = NC_OK};
    NC_FAIL(w, NC_E_MEMORY, "out of memory");
}
