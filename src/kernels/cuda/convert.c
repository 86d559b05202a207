/* cuda/convert.c: launcher of convert.cu, see convert.h. What a narrow type is stands in base/narrow.c alone: values of
 * its codes, or its format, travel with every launch. */
#include "kernels/cuda/convert.h"

#include <stdio.h>

enum { THREADS = 256, TO_FLOAT = 0, TO_EXPONENT, TO_INTEGER };

/* Mirrors convert_how of convert.cu. */
typedef struct convert_how {
    float value[256];
    int to, fraction, bias, max, overflow, nan, unsigned_zero, saturate, round;
} convert_how;

static bool is_held(nc_dtype t) { return nck_cuda_type_name(t) != NULL || nc_dtype_is_narrow(t); }

bool nck_cuda_convert_takes(nc_dtype from, nc_dtype to) { return is_held(from) && is_held(to); }

static int code_bits(nc_dtype t) { return nc_dtype_is_narrow(t) ? (int)nc_dtype_bits(t) : 0; }

static bool is_integer(nc_dtype t) {
    return !nc_dtype_is_narrow(t) && (nc_dtype_class(t) == 'I' || nc_dtype_class(t) == 'U');
}

nc_dtype nck_cuda_convert_define(nc_dtype from, nc_dtype to, char *define, size_t bytes) {
    char c = nc_dtype_class(from);
    const char *wide = c == 'F' || c == 'N' ? "double" : c == 'I' ? "int64_t" : "uint64_t";
    snprintf(define, bytes, "#define Y %s\n#define W %s\n#define IN %d\n#define OUT %d\n#define INTEGER %d\n",
             nck_cuda_type_name(code_bits(to) ? NC_UINT8 : to), wide, code_bits(from), code_bits(to), is_integer(to));
    return code_bits(from) ? NC_UINT8 : from;
}

nc_code nck_cuda_convert_prepare(nc_device *d, nc_dtype from, nc_dtype to, nc_narrowing how, nck_cuda_convert *out,
                                 nc_diag *diag) {
    char define[128];
    *out = (nck_cuda_convert){.from = from, .to = to, .how = how};
    nc_dtype read = nck_cuda_convert_define(from, to, define, sizeof define);
    return nck_cuda_find(d, NCK_CUDA_TEXT_convert, read, define, "convert", &out->function, diag);
}

nc_code nck_cuda_convert_run(const nck_cuda_convert *k, nck_cuda_at at, int64_t n, const void *x, void *y) {
    const nc_narrow_format *f = nc_narrow_format_of(k->to);
    convert_how h = {.to = k->to == NC_FLOAT8E8M0         ? TO_EXPONENT
                           : nc_dtype_class(k->to) == 'N' ? TO_FLOAT
                                                          : TO_INTEGER,
                     .fraction = f->fraction,
                     .bias = f->bias,
                     .max = f->max,
                     .overflow = f->overflow,
                     .nan = f->nan,
                     .unsigned_zero = f->unsigned_zero,
                     .saturate = k->how.saturate,
                     .round = (int)k->how.round};
    for (int i = 0; code_bits(k->from) && i < 1 << code_bits(k->from); i++)
        h.value[i] = nc_narrow_to_f32(k->from, (uint8_t)i);
    int64_t items = code_bits(k->to) ? n / 8 + (n % 8 != 0) : n;
    void *args[] = {&h, &n, &x, &y};
    return nck_cuda_launch(at, k->function, nck_cuda_blocks(at.device, items, THREADS), THREADS, args);
}
