/* cuda/text.c: puts the kernel texts into the library byte by byte, each ended by a NUL, and joins them. The assembler
 * reads the files: NC_TEXT_DIR holds them without comments (cmake/squeeze.cmake), given by the build for this file
 * alone. */
#include "kernels/cuda/text.h"

#include <stddef.h>

#define TEXT(name, path)                            \
    __asm__(".section .rodata\n"                    \
            ".global nck_cuda_bytes_" #name "\n"    \
            ".hidden nck_cuda_bytes_" #name "\n"    \
            "nck_cuda_bytes_" #name ":\n"           \
            ".incbin \"" NC_TEXT_DIR "/" path "\"\n" \
            ".byte 0\n"                             \
            ".previous\n");                         \
    extern const char nck_cuda_bytes_##name[];
#include "kernels/cuda/texts.list"
#undef TEXT

static const char *const texts[] = {
#define TEXT(name, path) nck_cuda_bytes_##name,
#include "kernels/cuda/texts.list"
#undef TEXT
};

static const char *const names[] = {
#define TEXT(name, path) #name,
#include "kernels/cuda/texts.list"
#undef TEXT
};

const char *nck_cuda_text_get(nck_cuda_text which) { return texts[which]; }
const char *nck_cuda_text_name(nck_cuda_text which) { return names[which]; }

static const struct {
    const char *name;
    nc_dtype accumulator;
} types[NC_N_DTYPES] = {
    [NC_FLOAT] = {"float", NC_FLOAT},      [NC_DOUBLE] = {"double", NC_DOUBLE},  [NC_FLOAT16] = {"f16", NC_FLOAT},
    [NC_BFLOAT16] = {"bf16", NC_FLOAT},    [NC_BOOL] = {"bool8", NC_INT64},      [NC_INT8] = {"int8_t", NC_INT64},
    [NC_INT16] = {"int16_t", NC_INT64},    [NC_INT32] = {"int32_t", NC_INT64},   [NC_INT64] = {"int64_t", NC_INT64},
    [NC_UINT8] = {"uint8_t", NC_INT64},    [NC_UINT16] = {"uint16_t", NC_INT64}, [NC_UINT32] = {"uint32_t", NC_INT64},
    [NC_UINT64] = {"uint64_t", NC_UINT64},
};

static bool in_table(nc_dtype t) { return (int)t > 0 && t < NC_N_DTYPES; }
const char *nck_cuda_type_name(nc_dtype t) { return in_table(t) ? types[t].name : NULL; }
nc_dtype nck_cuda_accumulator(nc_dtype t) { return in_table(t) ? types[t].accumulator : NC_UNDEFINED; }

void nck_cuda_text_join(nc_text *out, nck_cuda_text file, nc_dtype t, const char *define) {
    nc_text_add(out, texts[NCK_CUDA_TEXT_common]);
    if (nck_cuda_type_name(t) != NULL)
        nc_text_addf(out, "#define S %s\n#define A %s\n", nck_cuda_type_name(t),
                     nck_cuda_type_name(nck_cuda_accumulator(t)));
    if (define != NULL) nc_text_add(out, define);
    if (file == NCK_CUDA_TEXT_dropout) nc_text_add(out, texts[NCK_CUDA_TEXT_philox]);
    if (file == NCK_CUDA_TEXT_conv || file == NCK_CUDA_TEXT_conv_last || file == NCK_CUDA_TEXT_pool ||
        file == NCK_CUDA_TEXT_pool_max)
        nc_text_add(out, texts[NCK_CUDA_TEXT_window]);
    if (file == NCK_CUDA_TEXT_attention || file == NCK_CUDA_TEXT_attention_plain ||
        file == NCK_CUDA_TEXT_attention_grad || file == NCK_CUDA_TEXT_attention_few)
        nc_text_add(out, texts[NCK_CUDA_TEXT_attention_head]);
    nc_text_add(out, texts[file]);
}
