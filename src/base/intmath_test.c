/* base/intmath_test.c: the edges of whole-number arithmetic: zero, one, exactly a multiple, one more. */
#include "base/intmath.h"

#include "tests/check.h"

TEST(intmath_smaller_and_larger) {
    CHECK(nc_min64(-3, 2) == -3 && nc_min64(2, -3) == -3 && nc_max64(-3, 2) == 2 && nc_max64(2, -3) == 2);
    CHECK(nc_min64(INT64_MIN, INT64_MAX) == INT64_MIN && nc_max64(INT64_MIN, INT64_MAX) == INT64_MAX);
    CHECK(nc_min_size(SIZE_MAX, 1) == 1 && nc_max_size(SIZE_MAX, 1) == SIZE_MAX);
}

TEST(intmath_pieces_cover_the_whole) {
    for (int64_t a = 0; a < 40; a++)
        for (int64_t b = 1; b < 12; b++) {
            int64_t n = nc_ceil_div(a, b);
            CHECK(n * b >= a && (n - 1) * b < a);
            CHECK(nc_round_up(a, b) == n * b && nc_round_up_size((size_t)a, (size_t)b) == (size_t)(n * b));
        }
}

TEST(intmath_align64) {
    static char block[192];
    CHECK(nc_align64(0) == 0 && nc_align64(1) == 64 && nc_align64(64) == 64 && nc_align64(65) == 128);
    for (int i = 0; i < 64; i++) {
        char *p = nc_align64_pointer(block + i);
        CHECK((uintptr_t)p % 64 == 0 && p >= block + i && p - (block + i) < 64);
    }
}
