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

TEST(buffer_zeros_are_zeros) {
    static const size_t sizes[] = {0, 1, 100, ((size_t)1 << 20) - 1, (size_t)1 << 20, ((size_t)5 << 20) + 3};
    uint64_t live = nc_mem_live();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int twice = 0; twice < 2; twice++) { /* the second may get the memory of the first */
            nc_buffer *b = nc_buffer_host_zero(sizes[i]);
            size_t wrong = 0;
            REQUIRE(b);
            CHECK_INT((uintptr_t)b->ptr % 64, 0);
            for (size_t k = 0; k < sizes[i]; k++) wrong += ((char *)b->ptr)[k] != 0;
            CHECK_INT(wrong, 0);
            memset(b->ptr, 7, sizes[i]);
            nc_buffer_unref(b);
        }
        for (int n = 1; n <= 2; n++) { /* the block, then what counts it */
            nc_mem_fail_at((uint64_t)n);
            CHECK(nc_buffer_host_zero(sizes[i]) == NULL);
        }
        nc_mem_fail_at(0);
    }
    CHECK_INT(nc_mem_live(), live);
}
