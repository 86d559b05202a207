/* onnx/wire_put.c: writing protobuf's wire format into an nc_text. Out of memory is left in the text's `failed`
 * flag. */
#include "onnx/wire.h"

#include <string.h>

static size_t encode(uint64_t u, char *to) {
    size_t n = 0;
    for (; u >= 0x80; u >>= 7) to[n++] = (char)(u | 0x80);
    to[n++] = (char)u;
    return n;
}

void nc_wire_put_varint(nc_text *out, uint64_t u) {
    char b[10];
    nc_text_add_n(out, b, encode(u, b));
}

static void put_tag(nc_text *out, uint32_t number, int wire) {
    nc_wire_put_varint(out, (uint64_t)number << 3 | (unsigned)wire);
}

void nc_wire_put_int(nc_text *out, uint32_t number, int64_t v) {
    put_tag(out, number, NC_WIRE_VARINT);
    nc_wire_put_varint(out, (uint64_t)v);
}

static void put_f32(nc_text *out, float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    char b[4];
    for (int i = 0; i < 4; i++) b[i] = (char)(u >> (8 * i));
    nc_text_add_n(out, b, 4);
}

void nc_wire_put_float(nc_text *out, uint32_t number, float v) {
    put_tag(out, number, NC_WIRE_32);
    put_f32(out, v);
}

void nc_wire_put_bytes(nc_text *out, uint32_t number, const void *p, size_t n) {
    put_tag(out, number, NC_WIRE_BYTES);
    nc_wire_put_varint(out, n);
    if (n) nc_text_add_n(out, p, n);
}

void nc_wire_put_str(nc_text *out, uint32_t number, const char *s) {
    if (s && *s) nc_wire_put_bytes(out, number, s, strlen(s));
}

void nc_wire_put_ints(nc_text *out, uint32_t number, const int64_t *v, size_t n) {
    if (!n) return;
    nc_wire_mark mark = nc_wire_begin(out, number, n);
    for (size_t i = 0; i < n; i++) nc_wire_put_varint(out, (uint64_t)v[i]);
    nc_wire_end(out, mark);
}

void nc_wire_put_floats(nc_text *out, uint32_t number, const float *v, size_t n) {
    if (!n) return;
    put_tag(out, number, NC_WIRE_BYTES);
    nc_wire_put_varint(out, 4 * (uint64_t)n);
    for (size_t i = 0; i < n; i++) put_f32(out, v[i]);
}

nc_wire_mark nc_wire_begin(nc_text *out, uint32_t number, size_t expect) {
    char room[10] = {0};
    put_tag(out, number, NC_WIRE_BYTES);
    size_t n = encode(expect, room);
    nc_text_add_n(out, room, n);
    return (nc_wire_mark){out->n, n};
}

void nc_wire_end(nc_text *out, nc_wire_mark mark) {
    static const char zeros[10];
    if (out->failed) return;
    char b[10];
    size_t bytes = out->n - mark.body, n = encode(bytes, b), start = mark.body - mark.room;
    if (n > mark.room) nc_text_add_n(out, zeros, n - mark.room);
    if (out->failed) return;
    if (n != mark.room) memmove(out->s + start + n, out->s + mark.body, bytes);
    memcpy(out->s + start, b, n);
    out->n = start + n + bytes;
    out->s[out->n] = 0;
}
