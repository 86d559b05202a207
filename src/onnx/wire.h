/* onnx/wire.h: protobuf's wire format, reading and writing, without knowing any message.
 *
 * Reading never copies: nc_bytes borrows from the input. A message is first read whole with nc_wire_read, which
 * checks its syntax and the wire type of every known field, fills single fields and counts repeated ones; after that
 * the repeated fields are walked with nc_wire_each, which can no longer fail. Unknown fields are skipped; groups are
 * refused; nothing here recurses. Writing appends to an nc_text, whose `failed` flag tells of lost memory at the
 * end. */
#ifndef NC_ONNX_WIRE_H
#define NC_ONNX_WIRE_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct nc_bytes {
    const uint8_t *p;
    size_t n;
} nc_bytes;

enum { NC_WIRE_VARINT = 0, NC_WIRE_64 = 1, NC_WIRE_BYTES = 2, NC_WIRE_32 = 5 };

typedef struct nc_wire {
    const uint8_t *start, *p, *end;
    const char *bad; /* what is wrong at p; NULL: nothing yet */
} nc_wire;

typedef struct nc_field {
    uint32_t number;
    int wire;
    uint64_t u; /* VARINT, 64, 32 */
    nc_bytes b; /* BYTES */
} nc_field;

void nc_wire_init(nc_wire *r, nc_bytes b);
bool nc_wire_next(nc_wire *r, nc_field *f);       /* false: at the end, or bad */
bool nc_wire_varint(nc_wire *r, uint64_t *out);   /* at most ten bytes and 64 bits; false: bad */
bool nc_wire_fixed(nc_wire *r, int bytes, uint64_t *out); /* little-endian, 4 or 8 */
/* The next field of that number in a message that nc_wire_read accepted. */
bool nc_wire_each(nc_wire *r, uint32_t number, nc_field *f);

/* What a known field is. MANY: repeated strings or messages; INTS, FLOATS, DOUBLES: repeated numbers, packed or not. */
typedef enum nc_slot_kind {
    NC_SLOT_INT, NC_SLOT_FLOAT, NC_SLOT_BYTES, NC_SLOT_MANY, NC_SLOT_INTS, NC_SLOT_FLOATS, NC_SLOT_DOUBLES
} nc_slot_kind;

typedef struct nc_slot {
    uint32_t number; /* below 64; 0 ends the table */
    nc_slot_kind kind;
    const char *name;
    size_t at; /* where in the struct: int64_t, float, nc_bytes, or size_t: how many elements */
} nc_slot;

/* Reads a message into a struct whose first member is the mask `uint64_t has`, bit = field number. A single field given
 * twice is refused: readers differ in what they make of it. */
NC_MUST nc_code nc_wire_read(nc_work *w, nc_bytes b, const char *message, const nc_slot *slots, void *into);

void nc_wire_put_varint(nc_text *out, uint64_t u); /* bare, without a tag */
void nc_wire_put_int(nc_text *out, uint32_t number, int64_t v);
void nc_wire_put_float(nc_text *out, uint32_t number, float v);
void nc_wire_put_bytes(nc_text *out, uint32_t number, const void *p, size_t n);
void nc_wire_put_str(nc_text *out, uint32_t number, const char *s); /* nothing when NULL or empty */
void nc_wire_put_ints(nc_text *out, uint32_t number, const int64_t *v, size_t n); /* packed; nothing when n is 0 */
void nc_wire_put_floats(nc_text *out, uint32_t number, const float *v, size_t n);

/* A nested message: begin, its fields, end. `expect` is a guess at its size: right in order of magnitude, and the
 * body need not be moved when the length is put before it. */
typedef struct nc_wire_mark {
    size_t body;
    size_t room; /* bytes left free for the length */
} nc_wire_mark;
nc_wire_mark nc_wire_begin(nc_text *out, uint32_t number, size_t expect);
void nc_wire_end(nc_text *out, nc_wire_mark mark);

#endif
