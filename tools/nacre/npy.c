/* tools/nacre/npy.c: NumPy's .npy files, versions 1 to 3, little-endian, C order, numbers and bool. */
#include "cli.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *descr;
    nacre_type type;
    size_t bytes;
} kinds[] = {{"<f4", NACRE_FLOAT, 4},  {"<f8", NACRE_DOUBLE, 8}, {"<f2", NACRE_FLOAT16, 2}, {"|b1", NACRE_BOOL, 1},
             {"|u1", NACRE_UINT8, 1},  {"|i1", NACRE_INT8, 1},   {"<u2", NACRE_UINT16, 2},  {"<i2", NACRE_INT16, 2},
             {"<u4", NACRE_UINT32, 4}, {"<i4", NACRE_INT32, 4},  {"<u8", NACRE_UINT64, 8},  {"<i8", NACRE_INT64, 8}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, HEADER_MAX = 65536 };

static const char *find_key(const char *h, const char *key) {
    const char *p = strstr(h, key);
    return p ? p + strlen(key) : NULL;
}

static bool parse_shape(const char *h, int *rank, int64_t *dims) {
    const char *p = find_key(h, "'shape':");
    p = p ? strchr(p, '(') : NULL;
    *rank = 0;
    for (p = p ? p + 1 : ""; *p && *p != ')';) {
        if (!isdigit((unsigned char)*p)) {
            p++;
            continue;
        }
        if (*rank == NACRE_MAX_RANK) return false;
        char *end;
        dims[(*rank)++] = strtoll(p, &end, 10);
        p = end;
    }
    return *p == ')';
}

static int parse_kind(const char *h) {
    const char *p = find_key(h, "'descr':");
    p = p ? strchr(p, '\'') : NULL;
    for (int i = 0; p && i < N_KINDS; i++)
        if (strncmp(p + 1, kinds[i].descr, 3) == 0 && p[4] == '\'') return i;
    return -1;
}

static nacre_code parse_body(const char *path, const char *h, const unsigned char *data, size_t n, nacre_value **out,
                             nacre_error *err) {
    int rank, kind = parse_kind(h);
    int64_t dims[NACRE_MAX_RANK];
    if (kind < 0) return file_error(err, NACRE_TYPE, path, "its element type is not a little-endian number or bool");
    if (!parse_shape(h, &rank, dims)) return file_error(err, NACRE_BAD_MODEL, path, "its shape cannot be read");
    if (rank > 1 && strstr(h, "'fortran_order': True"))
        return file_error(err, NACRE_UNSUPPORTED, path, "Fortran order; save it in C order");
    nacre_value *v;
    nacre_code code = nacre_value_new_tensor(kinds[kind].type, rank, dims, &v, err);
    if (code != NACRE_OK) return code;
    size_t bytes = (size_t)nacre_value_count(v) * kinds[kind].bytes;
    if (bytes > n) {
        nacre_value_release(v);
        return file_error(err, NACRE_IO, path, "it ends too early");
    }
    if (bytes) memcpy(nacre_value_data(v), data, bytes);
    *out = v;
    return NACRE_OK;
}

nacre_code npy_parse(const char *path, const unsigned char *b, size_t n, nacre_value **out, nacre_error *err) {
    if (n < 12 || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3)
        return file_error(err, NACRE_BAD_MODEL, path, "not a .npy file");
    size_t start = b[6] == 1 ? 10 : 12;
    size_t len = (size_t)b[8] | (size_t)b[9] << 8;
    if (b[6] > 1) len |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (len > HEADER_MAX || len > n - start) return file_error(err, NACRE_BAD_MODEL, path, "its header is broken");
    char *h = calloc(len + 1, 1);
    if (!h) return file_error(err, NACRE_MEMORY, path, "out of memory");
    memcpy(h, b + start, len);
    nacre_code code = parse_body(path, h, b + start + len, n - start - len, out, err);
    free(h);
    return code;
}

nacre_code npy_write(const char *path, nacre_value *v, nacre_error *err) {
    int kind = 0;
    while (kind < N_KINDS && kinds[kind].type != nacre_value_type(v)) kind++;
    if (kind == N_KINDS || nacre_value_kind(v) != NACRE_KIND_TENSOR)
        return file_error(err, NACRE_UNSUPPORTED, path, "only numbers can be saved as .npy");
    char h[2048]; /* enough for any dims */
    int n = snprintf(h, sizeof h, "{'descr': '%s', 'fortran_order': False, 'shape': (", kinds[kind].descr);
    for (int d = 0; d < nacre_value_rank(v); d++)
        n += snprintf(h + n, sizeof h - (size_t)n, "%lld, ", (long long)nacre_value_dims(v)[d]);
    n += snprintf(h + n, sizeof h - (size_t)n, "), }");
    while ((10 + n + 1) % 64) h[n++] = ' ';
    h[n++] = '\n';
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    size_t bytes = (size_t)nacre_value_count(v) * kinds[kind].bytes;
    file_piece pieces[3] = {{head, 10}, {h, (size_t)n}, {nacre_value_data(v), bytes}};
    return file_write(path, pieces, 3, err);
}
