/* onnx/wire.c: reading protobuf's wire format. Strict where bytes could mean two things: truncated fields, varints
 * of more than ten bytes or 64 bits, field number 0, groups and unknown wire types all stop the reader with a reason
 * and a place. Padded varints (leading zero groups) are valid protobuf and accepted. Messages themselves stand in
 * proto.h. */
#include "onnx/wire.h"

#include "base/steps.h"

#include <string.h>

void nc_wire_init(nc_wire *r, nc_bytes b) { *r = (nc_wire){b.p, b.p, b.p ? b.p + b.n : b.p, NULL}; }

static bool bad(nc_wire *r, const char *why) {
    r->bad = why;
    return false;
}

bool nc_wire_varint(nc_wire *r, uint64_t *out) {
    uint64_t u = 0;
    const uint8_t *p = r->p;
    for (int shift = 0; shift < 70; shift += 7) {
        if (p == r->end) return bad(r, "a number is cut off");
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return bad(r, "a number has more than 64 bits");
        u |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            r->p = p;
            *out = u;
            return true;
        }
    }
    return bad(r, "a number has more than ten bytes");
}

/* Most numbers, and nearly all tags, have one byte: a forest has millions of them. */
static inline bool varint(nc_wire *r, uint64_t *out) {
    if (r->p == r->end || *r->p >= 0x80) return nc_wire_varint(r, out);
    *out = *r->p++;
    return true;
}

bool nc_wire_fixed(nc_wire *r, int bytes, uint64_t *out) {
    if (r->end - r->p < bytes) return bad(r, "a fixed-size number is cut off");
    uint64_t u = 0;
    for (int i = 0; i < bytes; i++) u |= (uint64_t)r->p[i] << (8 * i);
    r->p += bytes;
    *out = u;
    return true;
}

static bool read_bytes(nc_wire *r, nc_bytes *out) {
    uint64_t n;
    if (!varint(r, &n)) return false;
    if (n > (uint64_t)(r->end - r->p)) return bad(r, "a field is longer than what holds it");
    *out = (nc_bytes){r->p, (size_t)n};
    r->p += n;
    return true;
}

bool nc_wire_next(nc_wire *r, nc_field *f) {
    if (r->bad || r->p == r->end) return false;
    uint64_t tag;
    nc_steps_add(1);
    *f = (nc_field){0};
    if (!varint(r, &tag)) return false;
    if (tag > UINT32_MAX || tag >> 3 == 0) return bad(r, "a field number is out of range");
    f->number = (uint32_t)(tag >> 3);
    f->wire = (int)(tag & 7);
    switch (f->wire) {
    case NC_WIRE_VARINT: return varint(r, &f->u);
    case NC_WIRE_64: return nc_wire_fixed(r, 8, &f->u);
    case NC_WIRE_32: return nc_wire_fixed(r, 4, &f->u);
    case NC_WIRE_BYTES: return read_bytes(r, &f->b);
    case 3:
    case 4: return bad(r, "groups are not supported");
    default: return bad(r, "unknown wire type");
    }
}

bool nc_wire_each(nc_wire *r, uint32_t number, nc_field *f) {
    while (nc_wire_next(r, f))
        if (f->number == number) return true;
    return false;
}

static bool fits(nc_slot_kind kind, int wire) {
    switch (kind) {
    case NC_SLOT_INT: return wire == NC_WIRE_VARINT;
    case NC_SLOT_FLOAT: return wire == NC_WIRE_32;
    case NC_SLOT_INTS: return wire == NC_WIRE_VARINT || wire == NC_WIRE_BYTES;
    case NC_SLOT_FLOATS: return wire == NC_WIRE_32 || wire == NC_WIRE_BYTES;
    case NC_SLOT_DOUBLES: return wire == NC_WIRE_64 || wire == NC_WIRE_BYTES;
    default: return wire == NC_WIRE_BYTES;
    }
}

/* How many numbers a packed field holds; false: it does not end with a whole number. */
static bool count_packed(nc_slot_kind kind, nc_bytes b, size_t *n) {
    size_t size = kind == NC_SLOT_FLOATS ? 4 : 8;
    if (kind != NC_SLOT_INTS) {
        *n = b.n / size;
        return b.n % size == 0;
    }
    nc_wire r;
    uint64_t u;
    nc_wire_init(&r, b);
    for (*n = 0; r.p < r.end; ++*n)
        if (!nc_wire_varint(&r, &u)) return false;
    return true;
}

static nc_code store(nc_work *w, const nc_slot *s, const nc_field *f, const char *message, char *into) {
    uint64_t bit = (uint64_t)1 << s->number, *has = (uint64_t *)(void *)into;
    void *at = into + s->at;
    if (!fits(s->kind, f->wire)) NC_FAIL(w, NC_E_BAD_MODEL, "%s.%s has wire type %d", message, s->name, f->wire);
    if (s->kind <= NC_SLOT_BYTES && (*has & bit)) NC_FAIL(w, NC_E_BAD_MODEL, "%s.%s is there twice", message, s->name);
    *has |= bit;
    size_t n = 1;
    switch (s->kind) {
    case NC_SLOT_INT: *(int64_t *)at = (int64_t)f->u; break;
    case NC_SLOT_FLOAT: {
        uint32_t u = (uint32_t)f->u;
        memcpy(at, &u, 4);
        break;
    }
    case NC_SLOT_BYTES: *(nc_bytes *)at = f->b; break;
    default:
        if (s->kind != NC_SLOT_MANY && f->wire == NC_WIRE_BYTES && !count_packed(s->kind, f->b, &n))
            NC_FAIL(w, NC_E_BAD_MODEL, "%s.%s does not end with a whole number", message, s->name);
        *(size_t *)at += n;
    }
    return NC_OK;
}

nc_code nc_wire_read(nc_work *w, nc_bytes b, const char *message, const nc_slot *slots, void *into) {
    nc_wire r;
    nc_field f;
    const nc_slot *s = slots; /* of the field before: lists repeat it */
    nc_wire_init(&r, b);
    while (nc_wire_next(&r, &f)) {
        if (s->number != f.number)
            for (s = slots; s->number && s->number != f.number;) s++;
        if (s->number) NC_TRY(store(w, s, &f, message, into));
    }
    if (r.bad) NC_FAIL(w, NC_E_BAD_MODEL, "%s: byte %zu of %zu: %s", message, (size_t)(r.p - r.start), b.n, r.bad);
    return NC_OK;
}
