/* onnx/flat.h: flatbuffers, reading and writing, without knowing any schema.
 *
 * Reading borrows from the input and checks every offset where it is followed: any bytes give values or BAD_MODEL with
 * the field's name and place, and nothing outside the input is touched. Fields are told by their number in the schema.
 * Nothing here recurses: who walks a schema that nests bounds its own depth.
 *
 * Writing goes forward: a table is written with empty offsets, and each is filled when what it points to is written
 * behind it. Everything lies aligned from the start of the buffer, so that verifiers of others accept it. */
#ifndef NC_ONNX_FLAT_H
#define NC_ONNX_FLAT_H

#include "onnx/wire.h"

typedef struct nc_flat_field {
    int id;           /* its number in the schema's table */
    const char *name; /* "Tensor.dims", for messages */
} nc_flat_field;

typedef struct nc_flat_table {
    nc_bytes file;
    size_t at, vtable;
    size_t bytes, bytes_vtable;
} nc_flat_table;

typedef struct nc_flat_vector {
    nc_bytes file;
    size_t at; /* of the first element */
    size_t n;  /* elements; 0 when the field is absent */
    const char *name;
} nc_flat_vector;

bool nc_flat_is(nc_bytes file, const char *identifier); /* four letters behind the root's offset */
NC_MUST nc_code nc_flat_root(nc_work *w, nc_bytes file, const char *identifier, nc_flat_table *out);

/* A number of 1, 4 or 8 bytes; *out stays as it is (the schema's default) when the field is absent. */
NC_MUST nc_code nc_flat_bool(nc_work *w, const nc_flat_table *t, nc_flat_field f, bool *out);
NC_MUST nc_code nc_flat_u8(nc_work *w, const nc_flat_table *t, nc_flat_field f, uint8_t *out);
NC_MUST nc_code nc_flat_i32(nc_work *w, const nc_flat_table *t, nc_flat_field f, int32_t *out);
NC_MUST nc_code nc_flat_i64(nc_work *w, const nc_flat_table *t, nc_flat_field f, int64_t *out);
NC_MUST nc_code nc_flat_f32(nc_work *w, const nc_flat_table *t, nc_flat_field f, float *out);
/* What an offset points to. Absent: *has is false; an empty string with p NULL; no elements. */
NC_MUST nc_code nc_flat_sub(nc_work *w, const nc_flat_table *t, nc_flat_field f, bool *has, nc_flat_table *out);
NC_MUST nc_code nc_flat_string(nc_work *w, const nc_flat_table *t, nc_flat_field f, nc_bytes *out);
NC_MUST nc_code nc_flat_list(nc_work *w, const nc_flat_table *t, nc_flat_field f, size_t bytes_elem,
                             nc_flat_vector *out);
/* Element i, below n, of a vector of offsets (elements of 4 bytes), of int64 or of floats. */
NC_MUST nc_code nc_flat_list_table(nc_work *w, const nc_flat_vector *v, size_t i, nc_flat_table *out);
NC_MUST nc_code nc_flat_list_string(nc_work *w, const nc_flat_vector *v, size_t i, nc_bytes *out);
int64_t nc_flat_list_i64(const nc_flat_vector *v, size_t i);
float nc_flat_list_f32(const nc_flat_vector *v, size_t i);

/* A field to write: a number of `bytes` bytes, or with bytes 0 an offset, whose place is given back in `at`. */
typedef struct nc_flat_put {
    int id;
    int bytes;
    uint64_t bits;
    size_t at;
} nc_flat_put;
uint64_t nc_flat_bits(float f);

/* Places (`at`) are counted from the buffer's start, which is out's. The file begins with begin, whose result is the
 * place of the root's offset. */
size_t nc_flat_begin(nc_text *out, const char *identifier);
void nc_flat_put_table(nc_text *out, size_t at, nc_flat_put *fields, int n);
void nc_flat_put_string(nc_text *out, size_t at, const char *s, size_t n);
void nc_flat_put_vector(nc_text *out, size_t at, const void *p, size_t n, size_t bytes_elem);
/* A vector of n offsets; gives the place of the first, the others follow every 4 bytes. */
size_t nc_flat_put_offsets(nc_text *out, size_t at, size_t n);

#endif
