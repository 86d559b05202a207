/* device/host_kept.c: the list of kept blocks, oldest first. A block serves requests that leave an eighth of it unused
 * at most. Every miss frees the oldest, so that sizes which do not come again do not stay. */
#include "device/host_kept.h"

#include "base/lock.h"
#include "base/mem.h"

#include <string.h>

enum { MOST = 48 }; /* blocks */

/* Where AddressSanitizer is to see who uses a block that was freed, none is kept. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_WATCHED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_WATCHED true
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED false
#endif

typedef struct host_block {
    void *p;
    size_t bytes;
} host_block;

static struct {
    nc_lock lock;
    host_block v[MOST];
    int n, users;
} kept;

static void init(void) { nc_lock_init(&kept.lock, NC_LOCK_LEAF, NULL, NULL); }

static void lock(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init);
    nc_lock_take(&kept.lock);
}

/* Under the lock. */
static host_block remove_at(int i) {
    host_block b = kept.v[i];
    memmove(kept.v + i, kept.v + i + 1, (size_t)(--kept.n - i) * sizeof *kept.v);
    return b;
}

size_t nc_host_kept_trim(void) {
    host_block gone[MOST];
    size_t bytes = 0;
    lock();
    int n = kept.n;
    memcpy(gone, kept.v, (size_t)n * sizeof *gone);
    kept.n = 0;
    nc_lock_give(&kept.lock);
    for (int i = 0; i < n; i++) bytes += gone[i].bytes, nc_free(gone[i].p);
    return bytes;
}

void nc_host_kept_users(int more) {
    lock();
    int users = kept.users += more;
    nc_lock_give(&kept.lock);
    if (users == 0) nc_host_kept_trim();
}

void *nc_host_kept_take(size_t *bytes) {
    int best = -1;
    host_block b = {NULL, 0}, gone = {NULL, 0};
    lock();
    for (int i = 0; i < kept.n; i++) {
        size_t has = kept.v[i].bytes;
        if (has >= *bytes && has - *bytes <= *bytes / 8 && (best < 0 || has < kept.v[best].bytes)) best = i;
    }
    if (best >= 0)
        b = remove_at(best);
    else if (kept.n > 0)
        gone = remove_at(0);
    nc_lock_give(&kept.lock);
    nc_free(gone.p);
    if (b.p != NULL) *bytes = b.bytes;
    return b.p;
}

bool nc_host_kept_put(void *p, size_t bytes) {
    host_block gone = {NULL, 0};
    if (IS_WATCHED || bytes < NC_HOST_KEPT_FROM) return false;
    lock();
    bool keeps = kept.users > 0;
    if (keeps && kept.n == MOST) gone = remove_at(0);
    if (keeps) kept.v[kept.n++] = (host_block){p, bytes};
    nc_lock_give(&kept.lock);
    nc_free(gone.p);
    return keeps;
}
