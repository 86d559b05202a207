/* base/inflate_test.c: members of each kind of block, which zlib made of texts that the tests make again, and damaged
 * ones. */
#include "base/inflate.h"
#include "tests/check.h"

static const uint8_t stored[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x03, 0x01, 0x08, 0x00, 0xf7, 0xff, 0x61,
    0x73, 0x20, 0x69, 0x74, 0x20, 0x69, 0x73, 0xb3, 0x24, 0x4e, 0x96, 0x08, 0x00, 0x00, 0x00,
};
static const uint8_t fixed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0x4c, 0x4a, 0x44,
    0x83, 0x3a, 0x0a, 0xc9, 0x29, 0x00, 0x3a, 0x0d, 0xa1, 0x83, 0x16, 0x00, 0x00, 0x00,
};
static const uint8_t dynamic[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xcb, 0xb1, 0x0d, 0x00, 0x31, 0x08, 0x03,
    0xc0, 0x59, 0x8d, 0x82, 0x1d, 0x14, 0x22, 0xc4, 0xfe, 0xcd, 0xff, 0x10, 0x29, 0xa9, 0x4f, 0x07, 0xd8, 0x62,
    0xdc, 0xf6, 0xd3, 0x2a, 0xd6, 0x46, 0xca, 0x2a, 0x43, 0x74, 0xa7, 0x22, 0xcb, 0x94, 0xd8, 0x3f, 0xa8, 0x8f,
    0xf7, 0x0d, 0x2e, 0x03, 0xa6, 0x4c, 0x99, 0xf2, 0xae, 0x7c, 0x91, 0xcc, 0xf0, 0x20, 0x84, 0x03, 0x00, 0x00,
};

enum { N_PATTERN = 900 };

static void pattern(char *out) {
    for (int i = 0; i < N_PATTERN; i++) out[i] = (char)('a' + i * i / 3 % 17);
}

static bool unpacks(const uint8_t *in, size_t n, const char *want, size_t n_want) {
    char out[1024];
    size_t made;
    return nc_gunzip(in, n, out, sizeof out, &made) && made == n_want && memcmp(out, want, made) == 0;
}

TEST(inflate_every_kind_of_block) {
    char text[N_PATTERN];
    pattern(text);
    CHECK(unpacks(stored, sizeof stored, "as it is", 8));
    CHECK(unpacks(fixed, sizeof fixed, "ababababababababab, cd", 22));
    CHECK(unpacks(dynamic, sizeof dynamic, text, sizeof text));
}

TEST(inflate_wants_room_for_all) {
    char out[N_PATTERN];
    size_t made;
    CHECK(nc_gunzip(dynamic, sizeof dynamic, out, N_PATTERN, &made));
    CHECK(!nc_gunzip(dynamic, sizeof dynamic, out, N_PATTERN - 1, &made));
    CHECK(!nc_gunzip(stored, sizeof stored, out, 0, &made));
}

/* Whatever byte is changed, and wherever it ends: no read or write outside, which the sanitizers would tell. */
TEST(inflate_takes_any_bytes) {
    uint8_t bytes[sizeof dynamic];
    char out[N_PATTERN];
    size_t made;
    int failed = 0;
    for (size_t n = 0; n < sizeof dynamic - 8; n++) CHECK(!nc_gunzip(dynamic, n, out, sizeof out, &made));
    for (size_t at = 0; at < sizeof dynamic; at++)
        for (int change = 1; change < 256; change += 31) {
            memcpy(bytes, dynamic, sizeof bytes);
            bytes[at] = (uint8_t)(bytes[at] ^ change);
            failed += !nc_gunzip(bytes, sizeof bytes, out, sizeof out, &made);
        }
    CHECK(failed > 100);
}
