/* tools/nacre/npz.c: members of NumPy's .npz archives, which are zip files: stored or deflated, zip64 for large ones.
 * Reads the central directory; sums (CRC-32) are checked. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct zip {
    const char *path;
    const unsigned char *b;
    size_t n;
} zip;

typedef struct member {
    unsigned method, crc;
    size_t packed, bytes, header;
    char name[256];
} member;

static unsigned u16(const unsigned char *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }
static unsigned u32(const unsigned char *p) { return u16(p) | u16(p + 2) << 16; }
static size_t u64(const unsigned char *p) { return (size_t)u32(p) | (size_t)u32(p + 4) << 32; }

unsigned bytes_crc32(const unsigned char *p, size_t n) {
    unsigned c = ~0u;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    }
    return ~c;
}

/* Where the central directory starts and how many entries it has. */
static bool find_directory(const zip *z, size_t *at, size_t *entries) {
    for (size_t back = 22; back <= z->n && back < 22 + 65536; back++) {
        const unsigned char *e = z->b + z->n - back;
        if (memcmp(e, "PK\5\6", 4) != 0) continue;
        *entries = u16(e + 10), *at = u32(e + 16);
        if (*at != 0xffffffffu && *entries != 0xffff) return *at < z->n;
        if (back + 20 > z->n || memcmp(e - 20, "PK\6\7", 4) != 0) return false;
        size_t end64 = u64(e - 20 + 8);
        if (end64 > z->n || z->n - end64 < 56 || memcmp(z->b + end64, "PK\6\6", 4) != 0) return false;
        *entries = u64(z->b + end64 + 32), *at = u64(z->b + end64 + 48);
        return *at < z->n;
    }
    return false;
}

/* The zip64 extra field holds those of size, packed size and offset that did not fit, in this order. */
static void widen(member *m, const unsigned char *x, size_t n) {
    while (n >= 4) {
        size_t len = u16(x + 2);
        if (len > n - 4) return;
        if (u16(x) == 1) {
            const unsigned char *p = x + 4, *end = p + len;
            size_t *wide[] = {&m->bytes, &m->packed, &m->header};
            for (int i = 0; i < 3; i++)
                if (*wide[i] == 0xffffffffu && end - p >= 8) *wide[i] = u64(p), p += 8;
            return;
        }
        x += 4 + len, n -= 4 + len;
    }
}

static bool next_member(const zip *z, size_t *at, member *m) {
    if (*at > z->n || z->n - *at < 46) return false;
    const unsigned char *e = z->b + *at;
    size_t n_name = u16(e + 28), n_extra = u16(e + 30), n_note = u16(e + 32);
    if (memcmp(e, "PK\1\2", 4) != 0 || z->n - *at - 46 < n_name + n_extra + n_note) return false;
    *m = (member){
        .method = u16(e + 10), .crc = u32(e + 16), .packed = u32(e + 20), .bytes = u32(e + 24), .header = u32(e + 42)};
    snprintf(m->name, sizeof m->name, "%.*s", (int)n_name, (const char *)e + 46);
    widen(m, e + 46 + n_name, n_extra);
    *at += 46 + n_name + n_extra + n_note;
    return true;
}

static nacre_code read_member(const zip *z, const member *m, nacre_value **out, nacre_error *err) {
    if (m->header > z->n || z->n - m->header < 30)
        return file_error(err, NACRE_BAD_MODEL, z->path, "the archive is broken");
    const unsigned char *h = z->b + m->header;
    size_t start = m->header + 30 + u16(h + 26) + u16(h + 28);
    if (memcmp(h, "PK\3\4", 4) != 0 || start > z->n || m->packed > z->n - start)
        return file_error(err, NACRE_BAD_MODEL, z->path, "the archive is broken");
    if (m->method != 0 && m->method != 8)
        return file_error(err, NACRE_UNSUPPORTED, z->path, "a member is neither stored nor deflated");
    if ((m->method == 0 && m->packed != m->bytes) || m->bytes / 1100 > m->packed)
        return file_error(err, NACRE_BAD_MODEL, z->path, "the sizes of a member contradict each other");
    const unsigned char *data = z->b + start;
    unsigned char *plain = m->method ? malloc(m->bytes + 1) : NULL;
    if (m->method && !plain) return file_error(err, NACRE_MEMORY, z->path, "out of memory");
    nacre_code code = NACRE_OK;
    if (plain && !inflate_bytes(data, m->packed, plain, m->bytes))
        code = file_error(err, NACRE_BAD_MODEL, z->path, "the deflated data are broken");
    if (plain) data = plain;
    if (code == NACRE_OK && bytes_crc32(data, m->bytes) != m->crc)
        code = file_error(err, NACRE_BAD_MODEL, z->path, "a member's checksum is wrong");
    if (code == NACRE_OK) code = npy_parse(z->path, data, m->bytes, out, err);
    free(plain);
    return code;
}

static nacre_code read_named(const zip *z, const char *name, nacre_value **out, nacre_error *err) {
    size_t at, entries, n = strlen(name);
    member m;
    if (z->n < 22 || !find_directory(z, &at, &entries))
        return file_error(err, NACRE_BAD_MODEL, z->path, "not a .npz archive");
    char all[300] = "";
    for (size_t i = 0; i < entries && next_member(z, &at, &m); i++) {
        if (strncmp(m.name, name, n) == 0 && (!m.name[n] || strcmp(m.name + n, ".npy") == 0))
            return read_member(z, &m, out, err);
        size_t used = strlen(all);
        if (used + strlen(m.name) + 3 < sizeof all)
            snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", m.name);
    }
    char text[420];
    snprintf(text, sizeof text, "it has no member '%.80s'; there are: %s", name, all);
    return file_error(err, NACRE_ARGUMENT, z->path, text);
}

nacre_code npz_read(const char *path, const char *name, nacre_value **out, nacre_error *err) {
    unsigned char *b;
    zip z = {.path = path};
    nacre_code code = bytes_read(path, &b, &z.n, err);
    if (code != NACRE_OK) return code;
    z.b = b;
    code = read_named(&z, name, out, err);
    free(b);
    return code;
}
