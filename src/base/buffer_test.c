/* base/buffer_test.c: alignment, counting, release exactly once, failed allocations. */
#include "base/buffer.h"

#include "base/mem.h"
#include "tests/check.h"

static int n_released;

static void note_release(nc_buffer *b) {
    n_released++;
    CHECK(b->owner == &n_released);
}

TEST(buffer_host_memory) {
    uint64_t live = nc_mem_live();
    for (size_t bytes = 0; bytes < 200; bytes += 67) {
        nc_buffer *b = nc_buffer_host(bytes);
        REQUIRE(b && b->ptr);
        CHECK((uintptr_t)b->ptr % 64 == 0 && b->bytes == bytes && b->kind == NC_MEM_HOST && b->device == NULL);
        memset(b->ptr, 1, bytes);
        nc_buffer_unref(b);
    }
    nc_buffer_unref(NULL);
    CHECK_INT(nc_mem_live(), live);
}

TEST(buffer_releases_once) {
    int data[3];
    n_released = 0;
    nc_buffer *b = nc_buffer_wrap(data, sizeof data, note_release, &n_released);
    REQUIRE(b);
    CHECK(nc_buffer_ref(b) == b);
    nc_buffer_unref(b);
    CHECK_INT(n_released, 0);
    nc_buffer_unref(b);
    CHECK_INT(n_released, 1);
    b = nc_buffer_wrap(data, sizeof data, NULL, NULL);
    nc_buffer_unref(b);
    CHECK_INT(n_released, 1);
}

TEST(buffer_out_of_memory) {
    uint64_t live = nc_mem_live();
    for (uint64_t n = 1; n <= 2; n++) {
        nc_mem_fail_at(n);
        CHECK(nc_buffer_host(8) == NULL && nc_mem_fail_hit());
        nc_mem_fail_at(0);
    }
    CHECK_INT(nc_mem_live(), live);
}
