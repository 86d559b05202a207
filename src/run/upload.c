/* run/upload.c: the constants of a program in the memory of a device: one block for all of them, filled through two
 * page-locked pieces in turn, so that the host copies into one while the device reads the other, and waited for once.
 * The host copies with all its threads: bytes of a mapped file come page by page, slower than a device takes them. A
 * few small ones go up by a single copy. */
#include "run/upload.h"

#include "base/intmath.h"
#include "base/mem.h"

#include <string.h>

enum { ALIGNMENT = 256, PIECE = 8 << 20, FEW = 256 << 10, SHARE = 256 << 10 };

typedef struct staging {
    nc_work *w;
    nc_pool *pool;
    nc_device *d;
    nc_stream *s;
    char *piece[2];
    nc_event *read[2]; /* the device has read the piece */
    int now;           /* the piece that is being filled */
    size_t n;          /* its bytes so far */
    char *to;          /* where the first of them goes */
} staging;

static nc_code open_staging(staging *t, size_t bytes) {
    nc_diag *diag = &t->w->diag;
    size_t room = bytes < PIECE ? bytes : PIECE;
    NC_TRY(t->d->table->stream_create(t->d, &t->s, diag));
    for (int i = 0; i < 2; i++) {
        NC_TRY(t->d->table->event_create(t->d, &t->read[i], diag));
        NC_TRY(t->d->table->host_alloc(t->d, room, (void **)&t->piece[i], diag));
    }
    return NC_OK;
}

static void close_staging(staging *t) {
    if (t->s != NULL) t->d->table->stream_destroy(t->d, t->s); /* waits for what is still queued */
    for (int i = 0; i < 2; i++) {
        if (t->read[i] != NULL) t->d->table->event_destroy(t->d, t->read[i]);
        if (t->piece[i] != NULL) t->d->table->host_free(t->d, t->piece[i]);
    }
}

static nc_code send_piece(staging *t) {
    nc_diag *diag = &t->w->diag;
    if (t->n == 0) return NC_OK;
    NC_TRY(t->d->table->copy(t->d, t->s, t->to, false, t->piece[t->now], true, t->n, diag));
    NC_TRY(t->d->table->event_record(t->d, t->read[t->now], t->s, diag));
    t->to += t->n, t->n = 0, t->now ^= 1;
    return t->d->table->event_sync(t->d, t->read[t->now], diag);
}

typedef struct copying {
    char *to;
    const char *from;
    size_t bytes;
} copying;

static void copy_share(void *ctx, int64_t i) {
    const copying *c = ctx;
    size_t at = (size_t)i * SHARE, left = c->bytes - at;
    memcpy(c->to + at, c->from + at, left < SHARE ? left : SHARE);
}

static void copy_bytes(nc_pool *pool, char *to, const char *from, size_t bytes) {
    copying c = {to, from, bytes};
    nc_parallel(pool, nc_ceil_div((int64_t)bytes, SHARE), copy_share, &c);
}

static nc_code send_bytes(staging *t, const char *src, size_t bytes, size_t room) {
    while (bytes > 0) {
        size_t n = room - t->n < bytes ? room - t->n : bytes;
        if (src != NULL)
            copy_bytes(t->pool, t->piece[t->now] + t->n, src, n), src += n;
        else
            memset(t->piece[t->now] + t->n, 0, n);
        t->n += n, bytes -= n;
        if (t->n == room) NC_TRY(send_piece(t));
    }
    return NC_OK;
}

static nc_code send_all(staging *t, const nc_upload *list, int n, size_t total) {
    size_t room = total < PIECE ? total : PIECE, at = 0;
    for (int i = 0; i < n; i++) {
        NC_TRY(send_bytes(t, NULL, list[i].offset - at, room)); /* the gap before it */
        NC_TRY(send_bytes(t, list[i].src, list[i].bytes, room));
        at = list[i].offset + list[i].bytes;
    }
    NC_TRY(send_piece(t));
    return t->d->table->stream_sync(t->d, t->s, &t->w->diag);
}

static nc_code send_few(nc_work *w, nc_device *d, char *to, const nc_upload *list, int n, size_t total) {
    char *all = nc_alloc_zero(total, 1);
    NC_NEED(w, all);
    for (int i = 0; i < n; i++)
        if (list[i].bytes > 0) memcpy(all + list[i].offset, list[i].src, list[i].bytes);
    nc_code code = d->table->copy(d, NULL, to, d->table->host_memory, all, true, total, &w->diag);
    if (code == NC_OK) code = d->table->stream_sync(d, NULL, &w->diag);
    nc_free(all);
    return code;
}

static bool lay_out(nc_upload *list, int n, size_t *total) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        list[i].offset = at;
        if (list[i].bytes > SIZE_MAX - ALIGNMENT - at) return false;
        at += list[i].bytes;
        if (i + 1 < n) at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    *total = at ? at : 1;
    return true;
}

nc_code nc_upload_all(nc_work *w, nc_pool *pool, nc_device *d, nc_budget *budget, nc_upload *list, int n,
                      nc_buffer **out) {
    size_t total;
    if (!lay_out(list, n, &total)) NC_FAIL(w, NC_E_LIMIT, "the constants are too large to address");
    nc_buffer *b = nc_device_buffer(d, budget, total, &w->diag);
    if (!b) return w->diag.code ? w->diag.code : nc_fail(w, NC_E_MEMORY, "out of memory");
    nc_code code;
    if (total <= FEW) {
        code = send_few(w, d, b->ptr, list, n, total);
    } else {
        staging t = {.w = w, .pool = pool, .d = d, .to = b->ptr};
        code = open_staging(&t, total);
        if (code == NC_OK) code = send_all(&t, list, n, total);
        close_staging(&t);
    }
    if (code == NC_OK)
        *out = b;
    else
        nc_buffer_unref(b);
    return code;
}
