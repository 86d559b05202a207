/* base/arena_test.c: alignment, zeroing after reuse, steady state without allocation, failure at every allocation. */
#include "base/arena.h"

#include "base/mem.h"
#include "tests/check.h"

static const size_t sizes[] = {0, 1, 15, 16, 17, 4000, 3999, 100000, 5, 70001, 0, 31};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static bool fill(nc_arena *a) {
    unsigned char *blocks[N_SIZES];
    for (size_t i = 0; i < N_SIZES; i++) {
        blocks[i] = nc_arena_alloc(a, sizes[i]);
        if (blocks[i] == NULL) return false;
        CHECK_INT((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++) {
            if (blocks[i][j] != 0) nc_test_failed(__FILE__, __LINE__, "byte %zu of %zu is not zero", j, sizes[i]);
            blocks[i][j] = (unsigned char)(i + 1);
        }
    }
    for (size_t i = 0; i < N_SIZES; i++) {
        for (size_t j = 0; j < sizes[i]; j++) CHECK_INT(blocks[i][j], (unsigned char)(i + 1));
        for (size_t k = 0; k < i; k++) CHECK(blocks[i] != blocks[k]);
    }
    return true;
}

TEST(arena_reset_keeps_memory) {
    uint64_t live = nc_mem_live();
    nc_arena a = {0};
    CHECK(fill(&a));
    size_t total = a.total;
    uint64_t count = nc_mem_count();
    for (int i = 0; i < 3; i++) {
        nc_arena_reset(&a);
        CHECK(fill(&a));
    }
    CHECK_INT(nc_mem_count(), count);
    CHECK_INT(a.total, total);
    nc_arena_reset(&a);
    CHECK(nc_arena_alloc(&a, 200000) != NULL); /* no spare chunk fits: a new one goes between */
    CHECK(fill(&a));
    nc_arena_release(&a);
    nc_arena_release(&a);
    CHECK_INT(nc_mem_live(), live);
}

TEST(arena_goes_back_to_a_mark) {
    nc_arena a = {0};
    nc_arena_mark empty = nc_arena_here(&a);
    CHECK(fill(&a));
    nc_arena_back(&a, empty);
    char *kept = nc_arena_str(&a, "kept");
    nc_arena_mark mark = nc_arena_here(&a);
    CHECK(fill(&a));
    uint64_t count = nc_mem_count();
    for (int i = 0; i < 3; i++) {
        nc_arena_back(&a, mark);
        CHECK(fill(&a));
    }
    CHECK_INT(nc_mem_count(), count);
    CHECK_STR(kept, "kept");
    nc_arena_release(&a);
}

/* Large blocks, and all of a large arena, begin with a huge page: a fault for 2 MiB instead of 512. */
TEST(arena_takes_huge_pages_for_much) {
    enum { HUGE_PAGE = 2 << 20 };
    nc_arena a = {0};
    CHECK((uintptr_t)nc_arena_alloc(&a, 5 << 20) % HUGE_PAGE < 64);
    for (int i = 0; i < 3; i++) CHECK(nc_arena_alloc(&a, 5 << 20) != NULL);
    CHECK(a.total >= 16 << 20 && (uintptr_t)nc_arena_alloc(&a, 1 << 20) % HUGE_PAGE < 64);
    nc_arena_release(&a);
}

TEST(arena_fails_cleanly) {
    uint64_t live = nc_mem_live();
    bool hit = true;
    for (uint64_t n = 1; hit; n++) {
        nc_arena a;
        nc_arena_init(&a);
        nc_mem_fail_at(n);
        bool done = fill(&a);
        hit = nc_mem_fail_hit();
        nc_mem_fail_at(0);
        CHECK(done == !hit);
        CHECK(fill(&a)); /* still usable */
        nc_arena_release(&a);
    }
    CHECK_INT(nc_mem_live(), live);
}

TEST(arena_refuses_overflow) {
    nc_arena a = {0};
    CHECK(nc_arena_array(&a, SIZE_MAX / 2, 4) == NULL);
    CHECK(nc_arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK(nc_arena_alloc(&a, PTRDIFF_MAX - 20) == NULL);
    CHECK(nc_arena_strn(&a, "", SIZE_MAX) == NULL);
    CHECK(nc_arena_array(&a, 0, SIZE_MAX) != NULL);
    nc_arena_release(&a);
}

TEST(arena_copies_text) {
    nc_arena a = {0};
    CHECK(nc_arena_str(&a, NULL) == NULL);
    CHECK_STR(nc_arena_str(&a, ""), "");
    CHECK_STR(nc_arena_str(&a, "abc"), "abc");
    CHECK_STR(nc_arena_strn(&a, "abcdef", 4), "abcd");
    CHECK_STR(nc_arena_strn(&a, NULL, 0), "");
    CHECK(nc_arena_copy(&a, NULL, 0) != NULL);
    int numbers[3] = {1, 2, 3}, *copy = nc_arena_copy(&a, numbers, sizeof numbers);
    CHECK(copy && copy != numbers && memcmp(copy, numbers, sizeof numbers) == 0);
    CHECK_STR(nc_arena_printf(&a, "%s-%05d", "x", 42), "x-00042");
    char *wide = nc_arena_printf(&a, "%*d", 9000, 7);
    CHECK(wide && strlen(wide) == 9000 && wide[8999] == '7');
    nc_arena_release(&a);
}

TEST(arena_vectors_grow) {
    nc_arena a = {0};
    NC_VEC(const char *) names = {0};
    NC_VEC(short) numbers = {0};
    for (int i = 0; i < 1000; i++) {
        CHECK(NC_PUSH(&a, names, "x"));
        CHECK(NC_PUSH(&a, numbers, (short)i));
    }
    CHECK_INT(names.n, 1000);
    for (int i = 0; i < 1000; i++) CHECK(names.v[i][0] == 'x' && numbers.v[i] == i);
    nc_arena empty = {0};
    NC_VEC(int) none = {0};
    nc_mem_fail_at(1);
    CHECK(!NC_PUSH(&empty, none, 1));
    nc_mem_fail_at(0);
    CHECK(none.n == 0 && none.cap == 0 && none.v == NULL);
    nc_arena_release(&a);
}
