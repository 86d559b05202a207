/* kernels/cpu/random/mt19937_test.c: flags as numpy 2 draws them, past the first refill of 624 words. */
#include "kernels/cpu/random/mt19937.h"
#include "tests/check.h"

enum { N_FLAGS = 1000 };

static uint32_t bits(const uint8_t *flags) {
    uint32_t b = 0;
    for (int i = 0; i < 32; i++) b = b << 1 | flags[i];
    return b;
}

TEST(mt19937_draws_as_numpy) {
    static const struct {
        uint32_t seed, first, last;
        int kept;
    } rows[] = {{0, 0xf5bc7d59, 0x6e9fb46d, 483}, {5489, 0xd9da7bea, 0x1dc9e5f9, 488}};
    for (int r = 0; r < 2; r++) {
        uint8_t mask[N_FLAGS];
        int kept = 0;
        nck_numpy_keep(rows[r].seed, N_FLAGS, 0.5, mask);
        for (int i = 0; i < N_FLAGS; i++) kept += mask[i];
        CHECK_INT(kept, rows[r].kept);
        CHECK_INT(bits(mask), rows[r].first);
        CHECK_INT(bits(mask + N_FLAGS - 32), rows[r].last);
    }
}

TEST(mt19937_ratio_ends) {
    uint8_t mask[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    nck_numpy_keep(1, 0, 0.5, mask);
    CHECK_INT(mask[0], 7);
    nck_numpy_keep(1, 7, 0, mask);
    for (int i = 0; i < 7; i++) CHECK_INT(mask[i], 1);
    nck_numpy_keep(1, 7, 1, mask);
    for (int i = 0; i < 7; i++) CHECK_INT(mask[i], 0);
    CHECK_INT(mask[7], 7);
}
