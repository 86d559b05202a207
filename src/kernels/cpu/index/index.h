/* kernels/cpu/index/index.h: elements and rows picked or put by indices, the largest k, what is unique. All tensors are
 * dense. Indices are int32 or int64 and count from the end below 0; one out of range gives DATA and stands in *bad,
 * with the size of its axis in *size. Elements that are only moved may have 1, 2, 4, 8 or 16 bytes. Strings are not
 * handled here. */
#ifndef NCK_INDEX_H
#define NCK_INDEX_H

#include "base/shape.h"
#include "base/status.h"
#include "base/threads.h"

typedef enum nck_combine { NCK_SET, NCK_ADD, NCK_MUL, NCK_MAX, NCK_MIN } nck_combine;

typedef struct nck_bad_index {
    int64_t index, size;
} nck_bad_index;

/* out (dims of index) = data at the place of the element, but for `axis`, where index says. No other dim of index is
 * larger than data's. index may have any strides, here and below. */
NC_MUST nc_code nck_gather_elements(const nc_tensor *data, const nc_tensor *index, int axis, void *out,
                                    nck_bad_index *bad, nc_pool *pool);

/* data (changed in place) at the places that gather_elements reads is combined with src (dims of index), in the order
 * of the elements of src. SET takes any type; the others f32, f64, i32, i64, u64: UNSUPPORTED else. max and min of a
 * NaN are NaN. */
NC_MUST nc_code nck_scatter_elements(nck_combine how, const nc_tensor *data, const nc_tensor *index, int axis,
                                     const void *src, nck_bad_index *bad, nc_pool *pool);

/* Index rows of m = last dim of index, behind `batch` leading dims that data and index share: out (rows, inner). */
NC_MUST nc_code nck_gather_nd(const nc_tensor *data, const nc_tensor *index, int batch, void *out, nck_bad_index *bad,
                              nc_pool *pool);
/* The rows of data that gather_nd reads are combined with those of src, in their order. Types as above. */
NC_MUST nc_code nck_scatter_nd(nck_combine how, const nc_tensor *data, const nc_tensor *index, int batch,
                               const void *src, nck_bad_index *bad, nc_pool *pool);

/* dst (n) = dst combined with src; one type of the list above. */
void nck_combine_row(nck_combine how, nc_dtype type, int64_t n, void *dst, const void *src);

static inline int64_t nck_index_at(const nc_tensor *t, int64_t i) {
    return t->dtype == NC_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* The k first of every (outer, axis, inner) line in the order of `largest`: values and indices (outer, k, inner). Equal
 * values come in the order of their indices; NaN counts as larger than anything. Types f32, f64, i32, i64, u64.
 * */
typedef struct nck_topk {
    nc_dtype type;
    int64_t outer, axis, inner, k;
    bool largest;
    const void *x;
    void *values; /* or NULL */
    int64_t *indices;
} nck_topk;
size_t nck_topk_workspace(int64_t outer, int64_t k, int64_t inner);
void nck_topk_run(const nck_topk *t, void *workspace, nc_pool *pool);

/* Which of n rows of `len` elements are new. order (n), first (n), count (n), inverse (n) are filled; the number of
 * unique rows is returned: the u-th has its first row at first[u], comes count[u] times, and row i is the
 * inverse[i]-th. sorted: by value (NaN last), else by first appearance. Rows lie row_stride elements apart, their
 * elements at outer * outer_stride + inner, with len = outers * inners. scratch holds n int64. */
typedef struct nck_unique {
    nc_dtype type;
    const void *x;
    int64_t n, row_stride, outers, outer_stride, inners;
    bool sorted;
    int64_t *first, *count, *inverse, *order, *scratch;
} nck_unique;
int64_t nck_unique_run(const nck_unique *u);

#endif
