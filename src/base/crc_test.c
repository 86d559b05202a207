/* base/crc_test.c: the published check value and vectors, and that cutting the bytes anywhere changes nothing. */
#include "base/crc.h"

#include "tests/check.h"

TEST(crc32c_known_values) {
    uint8_t b[32];
    CHECK_INT(nc_crc32c(0, "123456789", 9), 0xE3069283);
    CHECK_INT(nc_crc32c(0, "", 0), 0);
    memset(b, 0, sizeof b); /* RFC 3720, B.4 */
    CHECK_INT(nc_crc32c(0, b, 32), 0x8A9136AA);
    memset(b, 255, sizeof b);
    CHECK_INT(nc_crc32c(0, b, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++) b[i] = (uint8_t)i;
    CHECK_INT(nc_crc32c(0, b, 32), 0x46DD794E);
}

TEST(crc32c_in_pieces) {
    static uint8_t b[6001];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 37 >> 2);
    uint32_t bit_by_bit = 0;
    for (size_t i = 0; i < sizeof b; i++) bit_by_bit = nc_crc32c(bit_by_bit, b + i, 1);
    CHECK_INT(nc_crc32c(0, b, sizeof b), bit_by_bit);
    for (size_t cut = 0; cut <= sizeof b; cut += 701)
        CHECK_INT(nc_crc32c(nc_crc32c(0, b, cut), b + cut, sizeof b - cut), bit_by_bit);
}
