/* onnx/load_external.c: tensor data in files beside the model, mapped once per file. A location must be a relative
 * path that stays inside the model's folder, as written and after links are followed; a model file that is itself a
 * link may also have its data where it really lies (caches keep both that way). Offsets and lengths are checked
 * against the file. */
#include "onnx/loader.h"

#include "base/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct place {
    const char *location;
    uint64_t offset, length;
    bool has_length;
} place;

static bool parse_u64(nc_bytes b, uint64_t *out) {
    uint64_t u = 0;
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] < '0' || b.p[i] > '9') return false;
        if (__builtin_mul_overflow(u, 10u, &u) || __builtin_add_overflow(u, (uint64_t)(b.p[i] - '0'), &u)) return false;
    }
    *out = u;
    return b.n > 0;
}

static bool is(nc_bytes b, const char *s) { return b.n == strlen(s) && memcmp(b.p, s, b.n) == 0; }

static nc_code read_place(nc_loader *l, nc_bytes b, const char *what, place *p) {
    nc_wire r;
    nc_field f;
    nc_wire_init(&r, b);
    while (nc_wire_each(&r, TensorProto_external_data, &f)) {
        nc_pb_entry e;
        NC_TRY(nc_pb_read_entry(l->w, f.b, &e));
        bool ok = true;
        if (is(e.key, "location"))
            NC_TRY(nc_load_name(l, e.value, "external_data location", &p->location));
        else if (is(e.key, "offset"))
            ok = parse_u64(e.value, &p->offset);
        else if (is(e.key, "length"))
            p->has_length = ok = parse_u64(e.value, &p->length);
        if (!ok) NC_FAIL(l->w, NC_E_IO, "tensor '%.200s': external_data offset or length is not a number", what);
    }
    if (!p->location || !*p->location)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.200s': external_data has no location", what);
    return NC_OK;
}

static bool stays_inside(const char *location) {
    if (*location == '/') return false;
    for (const char *s = location; s; s = strchr(s, '/')) {
        if (*s == '/') s++;
        if (strncmp(s, "..", 2) == 0 && (s[2] == '/' || s[2] == 0)) return false;
    }
    return true;
}

static bool lies_in(const char *path, const char *folder) {
    char real[PATH_MAX];
    if (!folder || !realpath(folder, real)) return false;
    size_t n = strlen(real);
    if (n == 1) return true; /* "/" */
    return strncmp(path, real, n) == 0 && path[n] == '/';
}

static void unmap(nc_buffer *b) {
    nc_mapping m = {.p = b->ptr, .bytes = b->bytes, .copied = b->private};
    nc_file_unmap(&m);
}

nc_code nc_load_map(nc_work *w, const char *path, nc_buffer **out) {
    nc_mapping map;
    NC_TRY(nc_file_map(w, path, &map));
    *out = nc_buffer_wrap((void *)(uintptr_t)map.p, map.bytes, unmap, NULL);
    if (!*out) nc_file_unmap(&map);
    NC_NEED(w, *out);
    (*out)->file = !map.copied, (*out)->private = map.copied, (*out)->file_id = map.id;
    return NC_OK;
}

/* Begins with the words of onnxruntime, which scripts look for. */
static nc_code leaves(nc_loader *l, const char *what, const char *location) {
    NC_FAIL(l->w, NC_E_IO,
            "External data path validation failed: tensor '%.100s': external data '%.200s' leaves the model's folder",
            what, location);
}

static nc_code map_file(nc_loader *l, const char *what, const char *location, nc_buffer **out) {
    char real[PATH_MAX];
    struct stat st;
    nc_buffer *b;
    char *path = nc_arena_printf(&l->w->scratch, "%s/%s", l->folder, location);
    NC_NEED(l->w, path);
    if (!realpath(path, real) || stat(real, &st) != 0)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.100s': external data file '%.200s' not found", what, path);
    if (!lies_in(real, l->folder) && !lies_in(real, l->real_folder)) return leaves(l, what, location);
    if (!S_ISREG(st.st_mode))
        NC_FAIL(l->w, NC_E_IO, "tensor '%.100s': external data '%.200s' is not a file", what, location);
    NC_TRY(nc_load_map(l->w, real, &b));
    if (!NC_PUSH(&l->m->arena, l->m->buffers, b)) {
        nc_buffer_unref(b);
        NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    }
    if (!nc_map_put(&l->files, location, b)) NC_FAIL(l->w, NC_E_MEMORY, "out of memory");
    *out = b;
    return NC_OK;
}

nc_code nc_load_external(nc_loader *l, nc_bytes b, const char *what, nc_literal *lit) {
    place p = {0};
    NC_TRY(read_place(l, b, what, &p));
    nc_buffer *file = nc_map_get(&l->files, p.location);
    if (!l->folder && !file)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.200s' has external data, but the model came without a folder", what);
    if (!file && !stays_inside(p.location)) return leaves(l, what, p.location);
    if (!file) NC_TRY(map_file(l, what, p.location, &file));
    if (p.offset > file->bytes)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.100s': offset %llu is beyond the %zu bytes of '%.200s'", what,
                (unsigned long long)p.offset, file->bytes, p.location);
    uint64_t rest = file->bytes - p.offset, length = p.has_length ? p.length : rest;
    if (length > rest)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.100s': %llu bytes at %llu are not in '%.200s' of %zu bytes", what,
                (unsigned long long)length, (unsigned long long)p.offset, p.location, file->bytes);
    if (length != lit->bytes)
        NC_FAIL(l->w, NC_E_IO, "tensor '%.200s': external data has %llu bytes, the dims need %zu", what,
                (unsigned long long)length, lit->bytes);
    lit->keeps = file;
    lit->data = lit->bytes ? (const uint8_t *)file->ptr + p.offset : NULL;
    return NC_OK;
}
