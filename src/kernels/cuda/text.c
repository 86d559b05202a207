/* cuda/text.c: puts the packed kernel texts into the library byte by byte, unpacks all of them when the first is asked
 * for, and joins them. The assembler reads the files: NC_TEXT_DIR holds what cmake/squeeze.cmake makes of them, given
 * by the build for this file alone. */
#include "kernels/cuda/text.h"

#include "base/inflate.h"

#include <pthread.h>
#include <stddef.h>

#define TEXT(name, path)                                \
    __asm__(".section .rodata\n"                        \
            ".global nck_cuda_bytes_" #name "\n"        \
            ".hidden nck_cuda_bytes_" #name "\n"        \
            ".global nck_cuda_end_" #name "\n"          \
            ".hidden nck_cuda_end_" #name "\n"          \
            "nck_cuda_bytes_" #name ":\n"               \
            ".incbin \"" NC_TEXT_DIR "/" path ".gz\"\n" \
            "nck_cuda_end_" #name ":\n"                 \
            ".previous\n");                             \
    extern const uint8_t nck_cuda_bytes_##name[], nck_cuda_end_##name[];
#include "kernels/cuda/texts.list"
#undef TEXT

static const uint8_t *const packed[][2] = {
#define TEXT(name, path) {nck_cuda_bytes_##name, nck_cuda_end_##name},
#include "kernels/cuda/texts.list"
#undef TEXT
};

enum { ROOM = 1 << 18 }; /* for all texts; those behind its end are empty, which text_test.c would tell */

static char room[ROOM];
static const char *texts[NCK_CUDA_N_TEXTS];
static pthread_once_t unpacked = PTHREAD_ONCE_INIT;

static void unpack(void) {
    size_t at = 0, made;
    for (int i = 0; i < NCK_CUDA_N_TEXTS; i++) {
        texts[i] = "";
        if (!nc_gunzip(packed[i][0], (size_t)(packed[i][1] - packed[i][0]), room + at, ROOM - 1 - at, &made)) continue;
        texts[i] = room + at;
        at += made + 1; /* the room is zeros */
    }
}

static const char *const names[] = {
#define TEXT(name, path) #name,
#include "kernels/cuda/texts.list"
#undef TEXT
};

const char *nck_cuda_text_get(nck_cuda_text which) {
    pthread_once(&unpacked, unpack);
    return texts[which];
}
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
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_common));
    if (nck_cuda_type_name(t) != NULL)
        nc_text_addf(out, "#define S %s\n#define A %s\n", nck_cuda_type_name(t),
                     nck_cuda_type_name(nck_cuda_accumulator(t)));
    if (define != NULL) nc_text_add(out, define);
    if (file == NCK_CUDA_TEXT_dropout) nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_philox));
    if (file == NCK_CUDA_TEXT_conv || file == NCK_CUDA_TEXT_conv_last || file == NCK_CUDA_TEXT_pool ||
        file == NCK_CUDA_TEXT_pool_max)
        nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_window));
    if (file == NCK_CUDA_TEXT_norm || file == NCK_CUDA_TEXT_norm_grad)
        nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_norm_head));
    if (file == NCK_CUDA_TEXT_attention || file == NCK_CUDA_TEXT_attention_plain ||
        file == NCK_CUDA_TEXT_attention_grad || file == NCK_CUDA_TEXT_attention_few)
        nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_attention_head));
    nc_text_add(out, nck_cuda_text_get(file));
}
