/* onnx/proto.c: the readers of every message, generated from the tables of proto.h. */
#include "onnx/proto.h"

#include <string.h>

#define FIELD_NAME(message, number, kind, field) #message,
#define SLOT(message, number, kind, field) {number, NC_SLOT_##kind, #field, offsetof(SELF, field)},

/* The message's name for diagnostics is that of its first row. */
#define DEFINE(id, FIELDS)                                                      \
    nc_code nc_pb_read_##id(nc_work *w, nc_bytes b, nc_pb_##id *out) {          \
        typedef nc_pb_##id SELF;                                                \
        static const char *const names[] = {FIELDS(FIELD_NAME)};                \
        static const nc_slot slots[] = {FIELDS(SLOT){0, NC_SLOT_INT, NULL, 0}}; \
        memset(out, 0, sizeof *out);                                            \
        return nc_wire_read(w, b, names[0], slots, out);                        \
    }
NC_PB_MESSAGES(DEFINE)
