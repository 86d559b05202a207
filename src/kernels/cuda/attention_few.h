/* cuda/attention_few.h: attention of few queries over many keys on the GPU, the keys dealt to splits that many blocks
 * read at once and one of which joins them; see attention_few.cuh. f16, bf16 and f32. */
#ifndef NCK_CUDA_ATTENTION_FEW_H
#define NCK_CUDA_ATTENTION_FEW_H

#include "kernels/cuda/attention.h"

/* Rows that are new, k and v (batch, head of keys, n, columns), which become those from at[b] on (NULL: 0) of caches
 * of `rows` rows, the k and v of the call, dense. circular: row numbers count around. */
typedef struct nck_cuda_attn_new {
    const void *k, *v, *at;
    int64_t n, rows, circular;
} nck_cuda_attn_new;

/* Mirrors few_args in attention_few.cuh. */
typedef struct nck_cuda_attn_few_args {
    nck_cuda_attn_args a;
    int64_t n_splits, group;
    void *partial, *counters;
    nck_cuda_attn_new fresh;
    int64_t ahead, stages;
    nck_cuda_site site;
} nck_cuda_attn_few_args;

typedef struct nck_cuda_attn_few {
    nc_dtype type;
    int64_t rows; /* of a block: queries of the heads that share keys */
    nc_function *attend, *splits, *bulk; /* bulk NULL: the GPU does not copy by itself */
    nc_function *mma; /* one query whose heads share keys, on tensor cores; NULL: none is known of */
    int64_t mma_rows, mma_cols; /* rows that it has room for; columns of q, k and v */
} nck_cuda_attn_few;

/* Text that stands in front of the kernel's; rows: of a block. */
void nck_cuda_attn_few_define(int64_t cols, nc_dtype mask, bool softcap, int64_t rows, char *out, size_t bytes);

/* As nck_cuda_attn_prepare; known: heads and number of queries, as far as they are. */
NC_MUST nc_code nck_cuda_attn_few_prepare(nc_device *d, nc_dtype t, int64_t cols, nc_dtype mask, bool softcap,
                                          const nck_cuda_attn_args *known, nck_cuda_attn_few *out, nc_diag *diag);

/* Are these few queries? By dims alone; data and strides are not looked at. */
bool nck_cuda_attn_is_few(nc_dtype t, const nck_cuda_attn_args *a);
/* Grows with every dim; for calls that are few and those that are not. */
size_t nck_cuda_attn_few_workspace(const nck_cuda_attn_args *a);
/* fresh NULL: no new rows. ahead: what was launched last on the stream writes neither k nor v of the call. */
NC_MUST nc_code nck_cuda_attn_few_run(const nck_cuda_attn_few *k, const nc_call *c, const nck_cuda_attn_args *a,
                                      const nck_cuda_attn_new *fresh, bool ahead, void *workspace);

#endif
