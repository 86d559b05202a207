/* tools/nacre/rows.c: samples in files: NumPy's .npy and .npz, idx (the format of MNIST) and .csv, the last three also
 * under gzip. What a file is, its bytes tell. Any bytes are safe. */
#include "train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    unsigned char *p;
    size_t n;
} bytes;

/* ---- gzip ---- */

static unsigned le32(const unsigned char *p) {
    return (unsigned)p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16 | (unsigned)p[3] << 24;
}

static bool skip_text(const bytes *b, size_t *at) {
    while (*at < b->n && b->p[*at]) ++*at;
    return ++*at < b->n;
}

/* Where the deflated data begin; 0: broken. */
static size_t gzip_start(const bytes *b) {
    size_t at = 10;
    if (b->n < 18 || b->p[2] != 8) return 0;
    unsigned flags = b->p[3];
    if (flags & 4) at += 2 + ((size_t)b->p[10] | (size_t)b->p[11] << 8);
    if (at >= b->n || (flags & 8 && !skip_text(b, &at)) || (flags & 16 && !skip_text(b, &at))) return 0;
    if (flags & 2) at += 2;
    return at + 8 <= b->n ? at : 0;
}

/* One member; its end tells the size and the sum of what was packed. */
static nacre_code gunzip(const char *path, bytes *b, nacre_error *err) {
    size_t at = gzip_start(b), n = at ? le32(b->p + b->n - 4) : 0;
    if (!at || n / 1100 > b->n) return file_error(err, NACRE_BAD_MODEL, path, "the gzip file is broken or cut short");
    unsigned char *plain = malloc(n + 1);
    if (!plain) return file_error(err, NACRE_MEMORY, path, "out of memory");
    if (!inflate_bytes(b->p + at, b->n - at - 8, plain, n) || bytes_crc32(plain, n) != le32(b->p + b->n - 8)) {
        free(plain);
        return file_error(err, NACRE_BAD_MODEL, path, "the gzip file is broken or cut short");
    }
    free(b->p);
    *b = (bytes){plain, n};
    return NACRE_OK;
}

/* ---- idx ---- */

static const struct {
    nacre_type type;
    size_t bytes;
} idx_types[16] = {[8] = {NACRE_UINT8, 1},  [9] = {NACRE_INT8, 1},   [11] = {NACRE_INT16, 2},
                   [12] = {NACRE_INT32, 4}, [13] = {NACRE_FLOAT, 4}, [14] = {NACRE_DOUBLE, 8}};

static bool is_idx(const bytes *b) {
    return b->n >= 8 && !b->p[0] && !b->p[1] && b->p[2] < 16 && idx_types[b->p[2]].bytes && b->p[3] > 0;
}

/* Numbers in files are big-endian. */
static void turn(unsigned char *to, const unsigned char *from, int64_t n, size_t size) {
    for (int64_t i = 0; i < n; i++, to += size, from += size)
        for (size_t k = 0; k < size; k++) to[k] = from[size - 1 - k];
}

static nacre_code read_idx(const char *path, const bytes *b, nacre_value **out, nacre_error *err) {
    int rank = b->p[3];
    int64_t dims[NACRE_MAX_RANK];
    size_t size = idx_types[b->p[2]].bytes, head = 4 + 4 * (size_t)rank, count = 1;
    if (rank > NACRE_MAX_RANK || b->n < head) return file_error(err, NACRE_BAD_MODEL, path, "its header is broken");
    for (int d = 0; d < rank; d++) {
        const unsigned char *p = b->p + 4 + 4 * d;
        dims[d] = (int64_t)((unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3]);
        if (dims[d] && count > b->n / (size_t)dims[d])
            count = b->n + 1;
        else
            count *= (size_t)dims[d];
    }
    if (count > (b->n - head) / size) {
        char text[120];
        snprintf(text, sizeof text, "it is cut short: %zu bytes behind its header are too few", b->n - head);
        return file_error(err, NACRE_IO, path, text);
    }
    nacre_code code = nacre_value_new_tensor(idx_types[b->p[2]].type, rank, dims, out, err);
    if (code == NACRE_OK) turn(nacre_value_data(*out), b->p + head, (int64_t)count, size);
    return code;
}

/* ---- csv ---- */

typedef struct csv {
    const char *path, *at, *end;
    char split;
    int line, n_cols;
    csv_names names;
    double *v;
    size_t n, cap;
} csv;

static nacre_code bad_line(const csv *c, nacre_error *err, const char *text) {
    char all[240];
    snprintf(all, sizeof all, "line %d: %s", c->line, text);
    return file_error(err, NACRE_BAD_MODEL, c->path, all);
}

/* A field as it stands, without blanks and quotes; the place behind it. */
static const char *field(const csv *c, const char *p, const char **from, size_t *n) {
    const char *q = p;
    bool quoted = false;
    while (q < c->end && *q != '\n' && (quoted || *q != c->split)) quoted ^= *q++ == '"';
    const char *last = q;
    while (p < last && (*p == ' ' || *p == '"')) p++;
    while (last > p && (last[-1] == ' ' || last[-1] == '"' || last[-1] == '\r')) last--;
    *from = p, *n = (size_t)(last - p);
    return q;
}

static bool number_of(const char *s, size_t n, double *out) {
    char text[64], *end;
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, s, n), text[n] = 0;
    *out = strtod(text, &end);
    return !*end;
}

static bool push(csv *c, double x) {
    if (c->n == c->cap) {
        double *more = realloc(c->v, (c->cap = c->cap * 2 + 1024) * sizeof *more);
        if (!more) return false;
        c->v = more;
    }
    c->v[c->n++] = x;
    return true;
}

/* A first line that has no number is a heading. */
static bool read_heading(csv *c) {
    const char *from, *p = c->at;
    size_t n;
    double x;
    bool heading = true;
    for (c->n_cols = 0;; p++) {
        p = field(c, p, &from, &n);
        heading &= !number_of(from, n, &x);
        c->n_cols++;
        if (p >= c->end || *p == '\n') break;
    }
    if (!heading) return true;
    if (!(c->names.v = calloc((size_t)c->n_cols, sizeof *c->names.v))) return false;
    for (p = c->at, c->names.n = 0; c->names.n < c->n_cols; p++) {
        p = field(c, p, &from, &n);
        if (!(c->names.v[c->names.n++] = strndup(from, n))) return false;
    }
    c->at = p, c->line++;
    return true;
}

static nacre_code read_row(csv *c, nacre_error *err) {
    const char *from;
    size_t n;
    char text[160];
    for (int k = 0;; k++, c->at++) {
        double x;
        c->at = field(c, c->at, &from, &n);
        bool last = c->at >= c->end || *c->at == '\n';
        if (last ? k + 1 != c->n_cols : k + 1 >= c->n_cols) {
            snprintf(text, sizeof text, "expected %d columns, got %s%d", c->n_cols, last ? "" : "more than ", k + 1);
            return bad_line(c, err, text);
        }
        if (!number_of(from, n, &x)) {
            snprintf(text, sizeof text, "column %d: expected a number, got '%.*s'", k + 1, (int)(n < 40 ? n : 40),
                     from);
            return bad_line(c, err, text);
        }
        if (!push(c, x)) return file_error(err, NACRE_MEMORY, c->path, "out of memory");
        if (last) break;
    }
    if (c->at < c->end) c->at++;
    c->line++;
    return NACRE_OK;
}

static void skip_blank_lines(csv *c) {
    for (const char *p = c->at; p < c->end && (*p == '\n' || *p == '\r' || *p == ' '); p++)
        if (*p == '\n') c->at = p + 1, c->line++;
    const char *p = c->at;
    while (p < c->end && (*p == '\r' || *p == ' ')) p++;
    if (p == c->end) c->at = p;
}

/* The sign that parts the fields of the first line. */
static char split_of(const char *p, const char *end) {
    for (; p < end && *p != '\n'; p++)
        if (*p == ',' || *p == ';' || *p == '\t') return *p;
    return ',';
}

static nacre_code read_csv(const char *path, const bytes *b, csv_names *names, nacre_value **out, nacre_error *err) {
    csv c = {.path = path, .at = (const char *)b->p, .end = (const char *)b->p + b->n, .line = 1};
    nacre_code code = NACRE_OK;
    if (memchr(b->p, 0, b->n)) return file_error(err, NACRE_BAD_MODEL, path, "it is no .npy, .npz, idx or .csv file");
    skip_blank_lines(&c);
    c.split = split_of(c.at, c.end);
    if (!read_heading(&c)) code = file_error(err, NACRE_MEMORY, path, "out of memory");
    for (skip_blank_lines(&c); code == NACRE_OK && c.at < c.end; skip_blank_lines(&c)) code = read_row(&c, err);
    if (code == NACRE_OK && !c.n) code = file_error(err, NACRE_BAD_MODEL, path, "it has no rows");
    const int64_t dims[2] = {c.n_cols ? (int64_t)c.n / c.n_cols : 0, c.n_cols};
    if (code == NACRE_OK) code = nacre_value_new_tensor(NACRE_DOUBLE, 2, dims, out, err);
    if (code == NACRE_OK) memcpy(nacre_value_data(*out), c.v, c.n * sizeof *c.v);
    free(c.v);
    if (names && code == NACRE_OK)
        *names = c.names;
    else
        csv_names_release(&c.names);
    return code;
}

void csv_names_release(csv_names *names) {
    for (int i = 0; i < names->n; i++) free(names->v[i]);
    free(names->v);
    *names = (csv_names){NULL, 0};
}

/* ---- any ---- */

static bool starts(const char *path, const char *with, size_t n) {
    char head[8] = {0};
    FILE *f = fopen(path, "rb");
    bool same = f && fread(head, 1, n, f) == n && memcmp(head, with, n) == 0;
    if (f) fclose(f);
    return same;
}

bool rows_is_archive(const char *path) { return starts(path, "PK", 2); }

bool rows_is_table(const char *path) {
    size_t n = strlen(path);
    if (n > 3 && strcmp(path + n - 3, ".gz") == 0) n -= 3;
    return (n > 4 && strncmp(path + n - 4, ".csv", 4) == 0) || (n > 4 && strncmp(path + n - 4, ".tsv", 4) == 0);
}

nacre_code rows_read(const char *path, const char *member, csv_names *names, nacre_value **out, nacre_error *err) {
    bytes b = {NULL, 0};
    if (names) *names = (csv_names){NULL, 0};
    if (rows_is_archive(path)) return npz_read(path, member, out, err);
    nacre_code code = bytes_read(path, &b.p, &b.n, err);
    if (code == NACRE_OK && b.n > 2 && b.p[0] == 0x1f && b.p[1] == 0x8b) code = gunzip(path, &b, err);
    if (code != NACRE_OK) {
        free(b.p);
        return code;
    }
    if (b.n > 6 && memcmp(b.p, "\x93NUMPY", 6) == 0)
        code = npy_parse(path, b.p, b.n, out, err);
    else if (is_idx(&b))
        code = read_idx(path, &b, out, err);
    else
        code = read_csv(path, &b, names, out, err);
    free(b.p);
    return code;
}
