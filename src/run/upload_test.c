/* run/upload_test.c: blocks of odd sizes in one block of a device, by one thread and by several. */
#include "run/upload.h"

#include "base/mem.h"
#include "tests/check.h"

#include <string.h>

enum { N = 5, BYTES = 3 << 20, ALL = 4 * BYTES };

static void upload(nc_pool *pool, bool shared) {
    static const size_t sizes[N] = {1, BYTES + 3, 0, 2 * BYTES - 77, 300};
    nc_work w;
    nc_work_init(&w);
    nc_device *d = NULL;
    nc_buffer *b = NULL;
    nc_upload list[N];
    char *from = nc_alloc(2 * BYTES), *back = nc_alloc(ALL);
    REQUIRE(from && back && nc_device_guard_create(&w, &d) == NC_OK);
    for (int i = 0; i < 2 * BYTES; i++) from[i] = (char)(i * 7 + i / 251);
    for (int i = 0; i < N; i++) list[i] = (nc_upload){.src = from + i, .bytes = sizes[i]};
    uint64_t posts = nc_pool_posts(pool);
    REQUIRE(nc_upload_all(&w, pool, d, NULL, list, N, &b) == NC_OK);
    CHECK_INT(nc_pool_posts(pool) > posts, shared);
    size_t end = list[N - 1].offset + sizes[N - 1];
    CHECK(d->table->copy(d, NULL, back, true, b->ptr, false, end, &w.diag) == NC_OK);
    for (int i = 0; i < N; i++) {
        CHECK_INT(list[i].offset % 256, 0);
        CHECK(memcmp(back + list[i].offset, from + i, sizes[i]) == 0);
    }
    nc_buffer_unref(b);
    d->table->destroy(d);
    nc_free(from), nc_free(back);
    nc_work_release(&w);
}

TEST(upload_by_one_thread_and_by_several) {
    for (int threads = 1; threads < 4; threads += 2) {
        nc_pool *pool = nc_pool_create(threads);
        REQUIRE(pool);
        upload(pool, threads > 1);
        nc_pool_destroy(pool);
    }
}
