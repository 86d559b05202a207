/* onnx/flat.c: flatbuffers, read with every step checked.
 *
 * A file is the offset of its root table and four letters. A table begins with the distance back to its vtable, which
 * holds its own length, the table's, and where in the table each field lies (0: absent). Strings, vectors and other
 * tables are reached by offsets that count forward from where they stand. All numbers are little-endian. */
#include "onnx/flat.h"

#include <string.h>

static uint64_t number(const uint8_t *p, int bytes) {
    uint64_t u = 0;
    for (int i = 0; i < bytes; i++) u |= (uint64_t)p[i] << 8 * i;
    return u;
}

static nc_code bad(nc_work *w, const char *name, size_t at, const char *what) {
    return nc_fail(w, NC_E_BAD_MODEL, "flatbuffer: %s, at byte %zu, %s", name, at, what);
}

/* [at, at + n) lies in the file. */
static bool fits(nc_bytes file, size_t at, size_t n) { return at <= file.n && n <= file.n - at; }

static nc_code open_table(nc_work *w, nc_bytes file, size_t at, const char *name, nc_flat_table *out) {
    if (!fits(file, at, 4)) return bad(w, name, at, "lies outside the file");
    int64_t vtable = (int64_t)at - (int32_t)number(file.p + at, 4);
    if (vtable < 0 || !fits(file, (size_t)vtable, 4)) return bad(w, name, at, "has its vtable outside the file");
    size_t bytes_vtable = number(file.p + vtable, 2), bytes = number(file.p + vtable + 2, 2);
    if (bytes_vtable < 4 || bytes_vtable % 2 || !fits(file, (size_t)vtable, bytes_vtable))
        return bad(w, name, at, "has a vtable of a wrong length");
    if (bytes < 4 || !fits(file, at, bytes)) return bad(w, name, at, "is longer than the file");
    *out = (nc_flat_table){file, at, (size_t)vtable, bytes, bytes_vtable};
    return NC_OK;
}

bool nc_flat_is(nc_bytes file, const char *identifier) { return file.n >= 8 && memcmp(file.p + 4, identifier, 4) == 0; }

nc_code nc_flat_root(nc_work *w, nc_bytes file, const char *identifier, nc_flat_table *out) {
    if (!nc_flat_is(file, identifier))
        NC_FAIL(w, NC_E_BAD_MODEL, "flatbuffer: the file does not begin as one of kind '%s'", identifier);
    return open_table(w, file, number(file.p, 4), "the root", out);
}

/* *at: where the field's `bytes` bytes lie; 0: absent, since no field lies at the file's start. */
static nc_code find(nc_work *w, const nc_flat_table *t, nc_flat_field f, int bytes, size_t *at) {
    size_t entry = 4 + 2 * (size_t)f.id;
    size_t offset = entry + 2 <= t->bytes_vtable ? number(t->file.p + t->vtable + entry, 2) : 0;
    if (offset && (offset < 4 || offset + (size_t)bytes > t->bytes))
        return bad(w, f.name, t->at, "lies outside its table");
    *at = offset ? t->at + offset : 0;
    return NC_OK;
}

static nc_code scalar(nc_work *w, const nc_flat_table *t, nc_flat_field f, int bytes, bool *has, uint64_t *out) {
    size_t at;
    NC_TRY(find(w, t, f, bytes, &at));
    *has = at != 0;
    if (at) *out = number(t->file.p + at, bytes);
    return NC_OK;
}

nc_code nc_flat_u8(nc_work *w, const nc_flat_table *t, nc_flat_field f, uint8_t *out) {
    uint64_t u;
    bool has;
    NC_TRY(scalar(w, t, f, 1, &has, &u));
    if (has) *out = (uint8_t)u;
    return NC_OK;
}

nc_code nc_flat_bool(nc_work *w, const nc_flat_table *t, nc_flat_field f, bool *out) {
    uint8_t u = *out;
    NC_TRY(nc_flat_u8(w, t, f, &u));
    *out = u != 0;
    return NC_OK;
}

nc_code nc_flat_i32(nc_work *w, const nc_flat_table *t, nc_flat_field f, int32_t *out) {
    uint64_t u;
    bool has;
    NC_TRY(scalar(w, t, f, 4, &has, &u));
    if (has) *out = (int32_t)u;
    return NC_OK;
}

nc_code nc_flat_i64(nc_work *w, const nc_flat_table *t, nc_flat_field f, int64_t *out) {
    uint64_t u;
    bool has;
    NC_TRY(scalar(w, t, f, 8, &has, &u));
    if (has) *out = (int64_t)u;
    return NC_OK;
}

nc_code nc_flat_f32(nc_work *w, const nc_flat_table *t, nc_flat_field f, float *out) {
    uint64_t u;
    bool has;
    NC_TRY(scalar(w, t, f, 4, &has, &u));
    uint32_t bits = has ? (uint32_t)u : 0;
    if (has) memcpy(out, &bits, 4);
    return NC_OK;
}

/* Where the offset of a field points; 0: the field is absent. */
static nc_code follow(nc_work *w, const nc_flat_table *t, nc_flat_field f, size_t *out) {
    size_t at;
    NC_TRY(find(w, t, f, 4, &at));
    *out = at ? at + number(t->file.p + at, 4) : 0;
    return NC_OK;
}

nc_code nc_flat_sub(nc_work *w, const nc_flat_table *t, nc_flat_field f, bool *has, nc_flat_table *out) {
    size_t at;
    NC_TRY(follow(w, t, f, &at));
    *has = at != 0;
    return at ? open_table(w, t->file, at, f.name, out) : NC_OK;
}

static nc_code open_vector(nc_work *w, nc_bytes file, size_t at, const char *name, size_t bytes_elem,
                           nc_flat_vector *out) {
    if (!fits(file, at, 4)) return bad(w, name, at, "lies outside the file");
    size_t n = number(file.p + at, 4);
    if (n > (file.n - at - 4) / bytes_elem) return bad(w, name, at, "is longer than the file");
    *out = (nc_flat_vector){file, at + 4, n, name};
    return NC_OK;
}

nc_code nc_flat_list(nc_work *w, const nc_flat_table *t, nc_flat_field f, size_t bytes_elem, nc_flat_vector *out) {
    size_t at;
    NC_TRY(follow(w, t, f, &at));
    if (at) return open_vector(w, t->file, at, f.name, bytes_elem, out);
    *out = (nc_flat_vector){.file = t->file, .name = f.name};
    return NC_OK;
}

static nc_code open_string(nc_work *w, nc_bytes file, size_t at, const char *name, nc_bytes *out) {
    nc_flat_vector v;
    NC_TRY(open_vector(w, file, at, name, 1, &v));
    if (!fits(file, v.at, v.n + 1) || file.p[v.at + v.n] != 0) return bad(w, name, at, "is a string without its end");
    *out = (nc_bytes){file.p + v.at, v.n};
    return NC_OK;
}

nc_code nc_flat_string(nc_work *w, const nc_flat_table *t, nc_flat_field f, nc_bytes *out) {
    size_t at;
    NC_TRY(follow(w, t, f, &at));
    if (at) return open_string(w, t->file, at, f.name, out);
    *out = (nc_bytes){0};
    return NC_OK;
}

static size_t element(const nc_flat_vector *v, size_t i) {
    return v->at + 4 * i + number(v->file.p + v->at + 4 * i, 4);
}

nc_code nc_flat_list_table(nc_work *w, const nc_flat_vector *v, size_t i, nc_flat_table *out) {
    return open_table(w, v->file, element(v, i), v->name, out);
}

nc_code nc_flat_list_string(nc_work *w, const nc_flat_vector *v, size_t i, nc_bytes *out) {
    return open_string(w, v->file, element(v, i), v->name, out);
}

int64_t nc_flat_list_i64(const nc_flat_vector *v, size_t i) { return (int64_t)number(v->file.p + v->at + 8 * i, 8); }

float nc_flat_list_f32(const nc_flat_vector *v, size_t i) {
    uint32_t bits = (uint32_t)number(v->file.p + v->at + 4 * i, 4);
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
