/* cuda/text.c: puts the kernel texts, packed as one, into the library byte by byte, unpacks them when the first is
 * asked for, and joins them. The assembler reads the file: NC_TEXTS is what cmake/squeeze.cmake makes of those that
 * texts.list names, given by the build for this file alone. */
#include "kernels/cuda/text.h"

#include "base/inflate.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

__asm__(".section .rodata\n"
        ".global nck_cuda_packed\n"
        ".hidden nck_cuda_packed\n"
        ".global nck_cuda_packed_end\n"
        ".hidden nck_cuda_packed_end\n"
        "nck_cuda_packed:\n"
        ".incbin \"" NC_TEXTS "\"\n"
        "nck_cuda_packed_end:\n"
        ".previous\n");
extern const uint8_t nck_cuda_packed[], nck_cuda_packed_end[];

enum { ROOM = 5 << 16, END_OF_TEXT = 1 }; /* ROOM: for all texts; were it too small, text_test.c would tell */

static char room[ROOM];
static const char *texts[NCK_CUDA_N_TEXTS];
static pthread_once_t unpacked = PTHREAD_ONCE_INIT;

static void unpack(void) {
    size_t made = 0;
    char *at = room;
    if (!nc_gunzip(nck_cuda_packed, (size_t)(nck_cuda_packed_end - nck_cuda_packed), room, ROOM - 1, &made))
        room[0] = '\0';
    for (int i = 0; i < NCK_CUDA_N_TEXTS; i++) {
        char *end = strchr(at, END_OF_TEXT);
        texts[i] = at;
        at = end != NULL ? end + 1 : room + ROOM - 1;
        if (end != NULL) *end = '\0';
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

/* What stands before a text, in this order. */
#define HEAD(file, head) \
    { NCK_CUDA_TEXT_##file, NCK_CUDA_TEXT_##head }
static const struct {
    nck_cuda_text file, head;
} heads[] = {
    HEAD(dropout, philox),
    HEAD(draw, philox),
    HEAD(draw, normal),
    HEAD(unique, rank),
    HEAD(topk, rank),
    HEAD(topk, scan),
    HEAD(sort, scan),
    HEAD(conv, window),
    HEAD(conv_last, window),
    HEAD(pool, window),
    HEAD(pool_max, window),
    HEAD(norm, norm_head),
    HEAD(norm_sum, norm_head),
    HEAD(norm_grad, norm_head),
    HEAD(attention, attention_head),
    HEAD(attention_plain, attention_head),
    HEAD(attention_grad, attention_head),
    HEAD(attention_seen, attention_head),
    HEAD(attention_few, attention_head),
    HEAD(attention_few, attention_few_head),
    HEAD(attention_bulk, attention_head),
    HEAD(attention_bulk, attention_few_head),
    HEAD(attention_bulk, bulk),
    HEAD(attention_mma, attention_head),
    HEAD(attention_mma, attention_few_head),
    HEAD(attention_mma, bulk),
    HEAD(gemv, gemv_head),
    HEAD(gemv_bulk, bulk),
    HEAD(gemv_bulk, gemv_head),
};

void nck_cuda_text_join(nc_text *out, nck_cuda_text file, nc_dtype t, const char *define) {
    nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_common));
    if (nck_cuda_type_name(t) != NULL)
        nc_text_addf(out, "#define S %s\n#define A %s\n", nck_cuda_type_name(t),
                     nck_cuda_type_name(nck_cuda_accumulator(t)));
    if (define != NULL) nc_text_add(out, define);
    if (define != NULL && strstr(define, "DROPOUT") != NULL) nc_text_add(out, nck_cuda_text_get(NCK_CUDA_TEXT_philox));
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (heads[i].file == file) nc_text_add(out, nck_cuda_text_get(heads[i].head));
    nc_text_add(out, nck_cuda_text_get(file));
}
