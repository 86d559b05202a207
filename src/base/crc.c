/* base/crc.c: eight bytes a step, over eight tables of 1 KiB: table k holds the CRC of a byte with k zeros behind it.
 * They are worked out at every call, where data are long; short ones go bit by bit. */
#include "base/crc.h"

#define POLYNOMIAL 0x82F63B78u /* 0x1EDC6F41, bits reversed */

static void fill(uint32_t t[8][256]) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++) c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
        t[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
}

static uint32_t word(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t by_tables(uint32_t c, const uint8_t *p, size_t n) {
    uint32_t t[8][256];
    fill(t);
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = word(p) ^ c, b = word(p + 4);
        c = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^ t[3][b & 255] ^
            t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    for (; n; p++, n--) c = c >> 8 ^ t[0][(c ^ *p) & 255];
    return c;
}

static uint32_t by_bits(uint32_t c, const uint8_t *p, size_t n) {
    for (; n; p++, n--) {
        c ^= *p;
        for (int i = 0; i < 8; i++) c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
    }
    return c;
}

uint32_t nc_crc32c(uint32_t before, const void *p, size_t bytes) {
    return ~(bytes >= 2048 ? by_tables(~before, p, bytes) : by_bits(~before, p, bytes));
}
