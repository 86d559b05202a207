/* onnx/load_extra.c: what a message says beyond what the graph models, kept as its bytes so that saving gives it back:
 * documentation, metadata, quantization annotations, training information, fields of formats newer than this. Only
 * syntax is checked here, and that has been done by who read the message. */
#include "onnx/loader.h"

#include <string.h>

/* A random id travels in nc_node. */
static bool is_random_id(const nc_field *f, uint64_t known) {
    static const char key[] = NC_PB_RANDOM_KEY;
    nc_wire r;
    nc_field e;
    if (!(known & NC_EXTRA_OF_NODE) || f->number != NodeProto_metadata_props) return false;
    nc_wire_init(&r, f->b);
    return nc_wire_each(&r, StringStringEntryProto_key, &e) && e.b.n == sizeof key - 1 &&
           memcmp(e.b.p, key, e.b.n) == 0;
}

/* Bytes that are kept; copied to `to` unless that is NULL. */
static size_t gather(nc_bytes b, uint64_t known, char *to) {
    nc_wire r;
    nc_field f;
    size_t n = 0;
    nc_wire_init(&r, b);
    for (const uint8_t *start = r.p; nc_wire_next(&r, &f); start = r.p) {
        if ((f.number < 64 && (known >> f.number & 1)) || is_random_id(&f, known)) continue;
        if (to) memcpy(to + n, start, (size_t)(r.p - start));
        n += (size_t)(r.p - start);
    }
    return n;
}

nc_code nc_load_extra(nc_loader *l, nc_bytes b, uint64_t known, nc_str *out) {
    size_t n = gather(b, known, NULL);
    *out = (nc_str){NULL, 0};
    if (!n) return NC_OK;
    NC_TRY(nc_load_room(l, n));
    char *p = nc_arena_alloc(&l->m->arena, n + 1);
    NC_NEED(l->w, p);
    *out = (nc_str){p, gather(b, known, p)};
    return NC_OK;
}
