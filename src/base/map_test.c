/* base/map_test.c: many keys, odd keys, failure, and that the hash sees every byte at every alignment. */
#include "base/map.h"

#include "base/mem.h"
#include "tests/check.h"

TEST(map_holds_many) {
    nc_arena a = {0};
    nc_map m;
    nc_map_init(&m, &a);
    CHECK(nc_map_get(&m, "key0") == NULL);
    static int values[5000];
    for (int i = 0; i < 5000; i++) REQUIRE(nc_map_put(&m, nc_arena_printf(&a, "key%d", i), &values[i]));
    CHECK_INT(m.n, 5000);
    for (int i = 0; i < 5000; i++) CHECK(nc_map_get(&m, nc_arena_printf(&a, "key%d", i)) == &values[i]);
    CHECK(nc_map_get(&m, "key5000") == NULL);
    CHECK(nc_map_put(&m, "key7", &values[8]) && nc_map_get(&m, "key7") == &values[8]);
    CHECK_INT(m.n, 5000);
    nc_arena_release(&a);
}

TEST(map_takes_any_bytes) {
    nc_arena a = {0};
    nc_map m;
    nc_map_init(&m, &a);
    int x, y, z;
    CHECK(nc_map_put_bytes(&m, NULL, 0, &x));
    CHECK(nc_map_get(&m, "") == &x);
    CHECK(nc_map_put_bytes(&m, "a\0b", 3, &y) && nc_map_put_bytes(&m, "a\0c", 3, &z));
    CHECK(nc_map_get_bytes(&m, "a\0b", 3) == &y && nc_map_get_bytes(&m, "a\0c", 3) == &z);
    CHECK(nc_map_get(&m, "a") == NULL);
    nc_arena_release(&a);
}

TEST(map_survives_out_of_memory) {
    nc_arena a = {0};
    nc_map m;
    nc_map_init(&m, &a);
    int x;
    nc_mem_fail_at(1);
    CHECK(!nc_map_put(&m, "a", &x));
    nc_mem_fail_at(0);
    CHECK(nc_map_get(&m, "a") == NULL);
    CHECK(nc_map_put(&m, "a", &x) && nc_map_get(&m, "a") == &x);
    nc_arena_release(&a);
}

TEST(hash_ignores_alignment_and_sees_every_bit) {
    unsigned char bytes[80], moved[96];
    for (int i = 0; i < 80; i++) bytes[i] = (unsigned char)(i * 37 + 1);
    for (size_t n = 0; n <= 80; n++) {
        uint64_t h = nc_hash(bytes, n, 5);
        for (size_t shift = 0; shift < 9; shift++) {
            memcpy(moved + shift, bytes, n);
            CHECK(nc_hash(moved + shift, n, 5) == h);
        }
        CHECK(nc_hash(bytes, n, 6) != h);
        for (size_t bit = 0; bit < n * 8; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            CHECK(nc_hash(bytes, n, 5) != h);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
    CHECK(nc_hash(NULL, 0, 1) == nc_hash("", 0, 1));
}

TEST(hash_tells_lengths_of_zeros_apart) {
    static const unsigned char zeros[512];
    for (size_t n = 0; n < 512; n++) {
        for (size_t m = 0; m < n; m++) CHECK(nc_hash(zeros, n, 0) != nc_hash(zeros, m, 0));
    }
}

/* Low bits index tables: small integers must spread over them about evenly (mean 64 a bucket, sigma 8). */
TEST(hash_spreads_small_integers) {
    int buckets[1024] = {0};
    for (uint64_t i = 0; i < 65536; i++) buckets[nc_hash(&i, sizeof i, 0) & 1023]++;
    for (int i = 0; i < 1024; i++) CHECK(buckets[i] > 64 - 48 && buckets[i] < 64 + 48);
}
