/* cuda/text.h: the kernel texts inside the library, and how they are joined to what NVRTC compiles.
 * A kernel file is compiled once per element type: the joined text defines S (the stored type) and A (the type that
 * sums and formulas use: float for the half types and float, double, int64_t for integers). */
#ifndef NCK_CUDA_TEXT_H
#define NCK_CUDA_TEXT_H

#include "base/dtype.h"
#include "base/text.h"

typedef enum nck_cuda_text {
#define TEXT(name, path) NCK_CUDA_TEXT_##name,
#include "kernels/cuda/texts.list"
#undef TEXT
    NCK_CUDA_N_TEXTS
} nck_cuda_text;

const char *nck_cuda_text_get(nck_cuda_text which);
const char *nck_cuda_text_name(nck_cuda_text which);

/* The name of a stored type in kernel text; NULL: kernels cannot hold it. */
const char *nck_cuda_type_name(nc_dtype t);
/* The type that S = t is computed in; UNDEFINED where type_name is NULL. */
nc_dtype nck_cuda_accumulator(nc_dtype t);

/* Adds a whole source: common, the definitions for t, `define` (text; may be NULL), what the file needs, the file. */
void nck_cuda_text_join(nc_text *out, nck_cuda_text file, nc_dtype t, const char *define);

#endif
