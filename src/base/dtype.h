/* base/dtype.h: element types. The numbers are ONNX's own, so files and tables need no translation. */
#ifndef NC_BASE_DTYPE_H
#define NC_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum nc_dtype {
    NC_UNDEFINED = 0,
#define X(name, number, bits, class_, text) NC_##name = number,
#include "base/dtypes.list"
#undef X
    NC_N_DTYPES
} nc_dtype;

size_t nc_dtype_bytes(nc_dtype t);                   /* 0 for strings, packed and unknown types */
bool nc_dtype_is_aligned(nc_dtype t, const void *p); /* elements of this type may be read at p */
unsigned nc_dtype_bits(nc_dtype t);                  /* 0 for strings and unknown types */
const char *nc_dtype_name(nc_dtype t);               /* "float"; "?" when unknown */
nc_dtype nc_dtype_parse(const char *name);           /* NC_UNDEFINED when unknown */
char nc_dtype_class(nc_dtype t);                     /* 'F' 'N' 'I' 'U' 'B' 'C' 'S', 0 when unknown */
static inline bool nc_dtype_is_float(nc_dtype t) { return nc_dtype_class(t) == 'F'; } /* one that is computed in */
/* Elements share bytes: such tensors are dense and start on a byte, see base/narrow.h. */
static inline bool nc_dtype_is_packed(nc_dtype t) { return nc_dtype_bits(t) % 8 != 0; }

/* Exact conversions; to half: round to nearest even, overflow to infinity, NaN stays NaN. */
float nc_f16_to_f32(uint16_t h);
uint16_t nc_f32_to_f16(float f);
uint16_t nc_f64_to_f16(double d); /* one rounding */
float nc_bf16_to_f32(uint16_t h);
uint16_t nc_f32_to_bf16(float f);

#endif
