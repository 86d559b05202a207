/* base/mem_test.c: counting, the armed failure, sizes that cannot be. */
#include "base/mem.h"

#include "base/machine.h"

#include "tests/check.h"

#include <pthread.h>

TEST(mem_counts_blocks) {
    uint64_t live = nc_mem_live(), count = nc_mem_count();
    char *a = nc_alloc(0), *b = nc_alloc_zero(3, 5), *c = nc_realloc(NULL, 7);
    REQUIRE(a && b && c);
    CHECK_INT(nc_mem_live() - live, 3);
    CHECK_INT(nc_mem_count() - count, 3);
    for (int i = 0; i < 15; i++) CHECK_INT(b[i], 0);
    memcpy(c, "nacre!", 7);
    c = nc_realloc(c, 100000);
    REQUIRE(c);
    CHECK_STR(c, "nacre!");
    CHECK_INT(nc_mem_live() - live, 3);
    nc_free(a);
    nc_free(b);
    nc_free(c);
    nc_free(NULL);
    CHECK_INT(nc_mem_live(), live);
}

TEST(mem_aligns) {
    for (size_t align = 1; align <= 4096; align *= 2) {
        void *p = nc_alloc_aligned(align == 64 ? 0 : 33, align);
        CHECK(p && (uintptr_t)p % align == 0);
        nc_free(p);
    }
}

TEST(mem_large_blocks_start_a_huge_page_and_hold_every_byte) {
    enum { HUGE_PAGE = 2 << 20 };
    static const size_t sizes[] = {HUGE_PAGE - 1, HUGE_PAGE, HUGE_PAGE + 1, 2 * HUGE_PAGE + HUGE_PAGE / 2 + 77};
    unsigned char *p[4];
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(p[i] = nc_alloc_aligned(sizes[i], 64));
        CHECK_INT((uintptr_t)p[i] % (i == 0 ? 64 : HUGE_PAGE), 0);
        memset(p[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        size_t wrong = 0;
        for (size_t k = 0; k < sizes[i]; k++) wrong += p[i][k] != i + 1;
        CHECK_INT(wrong, 0);
        nc_free(p[i]);
    }
    void *q = nc_alloc_aligned(HUGE_PAGE, 4 * (size_t)HUGE_PAGE);
    CHECK(q && (uintptr_t)q % (4 * (size_t)HUGE_PAGE) == 0);
    nc_free(q);
}

TEST(mem_pages_are_zero_and_their_own) {
    enum { HUGE_PAGE = 2 << 20 };
    static const size_t sizes[] = {0, 1, 4097, HUGE_PAGE, 3 * HUGE_PAGE + 5};
    uint64_t live = nc_mem_live();
    unsigned char *p[5];
    for (size_t i = 0; i < 5; i++) {
        size_t wrong = 0;
        REQUIRE(p[i] = nc_alloc_pages(sizes[i]));
        CHECK_INT((uintptr_t)p[i] % HUGE_PAGE, 0);
        for (size_t k = 0; k < sizes[i]; k++) wrong += p[i][k] != 0;
        CHECK_INT(wrong, 0);
        memset(p[i], (int)i + 1, sizes[i]);
    }
    CHECK_INT(nc_mem_live() - live, 5);
    for (size_t i = 0; i < 5; i++) {
        size_t wrong = 0;
        for (size_t k = 0; k < sizes[i]; k++) wrong += p[i][k] != i + 1;
        CHECK_INT(wrong, 0);
        nc_free_pages(p[i], sizes[i]);
    }
    nc_free_pages(NULL, 1);
    CHECK_INT(nc_mem_live(), live);
    volatile size_t huge = SIZE_MAX;
    CHECK(nc_alloc_pages(huge) == NULL && nc_alloc_pages(huge - HUGE_PAGE) == NULL);
    nc_mem_fail_at(1);
    CHECK(nc_alloc_pages(8) == NULL && nc_mem_fail_hit());
    nc_mem_fail_at(0);
    CHECK_INT(nc_mem_live(), live);
}

static void *fail_elsewhere(void *arg) {
    (void)arg;
    return nc_alloc(SIZE_MAX);
}

TEST(mem_counts_failures_of_its_thread) {
    uint64_t before = nc_mem_failures();
    CHECK(nc_alloc(SIZE_MAX) == NULL && nc_alloc_zero(SIZE_MAX, 2) == NULL && nc_alloc_aligned(SIZE_MAX, 64) == NULL);
    CHECK_INT(nc_mem_failures() - before, 3);
    pthread_t t;
    REQUIRE(pthread_create(&t, NULL, fail_elsewhere, NULL) == 0);
    pthread_join(t, NULL);
    CHECK_INT(nc_mem_failures() - before, 3);
}

/* A machine that overcommits would give the addresses and end the process when they are touched. */
TEST(mem_refuses_more_than_the_machine_has) {
    uint64_t most = nc_machine_memory("");
    if (most == 0) {
        nc_test_not_run("the system does not say how much memory there is");
        return;
    }
    CHECK(nc_alloc((size_t)most + 1) == NULL && nc_alloc_zero((size_t)most / 8 + 1, 8) == NULL);
}

TEST(mem_refuses_impossible_sizes) {
    uint64_t live = nc_mem_live();
    volatile size_t huge = SIZE_MAX;
    CHECK(nc_alloc(huge) == NULL);
    CHECK(nc_alloc_zero(huge / 2, 3) == NULL);
    CHECK(nc_alloc_aligned(huge - 8, 64) == NULL);
    char *p = nc_alloc(4);
    REQUIRE(p);
    memcpy(p, "abc", 4);
    CHECK(nc_realloc(p, huge) == NULL);
    CHECK_STR(p, "abc");
    nc_free(p);
    CHECK_INT(nc_mem_live(), live);
}

TEST(mem_fails_once_at_the_armed_allocation) {
    nc_mem_fail_at(3);
    void *a = nc_alloc(8), *b = nc_alloc_zero(1, 8);
    CHECK(a && b && !nc_mem_fail_hit());
    CHECK(nc_realloc(a, 64) == NULL && nc_mem_fail_hit());
    void *c = nc_alloc_aligned(8, 64);
    CHECK(c && nc_mem_fail_hit());
    nc_mem_fail_at(1);
    CHECK(!nc_mem_fail_hit());
    nc_mem_fail_at(0);
    void *d = nc_alloc(1);
    CHECK(d && !nc_mem_fail_hit());
    nc_free(a);
    nc_free(b);
    nc_free(c);
    nc_free(d);
}
