/* device/host_kept_test.c: freed blocks come back while a session lives, unless they are too large for what is asked
 * for; what does not fit leaves; all are gone with the last session. */
#include "device/host_kept.h"

#include "base/mem.h"
#include "device/device.h"
#include "tests/check.h"

static void *get(size_t bytes) {
    nc_diag diag = {0};
    void *p = NULL;
    nc_device *d = nc_device_cpu();
    CHECK_INT(d->table->alloc(d, NULL, bytes, &p, &diag), NC_OK);
    return p;
}

static void give(void *p) { nc_device_cpu()->table->free(nc_device_cpu(), NULL, p); }

/* False where no block is kept, as under AddressSanitizer. */
static bool keeps(void) {
    nc_host_kept_trim();
    give(get(4 << 20));
    return nc_host_kept_trim() > 0;
}

TEST(host_kept_blocks_come_back) {
    nc_host_kept_users(1);
    if (!keeps()) {
        nc_host_kept_users(-1);
        nc_test_not_run("no block is kept in this build");
        return;
    }
    size_t live = nc_device_cpu()->bytes_live;
    char *a = get(4 << 20), *b = get(3 << 20);
    CHECK(nc_device_cpu()->bytes_live == live + (7 << 20));
    give(a), give(b);
    CHECK(nc_device_cpu()->bytes_live == live);
    char *c = get((4 << 20) - 999), *small = get(100);
    CHECK(c == a); /* the smallest that is enough, and not much larger */
    c[(4 << 20) - 1000] = 1, small[99] = 1;
    give(small), give(c);
    char *large = get(9 << 20), *other = get(2 << 20); /* two misses: nothing stays */
    CHECK_INT((int64_t)nc_host_kept_trim(), 0);
    give(large), give(other);
    CHECK((int64_t)nc_host_kept_trim() >= 11 << 20);
    nc_host_kept_users(-1);
}

TEST(host_kept_blocks_end_with_the_last_session) {
    nc_host_kept_users(1);
    nc_host_kept_users(1);
    void *p[60];
    for (int i = 0; i < 60; i++) p[i] = get((size_t)(i + 8) << 18);
    uint64_t live = nc_mem_live();
    for (int i = 0; i < 60; i++) give(p[i]);
    CHECK(nc_mem_live() <= live); /* no more than so many, the others were freed */
    nc_host_kept_users(-1);
    nc_host_kept_users(-1);
    CHECK_INT((int64_t)nc_host_kept_trim(), 0);
    CHECK_INT((int64_t)(live - nc_mem_live()), 60);
}
