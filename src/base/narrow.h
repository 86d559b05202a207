/* base/narrow.h: elements of at most 8 bits that no processor computes in: floats of 8, 6 and 4 bits, integers of 4 and
 * 2. One element is handled as its code, the low bits of a byte.
 *
 * Packed tensors are one stream of bits, the first element lowest: element i takes bits [i*b, i*b + b). They are dense,
 * start on a byte, and the bits after the last element are 0. Two threads may store into one tensor as long as their
 * elements are cut at multiples of 8. */
#ifndef NC_BASE_NARROW_H
#define NC_BASE_NARROW_H

#include "base/dtype.h"

typedef enum nc_round { NC_ROUND_UP, NC_ROUND_NEAREST, NC_ROUND_DOWN } nc_round; /* ONNX Cast's round_mode */

/* How a number becomes a narrow float. All but float8e8m0 round to nearest, ties to even. */
typedef struct nc_narrowing {
    bool saturate;  /* float8: too large numbers become the largest one, else infinity, or NaN where there is none */
    nc_round round; /* float8e8m0 alone */
} nc_narrowing;

bool nc_dtype_is_narrow(nc_dtype t); /* class 'N', or packed */

/* How the codes of a narrow float are read; float8e8m0 and integers have none. */
typedef struct nc_narrow_format {
    int fraction, bias; /* bits of the fraction; the exponent of code (1 << fraction) is 1 - bias */
    uint8_t max;        /* code of the largest number */
    uint8_t overflow;   /* what comes of larger ones without `saturate`: infinity or NaN; 0: no such code */
    uint8_t nan;        /* 0: none */
    bool unsigned_zero; /* the code of -0 is the NaN */
} nc_narrow_format;
const nc_narrow_format *nc_narrow_format_of(nc_dtype t); /* all 0 where there is none */

/* The value of a code; exact for all types. */
float nc_narrow_to_f32(nc_dtype t, uint8_t code);
/* One rounding. Floats without NaN (6 and 4 bits) saturate always and make a zero of the opposite sign of NaN.
 * Integers take the low bits of the truncated number, as ONNX's cases have it, and make 0 of NaN and infinity. */
uint8_t nc_f64_to_narrow(nc_dtype t, double v, nc_narrowing how);

/* Element i of dense packed or 8-bit data, as its code. Integers: without its sign spread. */
uint8_t nc_narrow_load(nc_dtype t, const void *data, int64_t i);
void nc_narrow_store(nc_dtype t, void *data, int64_t i, uint8_t code);
/* The value of an integer code. */
int nc_narrow_to_int(nc_dtype t, uint8_t code);

#endif
