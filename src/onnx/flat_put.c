/* onnx/flat_put.c: flatbuffers, written forward: a vtable, its table, then what the table's offsets point to. Vtables
 * are not shared. The file may not pass 2 GiB, where offsets of other readers end: the caller looks at its length. */
#include "onnx/flat.h"

#include <string.h>

static void put(nc_text *out, uint64_t u, int bytes) {
    char b[8];
    for (int i = 0; i < bytes; i++) b[i] = (char)(u >> 8 * i);
    nc_text_add_n(out, b, (size_t)bytes);
}

/* Zeros until what comes `ahead` bytes later lies at a multiple of `to`. */
static void align(nc_text *out, size_t ahead, size_t to) {
    while ((out->n + ahead) % to && !out->failed) put(out, 0, 1);
}

/* The offset at `at` now points to `to`. */
static void point(nc_text *out, size_t at, size_t to) {
    uint32_t distance = (uint32_t)(to - at);
    if (out->failed) return;
    for (int i = 0; i < 4; i++) out->s[at + (size_t)i] = (char)(distance >> 8 * i);
}

uint64_t nc_flat_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

size_t nc_flat_begin(nc_text *out, const char *identifier) {
    put(out, 0, 4);
    nc_text_add_n(out, identifier, 4);
    return 0;
}

/* Gives every field its place in a table that starts at `start`, and the table's length. */
static size_t lay_out(nc_flat_put *fields, int n, size_t start) {
    size_t end = start + 4;
    for (int i = 0; i < n; i++) {
        size_t bytes = fields[i].bytes ? (size_t)fields[i].bytes : 4;
        end = (end + bytes - 1) / bytes * bytes;
        fields[i].at = end;
        end += bytes;
    }
    return end - start;
}

void nc_flat_put_table(nc_text *out, size_t at, nc_flat_put *fields, int n) {
    int n_ids = 0;
    for (int i = 0; i < n; i++) n_ids = fields[i].id >= n_ids ? fields[i].id + 1 : n_ids;
    size_t bytes_vtable = 4 + 2 * (size_t)n_ids;
    align(out, bytes_vtable, 4);
    size_t start = out->n + bytes_vtable, bytes = lay_out(fields, n, start);
    put(out, bytes_vtable, 2);
    put(out, bytes, 2);
    for (int id = 0; id < n_ids; id++) {
        size_t where = 0;
        for (int i = 0; i < n; i++)
            if (fields[i].id == id) where = fields[i].at - start;
        put(out, where, 2);
    }
    put(out, bytes_vtable, 4);
    for (int i = 0; i < n; i++) {
        while (out->n < fields[i].at && !out->failed) put(out, 0, 1);
        put(out, fields[i].bytes ? fields[i].bits : 0, fields[i].bytes ? fields[i].bytes : 4);
    }
    point(out, at, start);
}

void nc_flat_put_string(nc_text *out, size_t at, const char *s, size_t n) {
    nc_flat_put_vector(out, at, s, n, 1);
    put(out, 0, 1);
}

void nc_flat_put_vector(nc_text *out, size_t at, const void *p, size_t n, size_t bytes_elem) {
    align(out, 4, bytes_elem < 4 ? 4 : bytes_elem);
    point(out, at, out->n);
    put(out, n, 4);
    if (n) nc_text_add_n(out, p, n * bytes_elem);
}

size_t nc_flat_put_offsets(nc_text *out, size_t at, size_t n) {
    align(out, 4, 4);
    point(out, at, out->n);
    put(out, n, 4);
    size_t first = out->n;
    for (size_t i = 0; i < n; i++) put(out, 0, 4);
    return first;
}
